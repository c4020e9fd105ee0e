"""The verb: a command line in, a YAML file on standard output."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from batchrun_runner.translate.spec import Translation, translation
from batchrun_runner.translate.words import NotTranslated, given_values

_USE = "batchrun local FILE runs it on this machine (results in data/<runName>/); a cluster needs output.s3 as well"
_SANDBOX = "each prompt has a sandbox of its own; rows without an image run in sandbox.image"


def run_translate(words: Sequence[str]) -> int:
    """Print the BatchRun for a command line of the reference; returns the exit code, 2 for what nobody can run."""
    try:
        values = given_values(words)
        if values.get("list_distributions") not in {None, "False"}:
            sys.stdout.write("use: batchrun distributions\n")
            return 0
        sys.stdout.write(as_yaml(translation(values)))
    except NotTranslated as error:
        sys.stderr.write(f"translate: {error}\n")
        return 2
    return 0


def as_yaml(made: Translation) -> str:
    """The file, with its comments."""
    head = [f"# Made by batchrun translate. {_USE}", f"# Differs from the reference: {_SANDBOX}."]
    return "\n".join([*head, *_lines(made.document, made.comments, "", "")]) + "\n"


def _lines(node: Mapping[str, Any], comments: Mapping[str, list[str]], path: str, indent: str) -> Iterator[str]:
    for key, value in node.items():
        here = f"{path}.{key}".removeprefix(".")
        yield from (f"{indent}# {comment}" for comment in comments.get(here.removeprefix("spec."), ()))
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _lines(value, comments, here, indent + "  ")
        else:
            text = yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=2**20)
            yield from (f"{indent}{line}" if line else "" for line in text.rstrip("\n").split("\n"))
