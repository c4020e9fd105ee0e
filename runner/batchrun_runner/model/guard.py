"""Foreign words that are about to be stored or logged: do they quote a secret?"""

from collections.abc import Iterable

WITHHELD = "(the server's words are withheld: they quote a secret)"
_LONGEST_QUOTE_CHARS = 16
"""Fewer characters than this in common are taken for chance."""


class SecretsGuard:
    """Withholds texts that share a piece of at least 16 characters (or the whole, if shorter) with a secret."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)

    def safe(self, text: str) -> str:
        """The text, or a note that it is withheld. Only called for errors, so it need not be fast."""
        return WITHHELD if any(_quotes(text, secret) for secret in self._secrets) else text


def _quotes(text: str, secret: str) -> bool:
    words, hidden = " ".join(text.split()), " ".join(secret.split())
    size = min(_LONGEST_QUOTE_CHARS, len(hidden))
    if size == 0:
        return False
    pieces = {hidden[start : start + size] for start in range(len(hidden) - size + 1)}
    return any(words[start : start + size] in pieces for start in range(len(words) - size + 1))
