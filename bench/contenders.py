"""The batch runners of the comparison `peers`: how each is installed, what it reads, and how it is called.

Each has a virtual environment of its own with compiled bytecode: a peer's in the cache, by its requirements; ours made
anew from the checkout.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from batchrun_runner.sandbox.helper import ENV_SANDBOXD, cache_folder, find_sandboxd
from bench.mock_model import MODEL

IN_FLIGHT = 4
_CHECKOUT = Path(__file__).resolve().parents[1]
_KEY = "sk-mock-0123456789abcdef"
_MAX_TURNS = 20


class NotInstalled(Exception):
    """An environment could not be made; the message says why."""


@dataclass(frozen=True)
class Task:
    """What a contender is to do."""

    folder: Path
    """Empty; everything that it writes falls there."""
    base_url: str
    prompts: int
    in_flight: int = IN_FLIGHT


@dataclass(frozen=True)
class Contender:
    """A batch runner."""

    name: str
    how: str
    """What keeps the prompts in flight."""
    command: Callable[[Path, Task], Sequence[str]]
    """Writes its input and gives its command line. The first argument is its environment's folder of programs."""
    requirements: tuple[str, ...] = ()
    """From PyPI; none: ours."""
    environ: Mapping[str, str] = field(default_factory=dict)


def install(contender: Contender, folder: Path) -> Path:
    """The folder of programs of a contender's environment; ours is made in `folder`. Raises NotInstalled."""
    if not contender.requirements:
        return _install_ours(folder)
    digest = hashlib.sha256(" ".join((sys.version, *contender.requirements)).encode()).hexdigest()[:16]
    environment = cache_folder() / "peers" / f"{contender.name}-{digest}"
    marker = environment / ".made"
    if not marker.exists():
        _uv("venv", "--clear", "--python", sys.executable, str(environment))
        _uv_install(environment, *contender.requirements)
        marker.touch()
    return environment / "bin"


def _install_ours(folder: Path) -> Path:
    environment, locks = folder / "environment", _CHECKOUT / "requirements"
    _uv("venv", "--python", sys.executable, str(environment))
    _uv_install(environment, "--require-hashes", "-r", str(locks / "runner.lock"))
    _uv_install(environment, "--no-deps", "--build-constraints", str(locks / "build.lock"), str(_CHECKOUT))
    return environment / "bin"


def _uv_install(environment: Path, *arguments: str) -> None:
    _uv("pip", "install", "--compile-bytecode", "--python", str(environment / "bin" / "python"), *arguments)


def _uv(*arguments: str) -> None:
    programs = sorted(cache_folder().glob("uv-*/bin/uv"))
    if not programs:
        raise NotInstalled(f"there is no uv in {cache_folder()}: run `make .venv/.dev`")
    done = subprocess.run([programs[-1], "--quiet", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled(" ".join(done.stderr.split())[-500:])


def environ_of(contender: Contender, task: Task) -> dict[str, str]:
    """Variables of a contender's process. Nothing outside of this machine can be reached: what some ask the internet
    for when they start (prices, news, more packages) is no part of the work."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(task.folder),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "https_proxy": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        ENV_SANDBOXD: str(find_sandboxd()),
        "MOCK_BASE_URL": task.base_url,
        "MOCK_API_KEY": _KEY,
        **contender.environ,
    }


def _write_lines(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_prompts(task: Task) -> str:
    path = task.folder / "prompts.jsonl"
    _write_lines(path, [{"prompt": f"Print item {number}."} for number in range(task.prompts)])
    return str(path)


def _batch_size(task: Task) -> int:
    return min(10, task.prompts // task.in_flight)


def _ours(programs: Path, task: Task) -> Sequence[str]:
    spec = {
        "dataset": {"uri": f"file://{_write_prompts(task)}"},
        "batchSize": _batch_size(task),
        "numWorkers": task.in_flight,
        "promptsPerPod": 1,
        "distribution": "terminal_only",
        "model": {"name": MODEL, "baseURL": task.base_url},
        "agent": {"maxTurns": _MAX_TURNS},
    }
    run = {"apiVersion": "batchrun.dev/v1alpha1", "kind": "BatchRun", "metadata": {"name": "ours"}, "spec": spec}
    (task.folder / "run.json").write_text(json.dumps(run))
    return [str(programs / "batchrun"), "local", "run.json", "--output", "out", "--sandbox", "process"]


def _hermes(programs: Path, task: Task) -> Sequence[str]:
    return [
        str(programs / "python"),
        *("-m", "batch_runner", f"--dataset_file={_write_prompts(task)}", f"--batch_size={_batch_size(task)}"),
        *("--run_name=R", "--distribution=terminal_only", f"--model={MODEL}", f"--base_url={task.base_url}"),
        *(f"--api_key={_KEY}", f"--max_turns={_MAX_TURNS}", f"--num_workers={task.in_flight}"),
    ]


_INSPECT_TASK = """
from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import bash

@task
def peer_react(n: int) -> Task:
    samples = [Sample(input=f"Print item {number}.", target="hello") for number in range(n)]
    return Task(dataset=samples, solver=react(tools=[bash()]), sandbox="local")
"""


def _inspect(programs: Path, task: Task) -> Sequence[str]:
    (task.folder / "peer.py").write_text(_INSPECT_TASK)
    return [
        str(programs / "inspect"),
        *("eval", "peer.py@peer_react", "-T", f"n={task.prompts}", "--model", f"openai-api/mock/{MODEL}"),
        *("--display", "plain", "--max-samples", str(task.in_flight), "--max-connections", str(task.in_flight)),
    ]


def _mini_swe_agent(programs: Path, task: Task) -> Sequence[str]:
    rows = [
        {"instance_id": f"item-{number}", "problem_statement": f"Print item {number}."}
        for number in range(task.prompts)
    ]
    _write_lines(task.folder / "data" / "train.jsonl", rows)
    config = {
        "environment": {"environment_class": "local", "cwd": str(task.folder), "env": {"BASH_ENV": "/dev/null"}},
        "model": {
            "model_name": f"openai/{MODEL}",
            "cost_tracking": "ignore_errors",
            "model_kwargs": {"api_base": task.base_url, "api_key": _KEY},
        },
    }
    (task.folder / "mock.yaml").write_text(json.dumps(config))
    return [
        str(programs / "mini-extra"),
        *("swebench", "--subset", "data", "--split", "train", "--slice", f"0:{task.prompts}", "-o", "out"),
        *("-w", str(task.in_flight), "-c", "swebench.yaml", "-c", "mock.yaml"),
    ]


OURS = Contender("batchrun", f"numWorkers {IN_FLIGHT}, promptsPerPod 1", _ours)
PEERS = (
    Contender(
        "hermes-agent",
        f"{IN_FLIGHT} processes",
        _hermes,
        ("hermes-agent==0.19.0",),
        {"TERMINAL_ENV": "local", "HERMES_DISABLE_LAZY_INSTALLS": "1"},
    ),
    Contender("inspect-ai", f"{IN_FLIGHT} samples", _inspect, ("inspect-ai==0.3.285", "openai==3.57.0")),
    Contender(
        "mini-swe-agent",
        f"{IN_FLIGHT} threads",
        _mini_swe_agent,
        ("mini-swe-agent==2.4.6", "datasets==5.2.0"),
        {"MSWEA_CONFIGURED": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
)
