"""`image_generate`: a picture from a description, in the sandbox and in the output folder."""

import asyncio
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import Field

from batchrun_api.spec.tool_models import IMAGE_SIZE
from batchrun_api.text import shortened_bytes
from batchrun_runner.ledger import layout
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.storage.errors import PreconditionFailed, StorageError
from batchrun_runner.storage.store import ObjectStore
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, result
from batchrun_runner.tools.pictures import as_png
from batchrun_runner.tools.vision import of_data_url, refuses

if TYPE_CHECKING:
    from batchrun_runner.model.images import GeneratedImage
    from batchrun_runner.tools.services import ImageGenServices

DESCRIPTION = (
    "Make a picture from a description. It is saved as a PNG file in this task's own machine, below images/ in the "
    "folder where the task began; the result tells its path."
)
_MOST_PNG_BYTES = 10 * 1024 * 1024
"""What fits into one frame to a sandbox."""
_REVISED_BYTES = 4_000
_MOST_PICTURES = 1_000
"""Of one prompt."""
_SIZE = IMAGE_SIZE.removesuffix("$") + "?$"


class GenerateArguments(Arguments):
    prompt: Annotated[str, Field(min_length=1, max_length=32_000, description="What the picture shows.")]
    size: Annotated[
        str, Field(pattern=_SIZE, description="Width x height in pixels, as 1024x1024; empty for the default.")
    ] = ""


async def generate(arguments: GenerateArguments, context: ToolContext) -> ToolResult:
    """The result names the file and the object of the output folder; the picture itself is in neither."""
    images = _images(context)
    made = await images.model.image(arguments.prompt, arguments.size or images.size, context)
    picture = await asyncio.to_thread(as_png, await _data(made, images))
    if len(picture.data) > _MOST_PNG_BYTES:
        message = f"as PNG the picture has more than {_MOST_PNG_BYTES >> 20} MiB; ask for a smaller size"
        raise ToolFailure(ToolErrorKind.TOO_LARGE, message)
    number, key = await _stored(picture.data, images.store, context)
    written = await context.sandbox.write_file(_path(number), picture.data, cwd=context.start_cwd)
    fields = {
        "path": written.path,
        "object": key,
        "width": picture.width,
        "height": picture.height,
        "revised_prompt": shortened_bytes(made.revised_prompt, _REVISED_BYTES) or None,
        "error": None,
    }
    return result(fields)


async def _data(made: "GeneratedImage", images: "ImageGenServices") -> bytes:
    """Addresses in an answer are judged like those of a model, but for those at the server itself."""
    if not made.url:
        return made.data
    if made.url.lower().startswith("data:"):
        return of_data_url(made.url)
    fetcher = images.of_server if _origin(made.url) == _origin(images.base_url) else images.of_others
    async with fetcher.within_limits():
        return (await fetcher.fetch(made.url, refuses)).body


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None


async def _stored(data: bytes, store: ObjectStore, context: ToolContext) -> tuple[int, str]:
    """The number under which it lies in the output folder, and its key there. Nothing is overwritten, neither there nor
    in the sandbox: pictures of an earlier try of this prompt stay.
    """
    for number in range(1, _MOST_PICTURES + 1):
        key = layout.image_file(context.key, number)
        if await _is_taken(_path(number), context):
            continue
        try:
            if await asyncio.to_thread(_put_new, store, key, data):
                return number, key
        except StorageError as error:
            message = f"the picture could not be stored ({type(error).__name__})"
            raise ToolFailure(ErrorKind.IO, message) from error
    raise ToolFailure(ErrorKind.LIMIT, f"this task has {_MOST_PICTURES} pictures already")


def _put_new(store: ObjectStore, key: str, data: bytes) -> bool:
    if store.head(key) is not None:
        return False
    try:
        store.put(key, data, if_none_match=store.honours_conditions())
    except PreconditionFailed:
        return False
    return True


async def _is_taken(path: str, context: ToolContext) -> bool:
    try:
        await context.sandbox.stat(path, cwd=context.start_cwd)
    except SandboxError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return False
        raise
    return True


def _path(number: int) -> str:
    return f"images/{number}.png"


def _images(context: ToolContext) -> "ImageGenServices":
    if context.services.image_gen is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset image_gen is not available in this run")
    return context.services.image_gen
