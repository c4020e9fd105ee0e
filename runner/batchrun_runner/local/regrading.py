"""Judging stored rows again: which of them can be judged, and the verdict of a fresh sandbox with their artifacts."""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from batchrun_api.outcomes import DONE_OUTCOMES, Outcome, Reason
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.batch import sandbox_request
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.artifacts import ArtifactPlace
from batchrun_runner.ledger.matching import Matcher
from batchrun_runner.ledger.stored import load_stored
from batchrun_runner.prompt_keys import without_sample
from batchrun_runner.records import NO_ARTIFACTS, Artifact, Artifacts, LeftOut, PromptRow, Verification
from batchrun_runner.sandbox.backend import SandboxBackend, SandboxLease
from batchrun_runner.sandbox.errors import SandboxLost, SandboxUnavailable, SetupFailed
from batchrun_runner.sandbox.preparing import prepare
from batchrun_runner.sandbox.restoring import put_back, restore
from batchrun_runner.sandbox.verifying import verify
from batchrun_runner.storage.errors import InTheWay, NotFound, RangeMissing
from batchrun_runner.storage.store import ObjectStore

NEVER_STORED = "no end of it is stored; run it first"


@dataclass(frozen=True, slots=True)
class Case:
    """One row that is to be judged again."""

    row: PromptRow
    """As the data set has it today."""
    key: str
    """As it is stored, with its sample; empty where nothing is stored."""
    artifacts: Artifacts = NO_ARTIFACTS
    reward_before: float | None = None
    why_not: str = ""
    """Why it cannot be judged; empty: it can."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case."""

    case: Case
    verification: Verification
    why_not: str = ""
    """Why there is no reward."""


def cases(store: ObjectStore, rows: Iterable[PromptRow]) -> list[Case]:
    """Every sample of every row that has a verifier, in the order of the data set. Raises StorageError."""
    wanted = [row for row in rows if row.verify is not None]
    by_key = {without_sample(row.key): row for row in wanted}
    by_work = {row.work: row for row in wanted if row.work}
    exact: dict[int, dict[str, Case]] = {row.index: {} for row in wanted}
    by_their_work: dict[int, dict[str, Case]] = {row.index: {} for row in wanted}
    for stored in _stored_rows(store):
        key = stored["key"]
        sample = key.rpartition("-")[2]
        if (row := by_key.get(without_sample(key))) is not None:
            exact[row.index][sample] = _case(row, stored)
        elif (row := by_work.get(stored["artifacts"]["work"])) is not None:
            # The same work under another verifier; of several the latest.
            by_their_work[row.index][sample] = _case(row, stored)
    found = {index: list((items or by_their_work[index]).values()) for index, items in exact.items()}
    return [case for row in wanted for case in found[row.index] or [Case(row, "", why_not=NEVER_STORED)]]


def _stored_rows(store: ObjectStore) -> Iterator[dict[str, Any]]:
    """One row for each key, done ones before failed ones; only what is needed of it."""
    for item in Matcher(load_stored(store, keep_lines=False).rows).left():
        try:
            row = orjson.loads(store.get_range(layout.batch_file(item.batch), item.offset, item.length))
        except (NotFound, RangeMissing, ValueError):
            continue  # as if it had never run
        if item.key and isinstance(row, dict):
            artifacts = row.get("artifacts") or {"place": "", "work": ""}
            names = ("outcome", "reason", "reward")
            yield {"key": item.key, "artifacts": artifacts} | {name: row.get(name) for name in names}


def _case(row: PromptRow, stored: dict[str, Any]) -> Case:
    artifacts = _artifacts(stored["artifacts"])
    why_not = _why_not(row, stored, artifacts)
    return Case(row, stored["key"], artifacts, stored["reward"], why_not)


def _artifacts(column: dict[str, Any]) -> Artifacts:
    if not column["place"]:
        return NO_ARTIFACTS
    files = tuple(Artifact(**file) for file in column["files"])
    left_out = tuple(LeftOut(**item) for item in column["left_out"])
    return Artifacts(**(column | {"files": files, "left_out": left_out}))


def _why_not(row: PromptRow, stored: dict[str, Any], artifacts: Artifacts) -> str:
    reason = stored["reason"]
    if stored["outcome"] not in DONE_OUTCOMES and reason != Reason.VERIFIER_FAILED:
        return f"it failed ({reason}), and what failed runs again"
    if not artifacts.place:
        return "nothing was brought out of its sandbox; give the row `collect` before it runs"
    if artifacts.left_out:
        first = artifacts.left_out[0]
        return f"its artifacts are not complete: {first.path or 'all of it'}: {first.why}"
    can_restore = artifacts.has_output and row.collect is not None and bool(row.collect.restore)
    if not artifacts.files and not can_restore:
        what = "only a command's output was brought out" if artifacts.has_output else "no file was brought out"
        return f"{what}; name files in collect.paths, or how the output is put back in collect.restore"
    return ""


class Judge:
    """Opens a fresh sandbox for each case, without the agent."""

    def __init__(self, spec: BatchRunSpec, store: ObjectStore, sandboxes: SandboxBackend) -> None:
        self._sandbox = spec.sandbox
        self._store = store
        self._sandboxes = sandboxes

    async def judge(self, index: int, case: Case) -> Verdict:
        """The verdict, or why there is none: never a reward of 0 for that. Raises StorageError and HelperMissing."""
        none = Verification()
        if case.why_not or case.row.verify is None:
            return Verdict(case, none, case.why_not)
        lease: SandboxLease | None = None
        try:
            lease = await self._sandboxes.open(sandbox_request(self._sandbox, index, case.row))
            await self._bring_back(lease, case)
            found = await verify(lease, case.row.verify, case.row.env, self._sandbox.command_timeout_seconds)
        except SandboxUnavailable as error:
            return Verdict(case, none, f"{error.reason}: {error.detail}")
        except SetupFailed as error:
            return Verdict(case, none, error.detail)
        except SandboxLost as error:
            return Verdict(case, none, f"the sandbox was lost: {error}")
        finally:
            if lease is not None:
                await lease.finish(Outcome.COMPLETED)
        return Verdict(case, found, found.fault)

    async def _bring_back(self, lease: SandboxLease, case: Case) -> None:
        """What was there before the agent, then what was there after it."""
        row, artifacts = case.row, case.artifacts
        await prepare(lease, row, self._sandbox.command_timeout_seconds)
        place = ArtifactPlace(self._store, artifacts.place)
        try:
            if artifacts.has_output and row.collect is not None and row.collect.restore:
                output = await asyncio.to_thread(place.read_output)
                await restore(lease, row.collect, output, row.env, self._sandbox.command_timeout_seconds)
            for file in artifacts.files:
                data = await asyncio.to_thread(place.read, file.path)
                if hashlib.sha256(data).hexdigest() != file.sha256:
                    raise SetupFailed(f"{file.path} in {artifacts.place} is not what was brought out")
                await put_back(lease, file.path, data, file.mode)
        except NotFound as error:
            raise SetupFailed(f"what was brought out is gone: {error}") from error
        except InTheWay as error:
            raise SetupFailed(f"what was brought out was replaced: {error}") from error
