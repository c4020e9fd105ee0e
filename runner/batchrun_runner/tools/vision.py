"""`vision_analyze`: a question about a picture."""

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote_to_bytes

from pydantic import Field, model_validator

from batchrun_api.text import shortened_bytes
from batchrun_runner.sandbox.interface import Sandbox
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, result
from batchrun_runner.tools.pictures import MOST_BYTES, Picture, for_model

if TYPE_CHECKING:
    from batchrun_runner.tools.services import VisionServices

DESCRIPTION = (
    "Look at a picture and answer a question about it. Give either image_url, an address on the public web or a data "
    "URL, or path, a file of this task's own machine. PNG, JPEG, WebP, GIF and BMP can be read."
)
_PIECE_BYTES = 8 * 1024 * 1024


class AnalyzeArguments(Arguments):
    question: Annotated[str, Field(min_length=1, max_length=20_000, description="What to find out about the picture.")]
    image_url: Annotated[str, Field(description="http, https or data URL of the picture; empty: path names it.")] = ""
    path: Annotated[
        str, Field(description="The picture's file: absolute, or relative to the terminal's working directory.")
    ] = ""

    @model_validator(mode="after")
    def _one_picture(self) -> "AnalyzeArguments":
        if bool(self.image_url) == bool(self.path):
            raise ValueError("give either image_url or path")
        return self


async def analyze(arguments: AnalyzeArguments, context: ToolContext) -> ToolResult:
    """What the model that sees says."""
    vision = _vision(context)
    if arguments.path:
        data = await read_file(context.sandbox, arguments.path, context.cwd)
    elif arguments.image_url.lower().startswith("data:"):
        data = of_data_url(arguments.image_url)
    else:
        async with vision.pictures.within_limits():
            data = (await vision.pictures.fetch(arguments.image_url, refuses)).body
    picture = await asyncio.to_thread(for_model, data)
    answer = await vision.model.answer(question_about(arguments.question, picture), context)
    return result({"analysis": shortened_bytes(answer, context.limits.read_bytes), "error": None})


async def read_file(sandbox: Sandbox, path: str, cwd: str) -> bytes:
    """A file of at most 20 MiB. Raises ToolFailure, and SandboxError where it cannot be read."""
    data = bytearray()
    while True:
        piece = await sandbox.read_bytes(path, cwd=cwd, offset_bytes=len(data), limit_bytes=_PIECE_BYTES)
        data += piece.data
        if max(piece.size_bytes, len(data)) > MOST_BYTES:
            raise ToolFailure(ToolErrorKind.TOO_LARGE, f"{piece.path} has more than {MOST_BYTES >> 20} MiB")
        if piece.eof or not piece.data:
            return bytes(data)


def of_data_url(url: str) -> bytes:
    """What a data URL holds. Raises ToolFailure."""
    head, comma, data = url.partition(",")
    if not comma:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "this data URL has no comma")
    try:
        raw = unquote_to_bytes(data)
        return base64.b64decode(raw, validate=True) if head.lower().endswith(";base64") else raw
    except binascii.Error as error:
        raise ToolFailure(
            ToolErrorKind.INVALID_ARGUMENTS, f"the data of this data URL is no base64: {error}"
        ) from error


def refuses(content_type: str) -> str:
    """What a server calls a stream of bytes may be a picture; its content decides."""
    unsaid = {"", "application/octet-stream", "binary/octet-stream"}
    wanted = content_type.startswith("image/") or content_type in unsaid
    return "" if wanted else f"it is {content_type}, not a picture"


def question_about(question: str, picture: Picture) -> list[dict[str, Any]]:
    url = f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"
    content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": url}}]
    return [{"role": "user", "content": content}]


def _vision(context: ToolContext) -> "VisionServices":
    if context.services.vision is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset vision is not available in this run")
    return context.services.vision
