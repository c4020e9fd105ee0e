"""Text for people."""

import pytest

from batchrun_api.text import counted
from batchrun_runner.text import one_line


@pytest.mark.parametrize(
    ("count", "words", "shown"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (1, ("batch", "batches"), "1 batch"),
        (1234, ("batch", "batches"), "1,234 batches"),
    ],
)
def test_a_count_has_the_right_number(count: int, words: tuple[str, ...], shown: str) -> None:
    assert counted(count, *words) == shown


def test_text_becomes_one_line_with_both_of_its_ends() -> None:
    assert one_line(" a\n\tb\r\n\x1b[31mc\u2028d ") == "a b [31mc d"
    long = one_line("begin " + "x" * 5000 + "\n end", 100)
    assert len(long) == 100
    assert long.startswith("begin x")
    assert long.endswith("x end")
    assert one_line("y" * 100, 100) == "y" * 100
