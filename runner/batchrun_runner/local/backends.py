"""Where commands run on one machine."""

from batchrun_api.own_container import OwnAmounts
from batchrun_api.plan import Plan
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.local.inputs import BadInput
from batchrun_runner.sandbox.backend import SandboxBackend
from batchrun_runner.sandbox.container import ContainerBackend, extra_arguments, find_engine
from batchrun_runner.sandbox.process import ProcessBackend

NO_ISOLATION = "--sandbox process: no isolation. Commands of the model run on this machine as you."

NO_LIMITS = "--sandbox process: no limits. `resources` of rows are ignored."


def backend_for(mode: str | None, spec: BatchRunSpec, *, is_demo: bool) -> tuple[SandboxBackend, str]:
    """The backend and a note for people. `mode` None: containers, or plain processes for the demo model.

    Raises BadInput where containers are wanted and there is no engine.
    """
    if mode == "process" or (mode is None and is_demo):
        return ProcessBackend(), NO_ISOLATION
    engine = find_engine()
    if engine is None:
        raise BadInput(
            "sandboxes need podman or docker, and neither is installed; install one, "
            "or ask for --sandbox process, which is no isolation at all"
        )
    backend = ContainerBackend(
        engine,
        default_image=spec.sandbox.image,
        rewritten=spec.sandbox.rewritten,
        extra_arguments=extra_arguments(),
    )
    return backend, f"sandboxes: containers of {engine}"


def ignored_by(backend: SandboxBackend, plan: Plan) -> str:
    """What rows ask for and this backend cannot give, for people, once; empty where there is nothing to say."""
    if not isinstance(backend, ProcessBackend):
        return ""
    has_resources = any(item.limits != OwnAmounts() or item.requests != OwnAmounts() for item in plan.containers)
    return NO_LIMITS if has_resources else ""
