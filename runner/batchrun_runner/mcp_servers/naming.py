"""Names of a server's tools as every model API takes them."""

import hashlib
import re
from collections.abc import Collection

MOST_CHARS = 64
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def offered_name(server: str, tool: str, taken: Collection[str]) -> str:
    """`<server>__<tool>` of A-Z, a-z, 0-9, _ and -, at most 64 characters; a hash keeps apart what that made alike.

    `taken`: names that are given already.
    """
    plain = f"{server}__{tool}"
    name = _OTHER.sub("_", plain)
    number = 0
    while name in taken or len(name) > MOST_CHARS:
        suffix = "_" + hashlib.sha256(f"{plain}\x1f{number}".encode("utf-8", "replace")).hexdigest()[:8]
        name = _OTHER.sub("_", plain)[: MOST_CHARS - len(suffix)] + suffix
        number += 1
    return name
