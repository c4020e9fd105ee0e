"""`statistics.json`: the figures of the whole run, in the reference's keys and ours."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from batchrun_api.checks import distribution_of
from batchrun_api.messages import MergeResult
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.dataset.keys import canonical_json
from batchrun_runner.ledger.checkpoint import timestamp
from batchrun_runner.merge.figures import (
    Figures,
    reasoning_statistics,
    reward_statistics,
    token_statistics,
    tool_statistics,
)
from batchrun_runner.merge.pass_at_k import Estimate, passed_samples
from batchrun_runner.settings import RunSettings


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Where the stored rows went: `stored = trajectories + discarded + not_used`."""

    stored: int
    """In all batch files, damaged lines included."""
    trajectories: int
    discarded: int
    not_used: int
    """Doubles, replaced failures, damaged lines, dropped orphans."""
    trajectories_bytes: int
    discarded_bytes: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The content of `statistics.json`."""

    document: dict[str, Any]

    def encode(self) -> bytes:
        """Strict JSON for people and programs."""
        return orjson.dumps(self.document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def run_statistics(
    settings: RunSettings,
    figures: Figures,
    result: MergeResult,
    rows: RowCounts,
    passing: Sequence[Estimate],
    now: float,
) -> Statistics:
    """All figures; docs/trajectories.md says what each of them counts. Only `completed_at` is of this merge."""
    spec = settings.spec
    distribution = spec.distribution
    active_seconds = round(figures.active_seconds, 2)
    return Statistics(
        {
            "run_name": settings.run_name,
            "distribution": distribution if isinstance(distribution, str) else _probabilities(spec),
            "total_prompts": result.total,
            "samples_per_prompt": spec.samples_per_prompt,
            # Batches that the data set makes, not files: a resumed run has the figures of an uninterrupted one.
            "total_batches": -(-result.total // spec.batch_size),
            "batch_size": spec.batch_size,
            "model": spec.model.name,
            "completed_at": timestamp(now),
            "duration_seconds": active_seconds,
            "tool_statistics": tool_statistics(figures.tools),
            "reasoning_statistics": reasoning_statistics(figures),
            "outcomes": {
                "completed": result.completed,
                "truncated": result.truncated,
                "discarded": result.discarded,
                "failed": result.failed,
                "not_run": result.not_run,
            },
            "orphaned": result.orphaned,
            "reasons": result.reasons,
            "discarded": dict(sorted(figures.discarded.items())),
            "api_calls": figures.api_calls,
            "invalid_tool_calls": figures.invalid_tool_calls,
            "reward": reward_statistics(figures),
            **({"pass_at_k": _pass_at_k(figures, result, passing)} if passing else {}),
            "tokens": token_statistics(figures),
            "seconds": {
                "active": active_seconds,
                "wall": round(figures.wall_seconds, 2),
                "prompts": round(figures.seconds, 2),
                "model": round(figures.model_seconds, 2),
                "tools": round(figures.tool_seconds, 2),
                "sandbox": round(figures.sandbox_seconds, 2),
            },
            "rows": {
                "stored": rows.stored,
                "trajectories": rows.trajectories,
                "discarded": rows.discarded,
                "not_used": rows.not_used,
            },
        }
    )


def _probabilities(spec: BatchRunSpec) -> str:
    return canonical_json(distribution_of(spec)).decode()


def _pass_at_k(figures: Figures, result: MergeResult, passing: Sequence[Estimate]) -> dict[str, Any]:
    """The estimates, and beside them every sample: `total = with_reward + not_judged + failed + not_run`."""
    return {
        "samples": {
            "with_reward": figures.rewards,
            "passed": passed_samples(figures.sampled),
            "not_judged": result.total - result.failed - result.not_run - figures.rewards,
            "failed": result.failed,
            "not_run": result.not_run,
        },
        "estimates": [asdict(item) for item in passing],
    }
