"""Search and replace, and unified diffs, on texts alone."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchrun_runner.tools.context import ToolFailure
from batchrun_runner.tools.editing import replace_text
from batchrun_runner.tools.unified import apply, parse


def edit(text: str, old: str, new: str, *, everywhere: bool = False) -> str:
    return replace_text(text, old, new, replace_all=everywhere, name="f").text


def patched(text: str, diff: str) -> str:
    (patch,) = parse(diff, "f")
    return apply(patch, text)


def test_every_place_is_replaced_when_asked_for() -> None:
    edited = replace_text("a\nb a\n", "a", "aa", replace_all=True, name="f")

    assert (edited.text, edited.lines) == ("aa\nb aa\n", (1, 2))


def test_a_miss_says_where_its_first_line_is() -> None:
    with pytest.raises(ToolFailure, match="line 2: compare white space"):
        edit("x\n    def f():\n        pass\n", "def f():\n    pass", "")


def test_a_miss_without_any_likeness_says_to_read_again() -> None:
    with pytest.raises(ToolFailure, match="read the file again"):
        edit("x\n", "something else", "")


def test_the_same_text_twice_is_refused() -> None:
    with pytest.raises(ToolFailure, match="the same as"):
        edit("x", "x", "x")


LINE = st.text(alphabet="ab \té", max_size=6)
TEXT = st.lists(LINE, min_size=1, max_size=30).map(lambda lines: "\n".join(lines) + "\n")


@given(TEXT, TEXT)
def test_a_diff_applied_gives_what_it_was_made_from(before: str, after: str) -> None:
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), "a/f", "b/f")
    diff = "".join(lines)

    assert diff == "" or patched(before, diff) == after


def test_wrong_line_numbers_are_found_by_content() -> None:
    assert patched("a\nb\nc\nd\n", "@@ -90,2 +90,2 @@\n c\n-d\n+D\n") == "a\nb\nc\nD\n"


def test_of_equal_places_the_nearest_to_the_stated_line_is_taken() -> None:
    assert patched("x\n" * 9, "@@ -5 +5 @@\n-x\n+y\n") == "x\n" * 4 + "y\n" + "x\n" * 4


def test_a_hunk_without_numbers_must_fit_one_place() -> None:
    assert patched("a\nb\n", "@@\n-b\n+c\n") == "a\nc\n"
    with pytest.raises(ToolFailure, match="fits 2 places"):
        patched("b\nb\n", "@@\n-b\n+c\n")


def test_a_hunk_that_does_not_fit_says_where_it_breaks() -> None:
    with pytest.raises(ToolFailure, match="after line 2 it wants 'x' and finds 'c'"):
        patched("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n b\n-x\n+y\n")
    with pytest.raises(ToolFailure, match="no line is 'z'"):
        patched("a\n", "@@ -1 +1 @@\n-z\n+y\n")


def test_line_ends_of_the_file_are_kept() -> None:
    assert patched("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n") == "a\r\nx\r\nb\r\n"
    assert patched("a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n") == "A\nb"
    assert patched("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n") == "a\nc\n"


def test_a_stripped_blank_of_an_empty_context_line_is_forgiven() -> None:
    assert patched("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n") == "a\n\nc\n"


def test_a_git_diff_of_two_files_is_two_patches() -> None:
    diff = (
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\n"
        "diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"
    )

    first, second = parse(diff, "")

    assert (first.path, first.creates, apply(first, "a\n")) == ("x", False, "b\n")
    assert (second.path, second.creates, apply(second, "")) == ("y", True, "c\n")


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        ("hello", "no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", "names no file"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes a/x"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n*a\n", "line 4 begins neither"),
    ],
)
def test_what_is_no_patch_is_refused_with_the_line(diff: str, words: str) -> None:
    with pytest.raises(ToolFailure, match=words):
        parse(diff, "")
