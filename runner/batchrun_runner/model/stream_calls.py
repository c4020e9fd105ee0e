"""Tool calls of a streamed reply, put together from their pieces."""

from collections.abc import Mapping
from typing import Any

from batchrun_runner.model.clean import loads_piece


class GrowingCalls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._call_at: dict[int, dict[str, Any]] = {}

    def add(self, pieces: object) -> None:
        """The `tool_calls` of one delta."""
        for position, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, dict):
                self._add_piece(piece, position)

    def _add_piece(self, piece: Mapping[str, Any], position: int) -> None:
        index = piece.get("index")
        has_index = isinstance(index, int)
        place = index if isinstance(index, int) else position
        call = self._call_at.get(place) if has_index else self._with_id(piece) or self._call_at.get(place)
        if call is None or _is_another(call, piece, has_index=has_index):
            call = self._call_at[place] = {"function": {}}
            self.calls.append(call)
        for key, value in piece.items():
            if key == "function":
                if isinstance(value, dict):
                    add_function(call["function"], value)
            elif key != "index" and (key not in call or value not in (None, "")):
                call[key] = value

    def _with_id(self, piece: Mapping[str, Any]) -> dict[str, Any] | None:
        known = _id(piece)
        return next((call for call in self.calls if known is not None and _id(call) == known), None)


def add_function(function: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Put a piece of name or arguments to what is there of the function."""
    name, arguments = piece.get("name"), piece.get("arguments")
    if isinstance(name, str) and name != function.get("name"):  # some servers repeat it in each piece
        function["name"] = function.get("name", "") + name
    if isinstance(arguments, str) and isinstance(function.get("arguments"), str):
        function["arguments"] += arguments
    elif arguments is not None and not (arguments == "" and function.get("arguments")):
        function["arguments"] = arguments


def _is_another(call: Mapping[str, Any], piece: Mapping[str, Any], *, has_index: bool) -> bool:
    """True: the piece begins a call of its own, though it stands where `call` does.

    Another id says so. Where there is none, a name does: another name, unless an index holds the pieces of one name
    together, or the same name with arguments after arguments that were complete.
    """
    if _id(piece) is not None and _id(call) is not None:
        return _id(piece) != _id(call)
    function = piece.get("function")
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None, None)
    known, begun = call["function"].get("name"), call["function"].get("arguments")
    if not (known and isinstance(name, str) and name):
        return False
    if name != known:
        return bool(begun) or not has_index
    return bool(arguments) and _is_complete(begun)


def _id(call: Mapping[str, Any]) -> str | int | None:
    """None: it has none, or what no id can be."""
    given = call.get("id")
    return given if isinstance(given, (str, int)) and given != "" else None


def _is_complete(arguments: object) -> bool:
    if not isinstance(arguments, str):
        return arguments is not None
    try:
        return isinstance(loads_piece(arguments), dict)
    except ValueError:
        return False
