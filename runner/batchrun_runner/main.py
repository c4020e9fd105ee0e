"""The command line. Each command imports what it needs when it is called: help must not load a model client."""

import os
import signal
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from batchrun_runner.export.options import ExportOptions, Format, Reasoning
from batchrun_runner.standard_output import READER_GONE, GuardedOutput

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


class ExportTools(StrEnum):
    """How tool schemas are written."""

    LIST = "list"
    JSON = "json"


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
def verify(
    file: RunFileArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Results lie in OUTPUT/<runName>/. Default: output.s3 of the file, else data.", show_default=False
        ),
    ] = None,
    sandbox: Annotated[
        SandboxMode | None,
        typer.Option(
            help="container: podman or docker. process: no isolation, commands run as you.", show_default=False
        ),
    ] = None,
) -> None:
    """Judge stored rows again from their artifacts (`collect`), without the agent. Trajectories stay as they are.

    Exit code 0: every row with a verifier has a reward. 1: some were not judged. 2: it cannot run (bad input).
    """
    from batchrun_runner.local.verify_command import run_verify

    raise typer.Exit(run_verify(file, output, sandbox.value if sandbox else None))


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


@app.command()
def export(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER|FILE", help="A result folder, or a file of its rows.", show_default=False)
    ],
    form: Annotated[Format, typer.Option("--format", help="What is written.", show_default=False)],
    output: Annotated[
        str | None, typer.Option(help="Default: beside the rows. -: standard output (JSONL only).", show_default=False)
    ] = None,
    completed_only: Annotated[bool, typer.Option("--completed-only", help="Only rows with a final answer.")] = False,
    reasoning: Annotated[
        Reasoning | None,
        typer.Option(
            help="Default: field (reasoning_content) for openai, tags (<think>) for hermes.", show_default=False
        ),
    ] = None,
    tools: Annotated[
        ExportTools, typer.Option(help="openai: the tool schemas as a list, or as one JSON string (typed loading).")
    ] = ExportTools.LIST,
    no_metadata: Annotated[bool, typer.Option("--no-metadata", help="openai: messages and tools only.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that no export wrote.")] = False,
) -> None:
    """Write trajectories in a form that trainers take: openai, hermes (JSONL) or parquet. Exit code 2: bad input."""
    _end_on_sigterm()
    from batchrun_runner.export.command import run_export

    options = ExportOptions(
        form,
        output,
        completed_only,
        reasoning,
        tools_as_json=tools is ExportTools.JSON,
        metadata=not no_metadata,
        overwrite=overwrite,
    )
    raise typer.Exit(run_export(Path(source), options))


@app.command()
def report(
    place: Annotated[
        str,
        typer.Argument(metavar="FOLDER|S3", help="A result: its folder, or s3://bucket/prefix.", show_default=False),
    ],
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
) -> None:
    """Serve a result's report.html on this machine until Ctrl-C. Exit code 2: the place holds no report."""
    from batchrun_runner.local.report_command import run_report

    raise typer.Exit(run_report(place, port))


@app.command(context_settings={"ignore_unknown_options": True})
def translate(
    words: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND LINE", help="A command line of the reference's batch_runner.py."),
    ],
) -> None:
    """Print the BatchRun for a command line of the reference. Exit code 2 for flags that it does not have."""
    from batchrun_runner.translate.command import run_translate

    raise typer.Exit(run_translate(words))


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


_POD_VERBS = frozenset({"plan", "batch", "merge"})
"""Their standard output is read by the operator: where it is lost, so is the step."""
_LEAST_COLUMNS = 40


def run() -> None:
    """Entry point of the console script."""
    _use_a_width_that_can_be_read(os.environ)
    # Looking for plugins of pydantic reads the metadata of every installed package, at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    verb = "".join(sys.argv[1:2])
    if verb in _POD_VERBS:
        sys.exit(app())
    _open_closed_streams(verb)
    output = GuardedOutput(sys.stdout)
    sys.stdout = output
    code: int | str | None = 0
    try:
        app()
    except SystemExit as error:
        code = error.code
    output.flush()
    if output.reader_is_gone and code in {None, 0, 1}:
        code = READER_GONE
    elif output.error is not None and not output.reader_is_gone:
        with suppress(OSError):
            sys.stderr.write(f"standard output cannot be written: {output.error.strerror}\n")
        code = code or 1
    sys.exit(code)


def _open_closed_streams(verb: str) -> None:
    """Python has no stream at all where the shell closed one (`>&-`)."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        # The results of `local` are files. What others print is their result, so its loss must not look like success.
        mode = os.O_WRONLY if verb == "local" else os.O_RDONLY
        sys.stdout = os.fdopen(os.open(os.devnull, mode), "w")


def _use_a_width_that_can_be_read(environ: MutableMapping[str, str]) -> None:
    """COLUMNS=0 or 1, as some shells and schedulers set it, would print nothing or one letter a line."""
    columns = environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) < _LEAST_COLUMNS:
        del environ["COLUMNS"]
