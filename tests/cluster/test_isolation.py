"""What a sandbox must not see and must not reach, tried from inside by the terminal tool."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness.runs import Run, Runs, demo_prompt
from tests.cluster.harness.services import serve_by_name
from tests.cluster.harness.talk import calls_prompt, outputs, results, run_python
from tests.cluster.harness.webhook import TOKEN_FOLDER, VARIABLES, identity_webhook
from tests.network_doors import DOORS, REFUSED, STILL_WORK

MEETING_PORT = 47011

SEARCH = """
import json, os, stat, sys
wanted = [word[::-1].encode() for word in sys.argv[1:]]
with open("/tmp/control", "wb") as control:
    control.write(b"the search finds this: " + wanted[0])
found = []
def look(path):
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                body = file.read(1 << 23)
            found.extend(path for word in wanted if word in body)
    except OSError:
        pass
for top in ("/etc", "/run", "/var", "/tmp", "/root", "/home", "/dev", "/mnt", "/srv", "/opt"):
    for folder, _, names in os.walk(top):
        for name in names:
            look(os.path.join(folder, name))
processes = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "mountinfo", "comm"):
        look(f"/proc/{pid}/{name}")
    try:
        with open(f"/proc/{pid}/comm") as file:
            processes[pid] = file.read().strip()
    except OSError:
        pass
with open("/proc/self/mountinfo") as file:
    mounts = [line.split()[4] for line in file]
print(json.dumps({"found": found, "processes": processes, "mounts": mounts, "variables": sorted(os.environ)}))
"""
"""Looks for words that it is given backwards, so that the command that runs it holds none of them."""

REWRITE = """
import json, pathlib, subprocess, sys
before = {path: pathlib.Path(path).read_text() for path in ("/etc/hosts", "/etc/resolv.conf")}
worked = []
for path, text in (("/etc/hosts", f"127.0.0.1 {sys.argv[1]}"), ("/etc/resolv.conf", "nameserver 127.0.0.1")):
    pathlib.Path("/tmp/mine").write_text(text)
    for way in ("cat /tmp/mine > {0}", "cat /tmp/mine >> {0}", "cp -f /tmp/mine {0}", "rm -f {0}", "umount {0}",
                "cp --remove-destination /tmp/mine {0}", "mv -f /tmp/mine {0}", "ln -sf /tmp/mine {0}",
                "chmod 666 {0} && cat /tmp/mine > {0}", "mount -o remount,rw {0}", "mount --bind /tmp/mine {0}"):
        command = way.format(path)
        if subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0:
            worked.append(command)
filled = 0
try:
    with open("/dev/shm/filled", "wb", buffering=0) as file:
        while filled < 256:
            file.write(bytes(1 << 20))
            filled += 1
except OSError:
    pass
print(json.dumps({"before": before, "worked": worked, "filled": filled}))
"""

LISTEN = """
import socket, sys, threading
port, meeting = map(int, sys.argv[1:])
def write(path, data):
    with open(path, "ab") as file:
        file.write(data)
def serve(server, path):
    while True:
        connection, peer = server.accept()
        with connection:
            connection.settimeout(5)
            try:
                data = connection.recv(4096)
            except OSError:
                data = b""
            write(path, b"%r %r\\n" % (peer, data))
def serve_names(server):
    while True:
        data, peer = server.recvfrom(4096)
        write("/tmp/received", b"%r %r\\n" % (peer, data))
write("/tmp/received", b"")
names = socket.socket(type=socket.SOCK_DGRAM)
names.bind(("0.0.0.0", 53))
threading.Thread(target=serve_names, args=[names]).start()
threading.Thread(target=serve, args=[socket.create_server(("0.0.0.0", port)), "/tmp/received"]).start()
serve(socket.create_server(("127.0.0.1", meeting)), "/tmp/visited")
"""

VISIT = """
import json, os, pathlib, socket, sys, time
for _ in range(900):
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
            connection.sendall(b"hello")
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("the neighbour never listened")
seen = {path: pathlib.Path(path).read_text() for path in ("/etc/hosts", "/etc/resolv.conf")}
print(json.dumps({"seen": seen, "shm": os.listdir("/dev/shm")}))
"""

TRACE = """
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
tried = {}
for name, request in (("attach", 16), ("seize", 0x4206)):
    done = libc.ptrace(request, 1, None, None)
    tried[name] = "done" if done == 0 else errno.errorcode[ctypes.get_errno()]
def attempt(name, action):
    try:
        action()
        tried[name] = "done"
    except OSError as error:
        tried[name] = errno.errorcode[error.errno]
attempt("memory", lambda: open("/proc/1/mem", "r+b"))
attempt("environment", lambda: open("/proc/1/environ").read())
attempt("descriptors", lambda: os.readlink("/proc/1/fd/0"))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect("/run/batchrun/runner/s.sock"))
attempt("done file", lambda: open("/run/batchrun/runner/done", "w"))
attempt("helper", lambda: os.remove("/run/batchrun/bin/sandboxd"))
attempt("copy of hosts", lambda: open("/run/batchrun/bin/hosts", "a"))
print(json.dumps(tried))
"""

KILL = "for number in $(seq 1 64); do kill -$number 1 2>/dev/null; done; kill -9 -1 2>/dev/null; echo $BATCHRUN_BOOT_ID"


class Told:
    """What a run is told in secret: values that stand nowhere else."""

    def __init__(self, runs: Runs) -> None:
        self.api_key = f"sk-{secrets.token_hex(12)}"
        self.ephemeral = f"whisper {secrets.token_hex(12)}"
        self.prefill = f"example {secrets.token_hex(12)}"
        self.store_keys = [runs.bucket.access_key, runs.bucket.secret_key]
        literals = [f"--from-literal=api-key={self.api_key}", f"--from-literal=system={self.ephemeral}"]
        runs.kubectl.run("create", "secret", "generic", "model", *literals)

    @property
    def all(self) -> list[str]:
        """Every one of them."""
        return [self.api_key, self.ephemeral, self.prefill, *self.store_keys]

    def reached(self, runs: Runs) -> bool:
        """True: the model was really told."""
        first = json.dumps(runs.model.bodies[0])
        return (
            self.ephemeral in first
            and self.prefill in first
            and f"Bearer {self.api_key}" == runs.model.headers[0]["authorization"]
        )


def has_no_token(run: Run) -> bool:
    """True: no pod of the run mounts a Kubernetes credential, nor any Secret as a file."""
    for pod in run.pods():
        assert pod["spec"]["automountServiceAccountToken"] is False
        sources = [source for volume in pod["spec"]["volumes"] for source in volume if source != "name"]
        assert set(sources) <= {"configMap", "downwardAPI", "emptyDir"}, sources
        containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        paths = [mount["mountPath"] for container in containers for mount in container["volumeMounts"]]
        assert not [path for path in paths if "secrets" in path]
        sandboxes = [container for container in containers if container["name"] != "runner"]
        assert not [container["name"] for container in sandboxes if container.get("env") or container.get("envFrom")]
    return True


@pytest.mark.timeout(200)
def test_a_sandbox_finds_no_secret_of_its_run_and_no_other_process(runs: Runs) -> None:
    told = Told(runs)
    backwards = [word[::-1] for word in told.all]
    rows = [{"prompt": calls_prompt("search", run_python(SEARCH, *backwards))}, {"prompt": "beside it"}]
    run = runs.start(
        "searched",
        rows,
        model={"apiKeySecretRef": {"name": "model", "key": "api-key"}},
        agent={
            "ephemeralSystemPromptFrom": {"secretKeyRef": {"name": "model", "key": "system"}},
            "prefillMessages": [{"role": "user", "content": told.prefill}],
        },
    )
    run.wait_complete(150)

    assert told.reached(runs)
    seen = json.loads(outputs(run.rows()[0])[0])
    assert seen["found"] == ["/tmp/control"]
    assert seen["processes"]["1"] == "sandboxd"
    assert set(seen["processes"].values()) <= {"sandboxd", "bash", "python3"}
    ours = {name for name in seen["variables"] if name.startswith(("AWS_", "BATCHRUN_"))}
    assert ours == {"BATCHRUN_BOOT_ID", "BATCHRUN_EXEC_ID"}
    assert not [path for path in seen["mounts"] if "secrets" in path or path.startswith("/etc/batchrun")]
    assert has_no_token(run)


@pytest.mark.timeout(200)
def test_what_a_run_is_told_in_secret_is_written_nowhere(runs: Runs) -> None:
    told = Told(runs)
    refused = json.dumps([{"status": 400}])
    rows = [{"prompt": "goes well"}, {"prompt": f"is refused\n```demo\n{refused}\n```\n"}]
    run = runs.start(
        "quiet",
        rows,
        model={"apiKeySecretRef": {"name": "model", "key": "api-key"}},
        agent={
            "ephemeralSystemPrompt": told.ephemeral,
            "prefillMessages": [{"role": "user", "content": told.prefill}],
        },
        logging={"level": "debug"},
    )
    status = run.wait_complete(150)

    assert (status["prompts"]["completed"], status["prompts"]["failed"]) == (1, 1)
    assert told.reached(runs)
    kubectl = runs.kubectl
    places = {key: runs.bucket.read(f"{run.prefix}/{key}").decode() for key in runs.bucket.etags(run.prefix)}
    assert len(places) > 5
    for pod in run.pods():
        name = pod["metadata"]["name"]
        places[f"log of {name}"] = kubectl.run("logs", name, "--all-containers")
        places[f"status of {name}"] = json.dumps(pod["status"])
    places["operator's log"] = kubectl.within("batchrun-system").run("logs", "deploy/batchrun", "--since=5m")
    places["events"] = kubectl.run("get", "events", "-o", "json")
    places["status"] = json.dumps(status)
    config_maps = kubectl.run("get", "configmaps", "-o", "json")
    assert "planned" in "".join(places.values()), "no log was read"

    leaks = [(place, word) for place, text in places.items() for word in told.all if word in text]
    assert not leaks
    # An inline prefill is no secret: it may lie in a ConfigMap, as the one of `prefillMessagesFrom` does.
    assert not [word for word in (told.api_key, told.ephemeral, *told.store_keys) if word in config_maps]


@pytest.mark.timeout(200)
def test_a_webhook_that_skips_where_it_is_told_to_gives_no_sandbox_an_identity(
    runs: Runs, node_address: str, tmp_path: Path
) -> None:
    look = f"ls -a {TOKEN_FOLDER} /var/run/secrets /run/secrets 2>/dev/null; env | grep AWS_; echo looked"
    with identity_webhook(runs.kubectl, node_address, tmp_path, honours_skips=True):
        run = runs.start("skipping", [{"prompt": demo_prompt("look", look)}, {"prompt": "beside it"}])
        run.wait_complete(150)

    assert outputs(run.rows()[0]) == ["looked\n"]
    assert [row["outcome"] for row in run.rows()] == ["completed"] * 2
    (pod,) = run.pods("batch")
    given = {c["name"]: {e["name"] for e in c.get("env", [])} for c in pod["spec"]["containers"]}
    assert set(VARIABLES) <= given["runner"], "the webhook did nothing"


@pytest.mark.timeout(200)
def test_a_sandbox_that_sees_an_identity_refuses_to_start_and_the_run_ends(
    runs: Runs, node_address: str, tmp_path: Path
) -> None:
    with identity_webhook(runs.kubectl, node_address, tmp_path, honours_skips=False):
        run = runs.start("everywhere", [{"prompt": demo_prompt("look", "env")}, {"prompt": "beside it"}])
        status = run.wait_complete(150)

    rows = run.rows()
    assert [(row["outcome"], row["reason"]) for row in rows] == [("failed", "IdentityTokenPresent")] * 2
    assert all(f"{TOKEN_FOLDER}/token" in row["message"] for row in rows)
    assert all("AWS_WEB_IDENTITY_TOKEN_FILE" in row["message"] for row in rows)
    assert [row["api_calls"] for row in rows] == [0, 0]
    assert runs.model.requests == 0, "something was executed"
    assert status["prompts"]["failed"] == 2


@pytest.mark.timeout(240)
def test_a_root_sandbox_that_rewrites_hosts_and_listens_receives_nothing_and_changes_nobodys_view(runs: Runs) -> None:
    name, port = serve_by_name(runs)
    attacker = calls_prompt(
        "attacker",
        run_python(REWRITE, name),
        ("write_file", {"path": "/tmp/listen.py", "content": LISTEN}),
        ("terminal", {"command": f"python3 /tmp/listen.py {port} {MEETING_PORT}", "background": True}),
        ("terminal", {"command": "for _ in $(seq 900); do [ -e /tmp/visited ] && break; sleep 0.1; done"}),
        ("terminal", {"command": "id -u; cat /tmp/received /tmp/visited"}),
        reconnect=True,
    )
    neighbour = calls_prompt(
        "neighbour", run_python(VISIT, str(MEETING_PORT)), ("terminal", {"command": "true"}), reconnect=True
    )
    run = runs.start(
        "rewritten",
        [{"prompt": attacker}, {"prompt": neighbour}],
        promptsPerPod=2,
        model={"baseURL": f"http://{name}:{port}/v1"},
    )
    run.wait_complete(200)

    rows = run.rows()
    assert [row["outcome"] for row in rows] == ["completed"] * 2
    tried, *_, received = outputs_of_terminal(rows[0])
    done = json.loads(tried)
    assert done["worked"] == []
    assert 0 < done["filled"] <= 64, "its own /dev/shm has 64 MiB"
    user, *lines = received.splitlines()
    assert user == "0"
    assert ["hello" in line for line in lines] == [True], "more than the neighbour's visit came"
    seen = json.loads(outputs_of_terminal(rows[1])[0])
    assert seen == {"seen": done["before"], "shm": []}
    assert name not in done["before"]["/etc/hosts"]
    assert runs.model.requests == sum(row["api_calls"] for row in rows)
    assert {header["host"] for header in runs.model.headers} == {f"{name}:{port}"}


@pytest.mark.timeout(200)
def test_a_sandbox_that_traces_or_kills_its_first_process_harms_no_other_prompt(runs: Runs) -> None:
    rows = [
        {"prompt": calls_prompt("traces", run_python(TRACE), ("terminal", {"command": "echo $BATCHRUN_BOOT_ID"}))},
        {"prompt": demo_prompt("kills", KILL, "echo $BATCHRUN_BOOT_ID")},
        {"prompt": demo_prompt("works", "sleep 1; echo fine", "echo fine")},
        {"prompt": demo_prompt("works later", "echo fine")},
    ]
    run = runs.start("hostile", rows, promptsPerPod=2)
    run.wait_complete(150)

    traces, kills, works, later = run.rows()
    assert outputs(works) == ["fine\n"] * 2
    assert outputs(later) == ["fine\n"]
    tried, boot_id = outputs(traces)
    assert json.loads(tried) == {
        "attach": "EPERM",
        "seize": "EPERM",
        "memory": "EACCES",
        "environment": "EACCES",
        "descriptors": "EACCES",
        "socket": "ENOENT",
        "done file": "EROFS",
        "helper": "EROFS",
        "copy of hosts": "EROFS",
    }
    assert boot_id.strip() == traces["sandbox"]["boot_id"]
    assert outputs(kills) == [kills["sandbox"]["boot_id"] + "\n"] * 2
    assert [row["outcome"] for row in run.rows()] == ["completed"] * 4


def outputs_of_terminal(row: dict[str, Any]) -> list[str]:
    """Outputs of terminal calls among calls of other tools."""
    return [result["output"] for result in results(row) if "output" in result]


@pytest.mark.timeout(240)
def test_without_a_network_no_door_is_open_in_a_pod_and_the_runner_still_reaches_model_and_store(runs: Runs) -> None:
    prompt = calls_prompt("doors", run_python(DOORS))
    run = runs.start("denied", [{"prompt": prompt}], sandbox={"network": {"mode": "Denied"}})
    assert run.wait_complete(180)["prompts"]["completed"] == 1

    (found,) = [json.loads(text) for row in run.rows() for text in outputs(row)]
    assert {name: found[name] for name in REFUSED} == dict.fromkeys(REFUSED, "EACCES")
    assert {name: found[name] for name in STILL_WORK} == dict.fromkeys(STILL_WORK, "made")
