"""The command line of `kubectl batchrun`. Each command imports what it needs when it is called."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import orjson
import typer

from batchrun_cli.cluster import RunAccess, Target, opened
from batchrun_cli.errors import CANNOT, CommandError

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Watch BatchRuns, find out what failed, run it again, and fetch the results.\n\n"
    "Example: kubectl batchrun watch coding-v1 -n training",
)


class Format(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of the BatchRun.", show_default=False)]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Default: the context's.", show_default=False)
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", help="Context of the kubeconfig. Default: the current one.", show_default=False),
]
KubeconfigOption = Annotated[
    str | None, typer.Option("--kubeconfig", help="Default: $KUBECONFIG, else ~/.kube/config.", show_default=False)
]
FormatOption = Annotated[Format, typer.Option("--output", "-o", help="How it is printed.")]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url", help="The store's address as this machine reaches it. Default: the run's.", show_default=False
    ),
]


@app.command()
def watch(
    run: RunArgument,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show a run until it has ended: bars on a terminal, one line for each change elsewhere.

    Exit code 0: Complete, and no prompt failed. 1: Complete, and prompts failed or did not run. 2: Failed, or it
    cannot be watched.
    """
    from rich.console import Console

    from batchrun_cli.display import display_for
    from batchrun_cli.watching import watch as watch_run

    async def act(access: RunAccess) -> int:
        await access.read()
        display = display_for(Console())
        try:
            return await watch_run(access, display, time.monotonic)
        finally:
            display.close()

    raise typer.Exit(_on(Target(namespace, context, kubeconfig), run, act))


@app.command()
def logs(
    run: RunArgument,
    prompt: Annotated[
        int, typer.Argument(metavar="PROMPT", help="Row of the data set, from 0.", min=0, show_default=False)
    ],
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print what the runners' logs say of one prompt, one JSON object a line.

    Everything that a run logs: kubectl logs -l batchrun.dev/run=RUN
    """
    from batchrun_cli.prompt_logs import of_prompt

    for line, _ in _on(Target(namespace, context, kubeconfig), run, lambda access: of_prompt(access, prompt)):
        typer.echo(line)


@app.command()
def failures(
    run: RunArgument,
    everything: Annotated[
        bool, typer.Option("--all", help="From the merged result in the store, not only the first ten.")
    ] = False,
    output: FormatOption = Format.TEXT,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    endpoint_url: EndpointOption = None,
) -> None:
    """List failed prompts with their reasons. `retry` runs them again."""
    from batchrun_cli.results import failed_rows, store_of
    from batchrun_runner.text import one_line

    async def act(access: RunAccess) -> tuple[list[dict[str, object]], int]:
        seen = await access.read()
        if everything:
            rows = list(failed_rows(await store_of(access, seen, os.environ, endpoint_url)))
            return rows, len(rows)
        return [item.to_wire() for item in seen.status.failures], seen.status.prompts.failed

    found, total = _on(Target(namespace, context, kubeconfig), run, act)
    if output is Format.JSON:
        _print_json(found)
        return
    for item in found:
        name = f" ({item['id']})" if item.get("id") else ""
        typer.echo(one_line(f"{item.get('promptIndex')}{name}: {item['reason']}: {item.get('message') or ''}", 1000))
    if total > len(found):
        typer.echo(f"{len(found)} of {total} failed prompts; --all lists all once results are merged", err=True)


@app.command()
def stats(
    run: RunArgument,
    output: FormatOption = Format.TEXT,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    endpoint_url: EndpointOption = None,
) -> None:
    """Print the figures of the whole run, from statistics.json in the store."""
    from rich.console import Console

    from batchrun_cli.results import statistics, store_of
    from batchrun_runner.merge.run_statistics import Statistics
    from batchrun_runner.merge.table import render_table

    async def act(access: RunAccess) -> dict[str, object]:
        return statistics(await store_of(access, await access.read(), os.environ, endpoint_url))

    document = _on(Target(namespace, context, kubeconfig), run, act)
    if output is Format.JSON:
        _print_json(document)
    else:
        Console().print(render_table(Statistics(document)))


@app.command()
def retry(
    run: RunArgument,
    force: Annotated[bool, typer.Option("--force", help="Also while it runs: its pods are stopped first.")] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Run failed and interrupted prompts again (the annotation batchrun.dev/retry)."""
    from batchrun_cli.control import retry as retry_run

    stamp = str(time.time_ns())
    typer.echo(_on(Target(namespace, context, kubeconfig), run, lambda access: retry_run(access, stamp, force=force)))


@app.command()
def suspend(
    run: RunArgument,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Let running batches finish and start no more (spec.suspend)."""
    from batchrun_cli.control import set_suspended

    typer.echo(_on(Target(namespace, context, kubeconfig), run, lambda access: set_suspended(access, suspended=True)))


@app.command()
def resume(
    run: RunArgument,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Go on with a suspended run. One that has ended goes on by `retry`."""
    from batchrun_cli.control import set_suspended

    typer.echo(_on(Target(namespace, context, kubeconfig), run, lambda access: set_suspended(access, suspended=False)))


@app.command()
def download(
    run: RunArgument,
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Default: ./RUN.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what only resume needs.")] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    endpoint_url: EndpointOption = None,
) -> None:
    """Fetch the results from the store. Running it again fetches only what is new or was interrupted.

    Keys: AWS_* of the environment or AWS_PROFILE; else those of the run's Secret, where you may read it.
    """
    from batchrun_cli.results import download as fetch
    from batchrun_cli.results import store_of

    place = folder or Path(run)

    async def act(access: RunAccess) -> int:
        store = await store_of(access, await access.read(), os.environ, endpoint_url)
        return fetch(
            store,
            place,
            everything=everything,
            tell=lambda key, number, of: typer.echo(f"[{number}/{of}] {key}", err=True),
        )

    count = _on(Target(namespace, context, kubeconfig), run, act)
    typer.echo(f"{place}: {count} fetched" if count else f"{place}: is up to date")


def _on(target: Target, name: str, action: Callable[[RunAccess], Awaitable[T]]) -> T:
    async def act() -> T:
        async with opened(target, name) as access:
            return await action(access)

    return asyncio.run(act())


def _print_json(document: object) -> None:
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def run() -> None:
    """Entry point of the console script."""
    logging.basicConfig(handlers=[logging.NullHandler()])  # what libraries say is in our own lines
    try:
        app(prog_name="kubectl batchrun")
    except CommandError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(CANNOT)
    except KeyboardInterrupt:
        sys.exit(130)
