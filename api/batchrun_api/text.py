"""Words with numbers, for messages."""


def counted(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`, `1,000 batches`. `many`: the plural where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
