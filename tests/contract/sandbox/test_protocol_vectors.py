"""The exchanges of tests/golden/protocol, which the Go tests read too, over a real socket."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.sandbox.conftest import RawRunner, Serve

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "protocol"
EXCHANGES: list[dict[str, Any]] = json.loads((GOLDEN / "exchanges.json").read_text())


def fill(value: Any, cwd: str) -> Any:
    if isinstance(value, str):
        return value.replace("$CWD", cwd)
    if isinstance(value, dict):
        return {key: fill(item, cwd) for key, item in value.items()}
    return [fill(item, cwd) for item in value] if isinstance(value, list) else value


def picked(actual: Any, expected: Any) -> Any:
    """The part of `actual` that `expected` speaks of."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {key: picked(actual.get(key), item) for key, item in expected.items()}
    return actual


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["name"])
def test_an_exchange_ends_as_its_vector_says(
    exchange: dict[str, Any], raw_runner: RawRunner, serve: Serve, tmp_path: Path
) -> None:
    for name, content in exchange.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    serve("--shared-files")
    raw_runner.accept()

    answer = raw_runner.call(exchange["op"], fill(exchange["args"], str(tmp_path)), number=7)

    assert answer["id"] == 7
    if "error" in exchange:
        assert answer["error"]["kind"] == exchange["error"]
        assert answer["error"]["message"]
    else:
        expected = fill(exchange["result"], str(tmp_path))
        assert picked(answer.get("result", answer), expected) == expected
