"""Sets of batch numbers as short text: `0-37,39`."""

from collections.abc import Iterable


def parse_ranges(text: str) -> set[int]:
    """The numbers in `0-37,39`. Raises ValueError on anything else."""
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def format_ranges(numbers: Iterable[int]) -> str:
    """Inverse of `parse_ranges`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
