"""What is wrong with one row, and how to mend it; and the words for JSON types that say so."""


class RowFault(Exception):
    """A row that is no prompt: the reason and the fix, for `rows.InvalidRow`."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


def kind_of(value: object, *, article: bool = False) -> str:
    """The JSON type of a value: `list`, or with its article `a list`."""
    if value is None:
        return "null"
    for types, name in ((bool, "boolean"), (str, "string"), ((int, float), "number"), (list, "list")):
        if isinstance(value, types):
            return f"a {name}" if article else name
    return "an object" if article else "object"
