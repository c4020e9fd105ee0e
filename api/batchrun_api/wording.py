"""What is wrong with a document, in words of the person who wrote it: pydantic's errors without its jargon."""

import re
from collections.abc import Mapping
from typing import Any

from batchrun_api.spec import base, dataset, distribution, output, pod, run, sandbox, tool_models

_NAME = "small letters, digits, - and ., with a letter or digit at both ends"
_PATTERNS = {
    base.OBJECT_NAME: f"must be a Kubernetes name: {_NAME}",
    base.DATA_KEY: "must be the key of a Secret or ConfigMap: letters, digits, -, _ and .",
    base.HTTP_URL: "must be a web address such as https://host:8000/v1, with a port from 1 to 65535 if any",
    base.NO_NUL: "must not hold the character U+0000",
    dataset.URI: "must be an address: s3://bucket/key, https://host/path or file://path",
    output.REGION: "must be the name of a region: small letters, digits and -",
    output.BUCKET: f"must be the name of a bucket: {_NAME}",
    output.PREFIX: "must be a folder without slashes at its ends: letters, digits, / and any of !_.*'()=-",
    pod.LABEL_VALUE: "must be a label's value: letters, digits, -, _ and ., with a letter or digit at both ends",
    run.RUN_NAME: "must begin with a letter or digit and hold letters, digits, ., _ and - only",
    distribution.TOOLSET_NAME: "must be a toolset's name: small letters, digits, - and _",
    run.METADATA_NAME: f"must be a Kubernetes name: {_NAME}",
    base.CIDR: "must be a range of addresses: 10.1.0.0/16, fd00:1::/32",
    tool_models.IMAGE_SIZE: "must be a size in pixels such as 1024x1024, or auto",
    sandbox.IMAGE_PREFIX: "must begin with a registry and hold no tag: docker.io/library, mirror.example.com:5000/hub",
    sandbox.QUANTITY: "must be an amount such as 500m, 2 or 512Mi",
}

_BY_TYPE = {
    "extra_forbidden": "there is no such field",
    "invalid_key": "is a key that is no text; put it in quotes",
    "missing": "is required",
    "value_error": "{error}",
    "literal_error": "must be {expected}",
    "string_type": "must be a text",
    "string_unicode": "holds half a character",
    "string_too_short": "must have at least {min_length} {characters}",
    "string_too_long": "must have at most {max_length} {characters}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping (name: value)",
    "model_type": "must be a mapping (field: value)",
    "model_attributes_type": "must be a mapping (field: value)",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} {entries}",
    "too_long": "must have at most {max_length} {entries}",
    "json_invalid": "is not JSON ({error})",
}
"""Every type of error that the models raise; a test walks through all of them."""


def plain_words(detail: Mapping[str, Any]) -> str:
    """One of `ValidationError.errors()`, which need its context, as words that follow the name of the field.

    Shows no value of the field. A dictionary key that is wrong has "[key]" at the end of its place.
    """
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        words = _PATTERNS.get(context["pattern"], f"must look like {context['pattern']}")
    elif kind in {"string_too_short", "too_short"} and context["min_length"] == 1:
        words = "must not be empty"
    elif kind in _BY_TYPE:
        limit = context.get("min_length", context.get("max_length"))
        plurals = {"characters": "character" if limit == 1 else "characters"}
        plurals["entries"] = "entry" if limit == 1 else "entries"
        words = _BY_TYPE[kind].format(**{**context, **plurals})
    else:
        words = detail["msg"][:1].lower() + detail["msg"][1:]
    words = re.sub(r"'([^' ]+)'", r"\1", words) if kind == "literal_error" else words
    return f"as a key {words}" if detail["loc"] and detail["loc"][-1] == "[key]" else words
