"""BatchRun files as people write them: YAML or JSON, several documents, and problems named by line and field."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from batchrun_api.checks import spec_problems
from batchrun_api.conditions import Reason
from batchrun_api.own_distribution import DistributionInvalid, parse_distribution, reference_of, with_probabilities
from batchrun_api.spec import BatchRun
from batchrun_api.spec.distribution import REFERENCE
from batchrun_api.wording import plain_words
from batchrun_runner.yaml_values import Loader, json_value, key_text


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to mend in a file."""

    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    path: str
    """The field, for instance `spec.batchSize`."""
    message: str

    def __str__(self) -> str:
        return (
            f"{self.line}:{self.column}: {self.path}: {self.message}" if self.path else f"{self.line}: {self.message}"
        )


class InvalidFile(Exception):
    """A file that cannot be used; `problems` says where and why, and is never empty."""

    def __init__(self, file: Path, problems: list[Problem], reason: Reason = Reason.INVALID_SPEC) -> None:
        self.file = file
        self.reason = reason
        self.problems = sorted(problems)
        super().__init__("\n".join(f"{file}:{problem}" for problem in self.problems))


@dataclass(frozen=True)
class RunFile:
    """The BatchRun of a file, and the ConfigMaps that lie beside it in the same file."""

    run: BatchRun
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)


def load_run(file: Path, *, for_cluster: bool) -> RunFile:
    """The one BatchRun of a file, with the probabilities of a distribution that lies in a ConfigMap of the file.

    `for_cluster` also applies the rules that only a cluster has; there the ConfigMap may lie in the cluster alone.
    Raises InvalidFile where the API server or the operator would refuse it, or where there is not exactly one.
    """
    documents = _documents(file)
    runs = [document for document in documents if document.value.get("kind") == "BatchRun"]
    if len(runs) != 1:
        kinds = ", ".join(str(document.value.get("kind", "?")) for document in documents) or "nothing"
        message = f"the file must hold exactly one document of kind BatchRun, found {len(runs)} (kinds: {kinds})"
        raise InvalidFile(file, [Problem(1, 1, "", message)])
    config_maps = _config_maps(file, documents)
    run = _checked(file, runs[0], for_cluster=for_cluster)
    run = _with_distribution(file, runs[0], run, config_maps, for_cluster=for_cluster)
    return RunFile(run, {name: document.value["data"] for name, document in config_maps.items()})


@dataclass(frozen=True)
class _Document:
    node: yaml.MappingNode
    value: dict[str, Any]


def _documents(file: Path) -> list[_Document]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
        nodes = [node for node in yaml.compose_all(text, Loader) if node is not None]
    except OSError as error:
        raise InvalidFile(file, [Problem(1, 1, "", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise InvalidFile(file, [Problem(1, 1, "", f"is not UTF-8 text (byte {error.start})")]) from error
    except RecursionError as error:
        raise InvalidFile(file, [Problem(1, 1, "", "is nested too deeply")]) from error
    except yaml.MarkedYAMLError as error:
        raise InvalidFile(file, [_marked(error)]) from error
    except yaml.YAMLError as error:
        raise InvalidFile(file, [Problem(1, 1, "", f"is not YAML: {error}")]) from error
    return [_document(file, node) for node in nodes]


def _marked(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Problem(line, column, "", f"is not YAML: {error.problem}")


def _document(file: Path, node: yaml.Node) -> _Document:
    if not isinstance(node, yaml.MappingNode):
        raise InvalidFile(file, [_problem_at(node, "", "a document must be an object")])
    if problems := [*_key_problems(node, "", set())]:
        raise InvalidFile(file, problems)
    try:
        value = json_value(node)
    except yaml.MarkedYAMLError as error:
        raise InvalidFile(file, [_marked(error)]) from error
    except RecursionError as error:
        raise InvalidFile(file, [_problem_at(node, "", "is nested too deeply")]) from error
    return _Document(node, value)


def _key_problems(node: yaml.Node, path: str, seen_nodes: set[int]) -> Iterator[Problem]:
    """Keys that are no words, or are given twice: kubectl takes the last one in silence, which nobody means."""
    if id(node) in seen_nodes:
        return  # an alias
    seen_nodes.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _key_problems(child, f"{path}[{index}]", seen_nodes)
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, child in node.value:
            name = key_text(key)
            if name is None:
                yield _problem_at(key, path, "a key must be a plain word")
                continue
            here = f"{path}.{name}".lstrip(".")
            if name in keys:
                yield _problem_at(key, here, "is given twice")
            keys.add(name)
            yield from _key_problems(child, here, seen_nodes)


def _checked(file: Path, document: _Document, *, for_cluster: bool) -> BatchRun:
    try:
        run = BatchRun.model_validate(document.value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidFile(file, [*_problems(document.node, error)]) from error
    found = spec_problems(run.spec, for_cluster=for_cluster)
    if found:
        problems = [_problem(document.node, ("spec", *problem.path), problem.message) for problem in found]
        raise InvalidFile(file, problems, found[0].reason)
    return run


def _with_distribution(
    file: Path, document: _Document, run: BatchRun, config_maps: dict[str, _Document], *, for_cluster: bool
) -> BatchRun:
    """The run with the probabilities that its reference leads to, where it has one."""
    reference = reference_of(run.spec)
    if reference is None:
        return run
    config_map = config_maps.get(reference.name)
    if config_map is None and for_cluster:
        return run
    if config_map is None or reference.key not in config_map.value["data"]:
        message = f"there is no ConfigMap {reference.name} with the key {reference.key} in this file"
        fix = "add the key to it" if config_map else "on one machine it must stand there as a document of its own"
        raise InvalidFile(file, [_problem(document.node, ("spec", "distribution", REFERENCE), f"{message}; {fix}")])
    place = ("data", reference.key)
    try:
        distribution = parse_distribution(config_map.value["data"][reference.key])
    except DistributionInvalid as error:
        raise InvalidFile(file, [_problem(config_map.node, place, str(error))]) from error
    resolved = run.model_copy(update={"spec": with_probabilities(run.spec, distribution)})
    found = spec_problems(resolved.spec, for_cluster=for_cluster)
    if not found:
        return resolved
    if found[0].reason is Reason.TOOLSET_UNAVAILABLE:
        raise InvalidFile(file, [_problem(document.node, ("spec", *found[0].path), found[0].message)], found[0].reason)
    raise InvalidFile(file, [_problem(config_map.node, place, problem.message) for problem in found])


def _config_maps(file: Path, documents: list[_Document]) -> dict[str, _Document]:
    """By name; their data are texts, as the API server has it."""
    found = {
        metadata["name"]: _Document(document.node, document.value | {"data": document.value.get("data") or {}})
        for document in documents
        if document.value.get("kind") == "ConfigMap"
        and isinstance(metadata := document.value.get("metadata"), dict)
        and isinstance(metadata.get("name"), str)
    }
    for document in found.values():
        if not isinstance(document.value["data"], dict):
            raise InvalidFile(file, [_problem(document.node, ("data",), "must be a mapping (name: value)")])
        for key, text in document.value["data"].items():
            if not isinstance(text, str):
                message = "must be a text: put | behind the colon, and the text below it"
                raise InvalidFile(file, [_problem(document.node, ("data", key), message)])
    return found


def _problems(root: yaml.MappingNode, error: ValidationError) -> Iterator[Problem]:
    for detail in error.errors(include_url=False, include_input=False):
        yield _problem(root, detail["loc"], plain_words(detail))


def _problem(root: yaml.Node, loc: tuple[str | int, ...], message: str) -> Problem:
    """Follows `loc` as far as the file goes; what pydantic puts between (names of union members) is passed over."""
    node, path, place = root, "", root
    for step in loc:
        found = _child(node, step)
        if found is not None:
            place, node = found
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        elif step == loc[-1] and isinstance(node, yaml.MappingNode) and message == "is required":
            path += f".{step}"
    return _problem_at(place, path.lstrip("."), message)


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """(where it stands, its value), or None."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key_text(key) == step), None)
    return None


def _problem_at(node: yaml.Node, path: str, message: str) -> Problem:
    return Problem(node.start_mark.line + 1, node.start_mark.column + 1, path, message)
