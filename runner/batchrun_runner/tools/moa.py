"""`mixture_of_agents`: several models answer, one makes the best of it (arXiv:2406.04692)."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from batchrun_api.text import shortened_bytes
from batchrun_runner.text import fault_of_ours
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, result

if TYPE_CHECKING:
    from batchrun_runner.tools.asking import AskedModel
    from batchrun_runner.tools.services import MoaServices

DESCRIPTION = (
    "Have several strong models answer a hard problem, and one of them make the best of their answers. Takes long and "
    "costs much: use it for problems that need much thought. The models know nothing but what you write here."
)
_SYSTEM = (
    "Several models have answered the user's problem; their answers follow. Some may be wrong or one-sided. Judge them "
    "critically, do not simply repeat them, and write one answer of your own that is accurate, complete and well "
    "ordered."
)
_ANSWER_BYTES = 60_000
"""Shown of one answer to the model that puts them together."""


class MixtureArguments(Arguments):
    problem: Annotated[
        str, Field(min_length=1, max_length=200_000, description="The whole problem, with all that is known of it.")
    ]


async def mix(arguments: MixtureArguments, context: ToolContext) -> ToolResult:
    """The call failed when no reference model answered, or when the last model did not."""
    moa = _moa(context)
    question = {"role": "user", "content": arguments.problem}
    said = await asyncio.gather(*(_answer(model, question, context) for model in moa.references))
    answers = [answer for answer in said if isinstance(answer, str)]
    failures = [answer for answer in said if isinstance(answer, ToolFailure)]
    if not answers:
        words = "; ".join(failure.message for failure in failures)
        raise ToolFailure(failures[0].kind, f"none of the reference models answered: {words}")
    system = {"role": "system", "content": f"{_SYSTEM}\n\n{_listed(answers)}"}
    final = await moa.aggregator.answer([system, question], context)
    fields = {
        "answer": shortened_bytes(final, context.limits.read_bytes),
        "models": [model.name for model, answer in zip(moa.references, said, strict=True) if isinstance(answer, str)],
        "not_answered": [failure.message for failure in failures] or None,
        "error": None,
    }
    return result(fields)


async def _answer(model: "AskedModel", question: dict[str, Any], context: ToolContext) -> str | ToolFailure:
    try:
        return await model.answer([question], context)
    except ToolFailure as failure:
        return failure
    except Exception as error:
        # The others' answers are paid for.
        return ToolFailure(ToolErrorKind.INTERNAL, f"{model.name}: {fault_of_ours(error)}")


def _listed(answers: list[str]) -> str:
    shown = (shortened_bytes(answer, _ANSWER_BYTES) for answer in answers)
    return "\n\n".join(f"Answer {number}:\n{answer}" for number, answer in enumerate(shown, 1))


def _moa(context: ToolContext) -> "MoaServices":
    if context.services.moa is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset moa is not available in this run")
    return context.services.moa
