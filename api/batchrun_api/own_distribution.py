"""Distributions of a user's own that lie in ConfigMaps: from their text to probabilities (docs/decisions/0019)."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from batchrun_api.spec.base import ConfigMapKeyRef
from batchrun_api.spec.distribution import DistributionSource, Probabilities
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.toolsets import TOOLSETS, Distribution
from batchrun_api.wording import plain_words

TEXT_LIMIT_BYTES = 16 * 1024
_FORM = "write toolsets and their probabilities in percent: {terminal: 100, web: 30}"
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,8})")
_MODEL = TypeAdapter[Distribution](Probabilities, config=ConfigDict(strict=True))


class DistributionInvalid(ValueError):
    """A text is no distribution; the message says where, and what to write."""


def reference_of(spec: BatchRunSpec) -> ConfigMapKeyRef | None:
    """Where the distribution lies; None: the spec holds it, or names it."""
    choice = spec.distribution
    return choice.config_map_key_ref if isinstance(choice, DistributionSource) else None


def with_probabilities(spec: BatchRunSpec, distribution: Distribution) -> BatchRunSpec:
    """The spec as if the probabilities stood in it."""
    return spec.model_copy(update={"distribution": distribution})


def parse_distribution(text: str) -> Distribution:
    """Probabilities from their YAML or JSON. Raises DistributionInvalid. Whether the toolsets exist, `checks` say.

    The text is written by others: it is read event by event, so that no alias is followed and nothing nests.
    """
    if len(text.encode("utf-8", "replace")) > TEXT_LIMIT_BYTES:
        raise DistributionInvalid(f"is longer than {TEXT_LIMIT_BYTES} bytes; {_FORM}")
    entries: dict[str, int | str] = {}
    scalars = _scalars(text)
    for key, value in zip(scalars, scalars, strict=True):
        if key.value in entries:
            raise DistributionInvalid(f"{key.value[:64]!r} is given twice; leave out one of the two")
        entries[key.value] = _number(value)
    try:
        return _MODEL.validate_python(entries)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        where = str(detail["loc"][0])[:64] + ": " if detail["loc"] else ""
        raise DistributionInvalid(f"{where}{plain_words(detail)}; {_FORM}") from error


def _scalars(text: str) -> Iterator[yaml.ScalarEvent]:
    """Names and numbers of one flat mapping, in turn. Stops at the first that is neither."""
    events = _content(text)
    if not isinstance(next(events, None), yaml.MappingStartEvent):
        raise DistributionInvalid(f"is no mapping; {_FORM}")
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            yield event
            continue
        if not isinstance(event, yaml.MappingEndEvent):
            raise DistributionInvalid(f"{_line(event.start_mark)} is no name and number; {_FORM}")
        if next(events, None) is not None:
            raise DistributionInvalid(f"holds a second document; {_FORM}")


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}" if mark else "one entry"


def _content(text: str) -> Iterator[yaml.Event]:
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if not isinstance(event, _FRAME):
                yield event
    except yaml.MarkedYAMLError as error:
        raise DistributionInvalid(f"is not YAML: {_line(error.problem_mark)}: {error.problem}; {_FORM}") from error
    except yaml.YAMLError as error:
        raise DistributionInvalid(f"is not YAML; {_FORM}") from error


_FRAME = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)


def _number(scalar: yaml.ScalarEvent) -> int | str:
    """A number that is written as people write it (010 is none), or the text, which the model refuses."""
    is_number = scalar.implicit[0] and _WHOLE_NUMBER.fullmatch(scalar.value)
    return int(scalar.value) if is_number else scalar.value


def in_table_order(distribution: Distribution) -> Distribution:
    """As the table of toolsets has it, other names behind: objects that an API server kept have no order."""
    known = [name for name in TOOLSETS if name in distribution]
    return {name: distribution[name] for name in [*known, *sorted(distribution.keys() - TOOLSETS.keys())]}
