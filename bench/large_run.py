"""A large run as its batches leave it: data set, plan, batch files and ledgers, without a model having been asked."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_api.plan import PlannedBatch
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.agent.trajectory import to_row
from batchrun_runner.dataset.sources import file_source
from batchrun_runner.ledger.entry import LedgerEntry
from batchrun_runner.ledger.files import new_ledger
from batchrun_runner.ledger.layout import batch_file, ledger_file
from batchrun_runner.ledger.recorder import INDEX_EVERY_BATCHES
from batchrun_runner.ledger.stored import refresh_index
from batchrun_runner.plan import PlanOutcome, make_plan, read_batch_rows
from batchrun_runner.records import PromptResult, ToolStat, Usage
from batchrun_runner.settings import RunSettings
from batchrun_runner.storage.store import ObjectStore

PROMPTS = 100_000
BATCH_SIZE = 10
PLAN = "first"
_PROMPT_BYTES = 500
_ENDED_AT = 1_790_000_000.0
_OUTPUT_LINE = '-rw-r--r-- 1 agent agent 4096 Jan  1 00:00 "results/part one.csv"\t{"rows": 128, "ok": true}\n'


def run_settings() -> RunSettings:
    """The run of all comparisons."""
    spec = BatchRunSpec.model_validate({"dataset": {"inline": "-"}, "batchSize": BATCH_SIZE})
    return RunSettings(spec=spec, run_name="bench")


def write_data_set(path: Path, prompts: int = PROMPTS) -> None:
    """JSON lines with different prompts of about half a kilobyte."""
    with path.open("wb") as file:
        for number in range(prompts):
            text = f"Task {number}: " + "find out what the files hold and say it in one sentence. " * 9
            file.write(orjson.dumps({"prompt": text[:_PROMPT_BYTES], "id": f"task-{number}"}) + b"\n")


def plan_first(store: ObjectStore, data_set: Path) -> PlanOutcome:
    """The first plan, made in this process."""
    return make_plan(run_settings(), store, file_source(data_set), PLAN)


def fill(store: ObjectStore, outcome: PlanOutcome, batches: Sequence[PlannedBatch], row_bytes: int) -> None:
    """Lay down batch files and ledgers of these batches, with rows of about `row_bytes` bytes. No index of ledgers."""
    with ThreadPoolExecutor(store.reads_at_once) as pool:
        list(pool.map(lambda batch: _write_batch(store, outcome, batch, row_bytes), batches))


def fill_as_run(store: ObjectStore, outcome: PlanOutcome, row_bytes: int) -> None:
    """All batches of a plan, with the index of ledgers as a run leaves it: it was renewed some batches ago."""
    batches = outcome.plan.batches
    renewed = len(batches) - len(batches) % INDEX_EVERY_BATCHES
    fill(store, outcome, batches[:renewed], row_bytes)
    refresh_index(store)
    fill(store, outcome, batches[renewed:], row_bytes)


def _write_batch(store: ObjectStore, outcome: PlanOutcome, batch: PlannedBatch, row_bytes: int) -> None:
    body, entries = b"", []
    for row in read_batch_rows(store, PLAN, number=batch.number, offset=batch.offset, length=batch.length):
        result = _result(row.prompt, row_bytes)
        line = to_row(
            row,
            result,
            batch_number=batch.number,
            timestamp="2026-09-21T14:13:20.000000+00:00",
            model="bench",
            config_digest=outcome.config_digest,
        )
        entry = LedgerEntry(
            key=row.key,
            outcome=result.outcome,
            prompt_index=row.index,
            has_reasoning=True,
            id=row.id,
            writer="bench-0123456789ab",
            api_calls=result.api_calls,
            usage=result.usage,
            tool_stats=result.tool_stats,
            assistant_turns=result.assistant_turns,
            turns_with_reasoning=result.turns_with_reasoning,
            seconds=31.25,
            ended_at=_ENDED_AT + row.index,
            config_digest=outcome.config_digest,
            boot_id="0123456789abcdef0123456789abcdef",
        )
        entries.append(entry.of_row(line, len(body)))
        body += line
    store.put(batch_file(batch.number), body, durable=False)
    ledger = new_ledger(batch.number, entries, len(body), file_crc32=crc32(body))
    store.put(ledger_file(batch.number), ledger.encode(), durable=False)


def _result(prompt: str, row_bytes: int) -> PromptResult:
    """Eight tool calls whose results make up most of the row, as in trajectories of a terminal agent."""
    calls = 8
    # About three kilobytes are there besides; a line of output grows by its escapes.
    output = _OUTPUT_LINE * max(0, (row_bytes - 5000) // calls // 104)
    turns: list[dict[str, object]] = [{"from": "human", "value": prompt, "tool_calls": []}]
    for number in range(calls):
        function = {"name": "terminal", "arguments": f'{{"command":"ls -l part{number}"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        turns.append({"from": "gpt", "value": "<think>\nNext one.\n</think>\n", "tool_calls": [call]})
        turns.append({"from": "tool", "value": f"exit code 0\n{output}", "tool_calls": []})
    turns.append({"from": "gpt", "value": "<think>\nDone.\n</think>\nAll parts are there.", "tool_calls": []})
    return PromptResult(
        Outcome.COMPLETED,
        conversations=turns,
        api_calls=calls + 1,
        toolsets=("terminal", "file"),
        tool_stats={"terminal": ToolStat(calls, calls, 0)},
        usage=Usage(12_345, 678, 90),
        assistant_turns=calls + 1,
        turns_with_reasoning=calls + 1,
    )
