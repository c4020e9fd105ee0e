"""Which strings can be an image reference at all (the grammar of distribution/reference)."""

import re

from batchrun_api.image_names import whole_name

_LONGEST_CHARS = 1024
_LONGEST_NAME_CHARS = 255

_DOMAIN = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\]"
)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:(?:{_DOMAIN})(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?"
)
_BARE_DIGEST = re.compile(r"[a-f0-9]{64}")


def is_same_image(one: str, other: str) -> bool:
    """Whether two references name one image, as far as the names say."""
    return _whole(one) == _whole(other)


def _whole(image: str) -> str:
    name = whole_name(image)
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def is_image_reference(text: str) -> bool:
    """True: a container runtime can try to pull `text`. False: it can never work."""
    if len(text) > _LONGEST_CHARS or _BARE_DIGEST.fullmatch(text):
        return False
    match = _REFERENCE.fullmatch(text)
    return match is not None and len(match["name"]) <= _LONGEST_NAME_CHARS
