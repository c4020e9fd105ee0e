"""Words with numbers, for messages."""


def counted(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`, `1,000 batches`. `many`: the plural where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shortened_bytes(text: str, limit_bytes: int) -> str:
    """The text with its end replaced by an ellipsis where it takes more than `limit_bytes`; empty without any room."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return encoded.decode()
    mark = "…"
    return (
        encoded[: max(0, limit_bytes - len(mark.encode()))].decode("utf-8", "ignore") + mark if limit_bytes > 3 else ""
    )
