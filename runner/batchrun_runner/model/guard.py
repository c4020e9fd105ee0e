"""Foreign words that are about to be stored or logged: do they quote a secret?"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from batchrun_runner.model.clean import with_strings
from batchrun_runner.model.echoes import LEAST_COMMON_CHARS, pieces, plain
from batchrun_runner.model.failures import Failure

REMOVED = "(removed: the API key)"
WITHHELD = "(the server's words are withheld: they quote a secret)"
LIMIT_MESSAGE_CHARS = 500
_SECRET_NAME = re.compile(
    r"api_?key|secret|passw|authorization|credential|bearer|cookie|(access|auth|session|security)_?token|^token$"
)

_T = TypeVar("_T")


class SecretsGuard:
    """Withholds texts that share a piece of at least 16 characters (or the whole, if shorter) with a secret.

    However often the text was escaped for JSON. And takes the key out of replies.
    """

    def __init__(self, secrets: Iterable[str | None], key: str | None = None) -> None:
        # A server without keys is given words such as EMPTY or ollama, which replies may well hold.
        is_real = key is not None and len(key) >= LEAST_COMMON_CHARS
        self._key_forms = {key, json.dumps(key)[1:-1]} if key is not None and is_real else set()
        secrets = [*secrets, key]
        hidden = {plain(secret) for secret in secrets if secret} - {""}
        self._pieces: dict[int, set[str]] = {}
        for secret in hidden:
            size = min(LEAST_COMMON_CHARS, len(secret))
            self._pieces.setdefault(size, set()).update(pieces(secret, size))

    def quotes(self, text: str) -> bool:
        """Whether the text quotes a secret. Only asked of errors, so it need not be fast."""
        words = plain(text)
        return any(not hidden.isdisjoint(pieces(words, size)) for size, hidden in self._pieces.items())

    def safe(self, text: str) -> str:
        """The text, or a note that it is withheld."""
        return WITHHELD if self.quotes(text) else text

    def shown(self, result: _T | Failure) -> _T | Failure:
        """A failure with a message that is safe, and only then cut; anything else as it is."""
        if not isinstance(result, Failure):
            return result
        return replace(result, message=self.safe(result.message)[:LIMIT_MESSAGE_CHARS])

    def without_key(self, value: Any) -> Any:
        """A JSON value with a note in place of the key, in every string of it."""
        return with_strings(value, self._without_key) if self._key_forms else value

    def _without_key(self, text: str) -> str:
        for form in self._key_forms:
            text = text.replace(form, REMOVED)
        return text


def names_secret(name: str) -> bool:
    """Whether a field's name says that its value is a secret."""
    return _SECRET_NAME.search(name.lower().replace("-", "_")) is not None


def secret_values(value: Any, *, is_secret: bool = False) -> Iterator[str]:
    """The texts in a JSON value that stand below a name that says that they are secrets."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from secret_values(item, is_secret=is_secret or names_secret(name))
    elif isinstance(value, list):
        for item in value:
            yield from secret_values(item, is_secret=is_secret)
    elif is_secret and isinstance(value, str):
        yield value
