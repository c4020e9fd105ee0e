"""The common ground of all API models: camelCase on the wire, nothing unknown, nothing coerced, each rule told once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True)
class Rule:
    """A rule over several fields, in the two languages that check it.

    `cel` is what the API server evaluates, `holds` is the same for `batchrun validate`; a test on a real API
    server compares their verdicts. A rule with `holds=None` speaks of what only the server knows (`oldSelf`).
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    cluster_only: bool = False
    """Not for a run on one machine: checked by `batchrun validate` and the API server, not on loading."""


class ApiModel(BaseModel):
    """Base of every object in `spec` and `status`. Raises `pydantic.ValidationError` with the path of the field."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, value: Any) -> Any:
        """As the API server has it: a field that is null gets its default, or is missing."""
        if not isinstance(value, dict) or None not in value.values():
            return value
        known = {*cls.model_fields, *(field.alias for field in cls.model_fields.values())}
        return {key: item for key, item in value.items() if item is not None or key not in known}

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            if rule.holds is not None and not rule.cluster_only and not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.message} for rule in cls.rules]
        return schema

    def to_wire(self) -> dict[str, Any]:
        """The object as Kubernetes sees it: camelCase keys, fields that are not set left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def given(*values: object) -> int:
    """How many of the values are set. Zero values count as set; None does not."""
    return sum(value is not None for value in values)


_PORT = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = r"(\[[0-9A-Fa-f:.]+(%25[^\s\[\]/?#]+)?\]|[^\s\[\]/?#@:]+)"
WEB_ADDRESS = rf"https?://([^\s/?#@]*@)?{_HOST}(:{_PORT})?([/?#]\S*)?"
"""Part of patterns: no library may find out later that there is no port 99999."""
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
DATA_KEY = r"^[-._a-zA-Z0-9]+$"
HTTP_URL = rf"^{WEB_ADDRESS}$"
NO_NUL = r"^[^\x00]*$"
CIDR = r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=DATA_KEY)]
HttpURL = Annotated[str, Field(min_length=8, max_length=2048, pattern=HTTP_URL)]
ShortText = Annotated[str, Field(min_length=1, max_length=256)]
# U+0000 cannot travel in an environment variable, and no model wants it.
LongText = Annotated[str, Field(min_length=1, max_length=32768, pattern=NO_NUL)]
ImageName = Annotated[str, Field(min_length=1, max_length=1024)]


class SecretKeyRef(ApiModel):
    """One key of a Secret in the run's own namespace."""

    name: ObjectName
    """Name of the Secret."""
    key: DataKey
    """Key in the Secret's data."""


class ConfigMapKeyRef(ApiModel):
    """One key of a ConfigMap in the run's own namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: DataKey
    """Key in the ConfigMap's data."""


class LocalObjectRef(ApiModel):
    """An object in the run's own namespace."""

    name: ObjectName
    """Name of the object."""
