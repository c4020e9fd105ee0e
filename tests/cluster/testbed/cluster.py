"""The whole cluster: up, down, status, and start, stop, restart of one component for failure tests.

`up` on a healthy cluster only looks. On anything else it removes what is there and starts from nothing: repairing
piece by piece would have to know every way of being half dead. Keys, S3 data and loaded images outlive a repair; the
cluster's objects do not.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.testbed import cleanup, control_plane, dns, images, local_images, node, pki, policy, processes, s3
from tests.cluster.testbed.binaries import ensure_binaries
from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.errors import CommandError, NotReadyError
from tests.cluster.testbed.network import node_ip
from tests.cluster.testbed.packages import ensure_packages
from tests.cluster.testbed.settings import NODE_NAME, Layout, serialize_image_pulls
from tests.cluster.testbed.shell import locked, run, say, wait_until, write_atomically

COMPONENTS: dict[str, Callable[[Context], Component]] = {
    "etcd": control_plane.etcd,
    "kube-apiserver": control_plane.api_server,
    "containerd": node.containerd,
    "kube-controller-manager": control_plane.controller_manager,
    "kube-scheduler": control_plane.scheduler,
    "kubelet": node.kubelet,
    "kube-proxy": node.kube_proxy,
    dns.NAME: dns.server,
    policy.NAME: policy.engine,
    s3.NAME: s3.server,
}
# The others need these: the kubelet ends itself where containerd does not answer.
_FIRST = ("etcd", "kube-apiserver", "containerd")
# It ends itself where the node has not registered yet.
_LAST = (policy.NAME,)


@dataclass(frozen=True)
class ComponentStatus:
    """`running`: the recorded process lives, with the arguments wanted now. `ready`: it answers."""

    name: str
    pid: int | None
    running: bool
    ready: bool


def make_context(layout: Layout | None = None, *, serialize_pulls: bool | None = None) -> Context:
    """Paths, programs (built if missing) and address.

    `serialize_pulls` None: as the environment says, else as the running kubelet has it, else false.
    """
    layout = layout or Layout()
    choices = (serialize_pulls, serialize_image_pulls(), node.configured_serialize_pulls(layout), False)
    wanted = next(choice for choice in choices if choice is not None)
    return Context(layout, ensure_binaries(layout), node_ip(), wanted)


def kubectl(context: Context, *words: str) -> str:
    """kubectl as the cluster's administrator."""
    return run([context.program("kubectl"), "--kubeconfig", pki.kubeconfig_path(context, "admin"), *words])


def start(context: Context, *names: str) -> None:
    """Start components at the same time and wait until all answer; NotReadyError with its log if one does not."""
    waits = [_launch(COMPONENTS[name](context), context.layout) for name in names]
    for wait in waits:
        wait()


def _launch(component: Component, layout: Layout) -> Callable[[], None]:
    """Start one process; the function given back waits until it answers."""
    name = component.name
    component.prepare()
    record = processes.spawn(
        name,
        component.argv,
        pid_dir=layout.pid,
        log_dir=layout.log,
        state=layout.state,
        extra_env=component.extra_env,
    )

    def ended() -> str | None:
        if processes.is_alive(record):
            return None
        return f"the process ended; {layout.log}/{name}.log says:\n{processes.log_tail(layout.log, name)}"

    return lambda: wait_until(name, component.is_ready, timeout_seconds=component.timeout_seconds, give_up=ended)


def stop(context: Context, name: str, *, with_signal: signal.Signals = signal.SIGKILL) -> None:
    """End one component and wait for its end. Containers go on without containerd or kubelet, as on a real node."""
    record = processes.read_record(context.layout.pid, name)
    if record is not None:
        processes.kill(record, with_signal=with_signal)
    processes.record_path(context.layout.pid, name).unlink(missing_ok=True)


def restart(context: Context, name: str, *, with_signal: signal.Signals = signal.SIGKILL) -> None:
    stop(context, name, with_signal=with_signal)
    start(context, name)


def component_status(context: Context, name: str) -> ComponentStatus:
    component = COMPONENTS[name](context)
    record = processes.read_record(context.layout.pid, name)
    running = record is not None and record.argv == component.argv and processes.is_alive(record)
    return ComponentStatus(name, record.pid if record else None, running, running and component.is_ready())


def node_is_ready(context: Context) -> bool:
    """True: the node reports Ready and pods can be made (the default service account is there)."""
    wanted = [f"node/{NODE_NAME}", "serviceaccount/default"]
    path = "{.items[*].status.conditions[?(@.type=='Ready')].status}"
    try:
        return kubectl(context, "get", *wanted, "-n", "default", "-o", f"jsonpath={path}").strip() == "True"
    except CommandError:
        return False


def _is_healthy(context: Context) -> bool:
    """True: every part of Kubernetes runs as wanted and answers. The S3 server is looked after apart.

    A part that runs gets some time to answer: it may have been restarted by a test a moment ago, and a rebuild would
    take the whole cluster away from that test.
    """
    if not (context.layout.pki / "node-ip").is_file():
        return False
    names = [name for name in COMPONENTS if name != s3.NAME]

    def all_ready() -> bool:
        return all(component_status(context, name).ready for name in names) and node_is_ready(context)

    def one_ended() -> str | None:
        return next((f"{name} does not run" for name in names if not component_status(context, name).running), None)

    try:
        wait_until("health of the cluster", all_ready, timeout_seconds=20, give_up=one_ended)
    except NotReadyError as error:
        say(str(error))
        return False
    return True


def _start_all(context: Context) -> None:
    pki.ensure_pki(context)
    pki.write_kubeconfigs(context)
    start(context, *_FIRST)
    local_images.load_pause(context.layout)
    start(context, *(name for name in COMPONENTS if name not in (*_FIRST, *_LAST, s3.NAME)))
    wait_until("node Ready", lambda: node_is_ready(context), timeout_seconds=60)
    start(context, *_LAST)
    images.load_recorded(context.layout)


def publish(layout: Layout, kubeconfig: str, s3_environment: str, tools: Mapping[str, Path]) -> None:
    """Write what people and tests read: kubeconfig, S3 credentials, kubectl, helm, and a file to source."""
    public = layout.public
    write_atomically(layout.kubeconfig, kubeconfig, mode=0o600)
    write_atomically(public / "s3.env", s3_environment, mode=0o600)
    (public / "bin").mkdir(exist_ok=True)
    for name, program in tools.items():
        link = public / "bin" / name
        if not link.is_symlink() or link.readlink() != program:
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    exports = [f"export KUBECONFIG={layout.kubeconfig}", f'export PATH="{public}/bin:$PATH"']
    write_atomically(public / "env", "\n".join([*exports, "set -a", f". {public}/s3.env", "set +a", ""]))


def ensure_s3(context: Context) -> None:
    if not component_status(context, s3.NAME).ready:
        restart(context, s3.NAME)
        say(f"the S3 server is up: {s3.endpoint(context)}")


def up(layout: Layout | None = None, *, serialize_pulls: bool | None = None) -> Context:
    """A healthy cluster with S3 server, made, repaired or found. See the module's words on repair."""
    layout = layout or Layout()
    ensure_packages()
    context = make_context(layout, serialize_pulls=serialize_pulls)
    with locked(layout.lock):
        if _is_healthy(context):
            say("the cluster is healthy")
            if node.configured_serialize_pulls(layout) != context.serialize_image_pulls:
                set_serialize_image_pulls(context, context.serialize_image_pulls)
        else:
            say("removing what an earlier cluster left")
            cleanup.clean(layout)
            say("starting")
            _start_all(context)
            say(f"the cluster is up: {context.api_url}")
        ensure_s3(context)
        tools = {name: context.programs[name] for name in ("kubectl", "helm")}
        publish(layout, pki.kubeconfig_text(context, "admin"), s3.environment_text(context), tools)
        layout.given.unlink(missing_ok=True)
    return context


def down(layout: Layout | None = None) -> None:
    """Stop everything and remove all but the cache. Works without a cluster and without the programs.

    A cluster that was given is only forgotten.
    """
    layout = layout or Layout()
    with locked(layout.lock):
        if layout.state.is_dir() or not layout.given.is_file():
            cleanup.clean(layout)
        cleanup.forget(layout)
    say("the cluster is gone")


def set_serialize_image_pulls(context: Context, value: bool) -> Context:
    """Restart the kubelet with another `serializeImagePulls`; running containers go on."""
    changed = Context(context.layout, context.programs, context.node_ip, value)
    restart(changed, "kubelet")
    wait_until("node Ready", lambda: node_is_ready(changed))
    return changed
