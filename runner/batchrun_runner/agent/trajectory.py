"""The row of a finished prompt: one JSON line with the same keys and types in every row (docs/trajectories.md)."""

from typing import Any

from batchrun_api.outcomes import Outcome
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.model.clean import dumps
from batchrun_runner.prompt_keys import occurrence_of, sample_of
from batchrun_runner.records import Artifact, Artifacts, PromptResult, PromptRow, ToolStat, Usage, Verification
from batchrun_runner.text import clean_text

_NONE = ToolStat()


def to_row(
    row: PromptRow,
    result: PromptResult,
    *,
    batch_number: int,
    timestamp: str,
    model: str,
    config_digest: str,
    sampling: str = "{}",
) -> bytes:
    """One line of `batch_N.jsonl` with its newline; it starts with `{"prompt_index":`.

    `timestamp`: ISO 8601 with microseconds and offset, the same form in all rows (f06). `sampling`: what the model was
    asked with, a JSON object.
    """
    stats = result.tool_stats
    fields: dict[str, Any] = {
        "prompt_index": row.index,
        "conversations": result.conversations,
        "metadata": {"batch_num": batch_number, "timestamp": timestamp, "model": model},
        "completed": result.outcome is Outcome.COMPLETED,
        "partial": result.partial,
        "api_calls": result.api_calls,
        "toolsets_used": list(result.toolsets),
        "tool_stats": {tool: _stat(stats.get(tool, _NONE)) for tool in ALL_TOOLS},
        "tool_error_counts": {tool: stats.get(tool, _NONE).failure for tool in ALL_TOOLS},
        "own_tool_stats": [
            {"name": name, **_stat(stat)} for name, stat in sorted(stats.items()) if name not in ALL_TOOLS
        ],
        "outcome": result.outcome.value,
        "reason": result.reason.value if result.reason is not None else "",
        "message": clean_text(result.message),
        "key": row.key,
        "occurrence": occurrence_of(row.key),
        "sample": sample_of(row.key),
        "id": row.id,
        "usage": _usage(result.usage),
        "seconds": _seconds(result),
        "tools": result.tools,
        "sampling": sampling,
        "invalid_tool_calls": result.invalid_tool_calls,
        "reward": result.verification.reward,
        "verification": _verification(result.verification),
        "artifacts": _artifacts(result.artifacts),
        "sandbox": {"image": result.sandbox_image, "boot_id": result.boot_id},
        "config_digest": config_digest,
        "extra": row.extra,
    }
    return dumps(fields) + b"\n"


def _stat(stat: ToolStat) -> dict[str, int]:
    return {"count": stat.count, "success": stat.success, "failure": stat.failure}


def _seconds(result: PromptResult) -> dict[str, float]:
    return {
        "total": round(float(result.seconds), 6),
        "model": round(float(result.model_seconds), 6),
        "tools": round(float(result.tool_seconds), 6),
        "sandbox": round(float(result.sandbox_seconds), 6),
    }


def _verification(verification: Verification) -> dict[str, Any]:
    return {
        "ran": verification.ran,
        "exit_code": verification.exit_code,
        "timed_out": verification.timed_out,
        "output": clean_text(verification.output),
        "seconds": round(float(verification.seconds), 6),
    }


def _artifacts(artifacts: Artifacts) -> dict[str, Any]:
    return {
        "place": artifacts.place,
        "work": artifacts.work,
        "files": [_artifact(file) for file in artifacts.files],
        "has_output": artifacts.has_output,
        "left_out": [{"path": clean_text(item.path), "why": clean_text(item.why)} for item in artifacts.left_out],
        "more_left_out": artifacts.more_left_out,
    }


def _artifact(file: Artifact) -> dict[str, Any]:
    return {"path": clean_text(file.path), "size_bytes": file.size_bytes, "mode": file.mode, "sha256": file.sha256}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cached_tokens": usage.cached_tokens,
        "total_tokens": usage.total_tokens,
        "calls_without_usage": usage.calls_without_usage,
        "shortened_prompts": usage.shortened_prompts,
    }
