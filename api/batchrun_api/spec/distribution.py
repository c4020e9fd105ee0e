"""Which toolsets prompts get: a distribution by its name, own probabilities, or those of a ConfigMap."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from batchrun_api.spec.base import DATA_KEY, OBJECT_NAME, ApiModel, ConfigMapKeyRef
from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS, WORKING_TOOLSETS

TOOLSET_NAME = r"^[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
DISTRIBUTION_NAME = f"^({'|'.join(DISTRIBUTIONS)})$"
REFERENCE = "configMapKeyRef"
"""No toolset's name: it has capitals."""

Probability = Annotated[int, Field(ge=0, le=100)]
ToolsetName = Annotated[str, Field(min_length=1, max_length=63, pattern=TOOLSET_NAME)]
Probabilities = Annotated[dict[ToolsetName, Probability], Field(min_length=1, max_length=64)]


class DistributionSource(ApiModel):
    """A distribution that lies in a ConfigMap."""

    config_map_key_ref: ConfigMapKeyRef
    """The key is the distribution's name; its text is YAML or JSON, probabilities in percent."""


_OTHER_TOOLSETS = [name for name in TOOLSETS if name not in WORKING_TOOLSETS]
_REFERENCE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Own probabilities from a ConfigMap of the run's namespace; the key is the distribution's name.",
    "required": ["name", "key"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": OBJECT_NAME},
        "key": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": DATA_KEY},
    },
}
_REFERENCE_SCHEMA["properties"]["name"]["description"] = "Name of the ConfigMap."
_REFERENCE_SCHEMA["properties"]["key"]["description"] = "Key in the ConfigMap's data."
# A structural schema has no union, but each check below looks at one kind of value only: the pattern at texts, the
# others at maps. Unknown toolsets beside known ones, and values of other kinds, are left to `checks`.
_KNOWN_ONE = [
    *({"required": [name], "properties": {name: {"minimum": 1}}} for name in (*WORKING_TOOLSETS, *_OTHER_TOOLSETS)),
    {"required": [REFERENCE]},
]
OWN_TOOLSETS_NEED_SERVERS: dict[str, Any] = {
    "anyOf": [
        {"properties": {"distribution": {"anyOf": _KNOWN_ONE}}},
        {
            "required": ["tools"],
            "properties": {"tools": {"required": ["mcpServers"], "properties": {"mcpServers": {"minItems": 1}}}},
        },
    ]
}
"""For the spec: a distribution of none but own toolsets goes with servers of one's own."""
_SCHEMA = {
    "x-kubernetes-preserve-unknown-fields": True,
    "pattern": DISTRIBUTION_NAME,
    "minProperties": 1,
    "maxProperties": 64,
    "properties": {
        name: {"type": "integer", "minimum": 0, "maximum": 100, "description": f"Probability of {name} in percent."}
        for name in TOOLSETS
    }
    | {REFERENCE: _REFERENCE_SCHEMA},
    "anyOf": [
        *_KNOWN_ONE,
        # Toolsets of MCP servers alone: the schema does not know their names.
        {"required": [], "not": {"anyOf": [{"required": [name]} for name in TOOLSETS]}},
    ],
    # A reference stands alone.
    "allOf": [{"anyOf": [{"maxProperties": 1}, {"not": {"required": [REFERENCE]}}]}],
}


def _kind(value: Any) -> str:
    if isinstance(value, DistributionSource) or (isinstance(value, dict) and REFERENCE in value):
        return "source"
    return "own" if isinstance(value, dict) else "name"


DistributionChoice = Annotated[
    Annotated[str, Field(min_length=1, max_length=63), Tag("name")]
    | Annotated[Probabilities, Tag("own")]
    | Annotated[DistributionSource, Tag("source")],
    Discriminator(_kind),
    WithJsonSchema(_SCHEMA),
]
