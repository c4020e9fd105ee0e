"""What a user asks of an export. Light: the command line loads it at every start."""

from dataclasses import dataclass
from enum import StrEnum


class Format(StrEnum):
    """What is written."""

    OPENAI = "openai"
    HERMES = "hermes"
    PARQUET = "parquet"


class Reasoning(StrEnum):
    """Where the reasoning of a reply goes."""

    FIELD = "field"
    """`reasoning_content` of the message: what the chat templates of reasoning models read."""
    TAGS = "tags"
    """`<think>` tags before the text."""
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What a user asked for."""

    format: Format
    output: str | None = None
    """None: beside what is read; `-`: standard output."""
    completed_only: bool = False
    reasoning: Reasoning | None = None
    """None: `field` for openai, `tags` for hermes."""
    tools_as_json: bool = False
    metadata: bool = True
    overwrite: bool = False
