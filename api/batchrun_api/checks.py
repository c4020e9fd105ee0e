"""What a schema cannot say about a spec: checks that `batchrun validate`, `batchrun local` and the operator share."""

from dataclasses import dataclass
from ipaddress import ip_network

from batchrun_api.availability import known_toolsets, lacks
from batchrun_api.conditions import Reason
from batchrun_api.own_container import LEAST_LIMITS, misfits
from batchrun_api.own_distribution import in_table_order, reference_of
from batchrun_api.spec.model import NOT_IN_EXTRA_BODY, not_for_extra_body
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.spec.sandbox import Resources
from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS, Distribution


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One thing that keeps a spec from running: where, and what to do about it."""

    path: tuple[str, ...]
    """Field names below `spec`."""
    message: str
    reason: Reason = Reason.INVALID_SPEC


def distribution_of(spec: BatchRunSpec) -> Distribution | None:
    """The probabilities that the spec asks for, in the order in which ties are decided: TOOLSETS'.

    None for a name that does not exist, and for what lies in a ConfigMap and was not put into the spec yet.
    """
    if isinstance(spec.distribution, dict):
        return in_table_order(spec.distribution)
    return DISTRIBUTIONS.get(spec.distribution) if isinstance(spec.distribution, str) else None


def spec_problems(spec: BatchRunSpec, *, for_cluster: bool) -> list[SpecProblem]:
    """Everything that keeps the spec from running. `for_cluster` adds the rules that only a cluster has.

    Of a distribution that lies in a ConfigMap nothing is known here: it is judged when its probabilities are in.
    """
    cluster_rules = [rule for rule in BatchRunSpec.rules if rule.cluster_only and rule.holds] if for_cluster else []
    return [
        *(SpecProblem((), rule.message) for rule in cluster_rules if rule.holds and not rule.holds(spec)),
        *_extra_body_problems(spec),
        *_distribution_problems(spec),
        *_range_problems(spec),
        *_mcp_problems(spec),
        *_resource_problems(spec.sandbox.resources),
        *([] if for_cluster else _local_problems(spec)),
    ]


def _local_problems(spec: BatchRunSpec) -> list[SpecProblem]:
    """What only a cluster can do. Asked for by name it is refused, never weakened."""
    if spec.sandbox.network.mode != "InternetOnly":
        return []
    message = (
        "InternetOnly is done by a cluster's NetworkPolicy, and one machine has none: set Denied (no network for "
        "commands) or Open (all that this machine reaches), or leave it out, which is Open here"
    )
    return [SpecProblem(("sandbox", "network", "mode"), message)]


def _extra_body_problems(spec: BatchRunSpec) -> list[SpecProblem]:
    """Fields of a request that are ours. Those that other fields of the spec say already are looked at here only."""
    body, model = spec.model.extra_body or {}, spec.model
    refused = dict(NOT_IN_EXTRA_BODY)
    if model.reasoning.effort is not None:
        refused["reasoning"] = "model.reasoning.effort says it already; leave out one of the two"
        refused["chat_template_kwargs"] = refused["reasoning"]
    if model.open_router.providers.given:
        refused["provider"] = "model.openRouter.providers says it already; leave out one of the two"
    return [
        SpecProblem(("model", "extraBody", field), not_for_extra_body(field, fix))
        for field, fix in refused.items()
        if field in body
    ]


def _resource_problems(resources: Resources) -> list[SpecProblem]:
    """Amounts with which no sandbox runs. Kubernetes says the same, but of a Job and much later."""
    path = ("sandbox", "resources")
    problems = []
    for kind, limit, request in misfits(resources.limits, resources.requests):
        name = kind.replace("_", "-")
        if request is None:
            message = f"is {limit}, less than {LEAST_LIMITS[kind]}, which a sandbox needs: raise it"
            problems.append(SpecProblem((*path, "limits", name), message))
        else:
            message = f"is {request}, more than the limit of {limit}: lower it, or raise the limit"
            problems.append(SpecProblem((*path, "requests", name), message))
    return problems


def _range_problems(spec: BatchRunSpec) -> list[SpecProblem]:
    """A schema can say what a range looks like, not whether its bits fit."""
    problems = []
    for name, toolset in (("web", spec.tools.web), ("vision", spec.tools.vision)):
        for text in toolset.allowed_ranges if toolset else ():
            try:
                ip_network(text)
            except ValueError as error:
                problems.append(SpecProblem(("tools", name, "allowedRanges"), f"{text} is no range: {error}"))
    return problems


def _mcp_problems(spec: BatchRunSpec) -> list[SpecProblem]:
    """Names of servers are names of toolsets."""
    names = [server.name for server in spec.tools.mcp_servers]
    problems: list[str] = []
    for number, name in enumerate(names):
        if name in TOOLSETS:
            problems.append(f"{name!r} is a built-in toolset; give the server another name")
        elif name in names[:number]:
            problems.append(f"{name!r} is the name of two servers; rename one of them")
    return [SpecProblem(("tools", "mcpServers"), message) for message in problems]


def _distribution_problems(spec: BatchRunSpec) -> list[SpecProblem]:
    if reference_of(spec) is not None:
        return []
    distribution = distribution_of(spec)
    if distribution is None:
        known = ", ".join(DISTRIBUTIONS)
        return [SpecProblem(("distribution",), f"there is no distribution {spec.distribution!r}; there are {known}")]
    known_toolset_names = known_toolsets(spec)
    listed = ", ".join(known_toolset_names)
    problems = [
        SpecProblem(("distribution", name), f"there is no toolset {name!r}; there are {listed}")
        for name in distribution
        if name not in known_toolset_names
    ]
    if problems:
        return problems
    if not any(distribution.values()):
        return [SpecProblem(("distribution",), "every toolset has probability 0: give at least one of them more")]
    return _unavailable(spec, distribution)


def _unavailable(spec: BatchRunSpec, distribution: Distribution) -> list[SpecProblem]:
    lacking = lacks(spec)
    wanted = [name for name, probability in distribution.items() if probability]
    missing = [name for name in wanted if name in lacking]
    if not missing:
        return []
    listed = ", ".join(f"{name} ({lacking[name]})" for name in missing)
    if len(missing) == len(wanted):
        message = f"none of its toolsets works: {listed}; meet what is missing, or choose another distribution"
        return [SpecProblem(("distribution",), message, Reason.TOOLSET_UNAVAILABLE)]
    if spec.tools.on_unavailable == "Drop":
        return []
    message = (
        f"these toolsets do not work: {listed}; meet what is missing, "
        "set tools.onUnavailable to Drop to run without them, or choose another distribution"
    )
    return [SpecProblem(("distribution",), message, Reason.TOOLSET_UNAVAILABLE)]
