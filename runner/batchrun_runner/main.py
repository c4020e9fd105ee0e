"""The command line. Each command imports what it needs when it is called: help must not load a model client."""

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Agent trajectories at scale: on Kubernetes, or on this machine.",
)

RunFileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="YAML or JSON of a BatchRun.", show_default=False)
]


class SandboxMode(StrEnum):
    """Where commands run on one machine."""

    CONTAINER = "container"
    PROCESS = "process"


class TableFormat(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@app.command()
def local(
    file: RunFileArgument,
    output: Annotated[Path, typer.Option(help="Results go to OUTPUT/<runName>/.")] = Path("data"),
    sandbox: Annotated[
        SandboxMode | None,
        typer.Option(
            help="container: podman or docker. process: no isolation, commands run as you.", show_default=False
        ),
    ] = None,
) -> None:
    """Run on this machine, without a cluster. Running again goes on from what is stored.

    Exit code 0: every prompt has an outcome and none failed. 1: some failed or did not run. 2: it cannot run (bad
    input, or the model server refuses the key or does not know the model).
    """
    from batchrun_runner.local import run_local

    raise typer.Exit(run_local(file, output, sandbox.value if sandbox else None))


@app.command()
def validate(
    file: RunFileArgument,
    for_local: Annotated[
        bool, typer.Option("--local", help="For a run on this machine: output may be missing.")
    ] = False,
) -> None:
    """Check a BatchRun file as the cluster would. Exit code 2 with line and field of each mistake."""
    from batchrun_runner.documents import InvalidFile, load_run

    try:
        run = load_run(file, for_cluster=not for_local).run
    except InvalidFile as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{file}: BatchRun {run.metadata.name} is valid")


@app.command()
def distributions(
    output: Annotated[TableFormat, typer.Option("--output", "-o", help="Format.")] = TableFormat.TABLE,
) -> None:
    """List the toolset distributions."""
    from batchrun_runner.distributions import render

    typer.echo(render(output.value), nl=False)


@app.command("demo-model")
def demo_model(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    delay_ms: Annotated[int, typer.Option(help="Wait before each reply.", min=0)] = 0,
    script: Annotated[
        Path | None, typer.Option(help="Scripted answers, a YAML or JSON file.", show_default=False)
    ] = None,
) -> None:
    """Serve the demo model: scripted, deterministic answers over an OpenAI-compatible API. It is no model."""
    from batchrun_runner.demo_model.command import serve_forever

    raise typer.Exit(serve_forever(host, port, delay_ms, script))


ConfigOption = Annotated[Path, typer.Option("--config", help="The run's configuration, run.json.")]
PlanIdOption = Annotated[str, typer.Option("--plan-id", help="Id of the plan.")]


@app.command()
def plan(config: ConfigOption, plan_id: PlanIdOption) -> None:
    """In a plan pod: find out what is to be done, and print the plan for the operator."""
    _end_on_sigterm()
    from batchrun_runner.pod import plan_step

    raise typer.Exit(plan_step(config, plan_id))


@app.command()
def batch(
    config: ConfigOption,
    plan_id: PlanIdOption,
    batch: Annotated[int, typer.Option(help="Number of the batch.", min=0)],
    offset: Annotated[int, typer.Option(help="First byte of its rows in the plan's rows object.", min=0)],
    length: Annotated[int, typer.Option(help="Bytes of its rows.", min=1)],
    attempt: Annotated[int, typer.Option(help="Which attempt this is, from 1.", min=1)] = 1,
) -> None:
    """In a batch pod: run the agent over the prompts of one batch."""
    _end_on_sigterm()
    from batchrun_runner.pod import batch_step

    raise typer.Exit(batch_step(config, plan_id, number=batch, offset=offset, length=length, attempt=attempt))


@app.command()
def merge(config: ConfigOption, plan_id: PlanIdOption) -> None:
    """In a merge pod: put the results together."""
    _end_on_sigterm()
    from batchrun_runner.pod import merge_step

    raise typer.Exit(merge_step(config, plan_id))


def _end_on_sigterm() -> None:
    """PID 1 of a container ignores SIGTERM until it has a handler, and the imports take a while."""
    from batchrun_api.exit_codes import ExitCode

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.WORK_LEFT))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(app())
