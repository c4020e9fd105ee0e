"""What a prompt is: the digest of what acts in its row, and which of several equal rows it is (docs/decisions/0004)."""

import hashlib
import json
from collections import Counter
from typing import Any

_DIGEST_CHARS = 24
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8. The standard library's, for it must never change."""
    return _ENCODER.encode(value).encode()


def digest_of(data: bytes) -> str:
    """First 24 hex digits of SHA-256: the length of all our digests."""
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]


def text_digest(prompt: str) -> str:
    """What a row of the reference is matched by: its prompt, without white space around it."""
    return digest_of(prompt.strip().encode("utf-8", "surrogatepass"))


class KeyMaker:
    """Gives each row of one data set, in its order, its key `<digest>-<occurrence>-<sample>`."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def key(self, **acting: Any) -> str:
        """The key of the next row, sample 0. Empty fields count as not set; texts must be cleaned, values JSON."""
        digest = digest_of(canonical_json({name: value for name, value in acting.items() if value}))
        occurrence = self._seen[digest]
        self._seen[digest] = occurrence + 1
        return f"{digest}-{occurrence}-0"
