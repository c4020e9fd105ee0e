"""Foreign words that are about to be stored or logged: do they quote a secret?"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from batchrun_runner.model.echoes import LEAST_COMMON_CHARS, pieces, plain
from batchrun_runner.model.failures import Failure

WITHHELD = "(the server's words are withheld: they quote a secret)"
LIMIT_MESSAGE_CHARS = 500

_T = TypeVar("_T")


class SecretsGuard:
    """Withholds texts that share a piece of at least 16 characters (or the whole, if shorter) with a secret.

    However often the text was escaped for JSON.
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
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
