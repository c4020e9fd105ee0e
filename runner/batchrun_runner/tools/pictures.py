"""Pictures of anybody: judged by their header, unpacked one at a time, and made small enough for a model."""

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchrun_runner.tools.context import ToolErrorKind, ToolFailure

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 20 * 1024 * 1024
"""Of a file that is read at all."""
MOST_PIXELS = 40_000_000
"""Unpacked, a picture has up to four bytes for each."""
MOST_SIDE = 1568
"""Pixels of the longer side that a model is sent: more is made smaller by the servers themselves."""
_MOST_PNG_BYTES = 1_500_000
"""What is larger as PNG is sent as JPEG."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_ONE_AT_A_TIME = threading.Lock()
"""Each may take 160 MB while it is unpacked, and `warnings` are a process's own."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be unpacked."""

    media_type: str
    data: bytes
    width: int
    height: int


def for_model(data: bytes) -> Picture:
    """The picture, upright and on white, of at most 1568 pixels a side, and nothing of it but its pixels.

    Takes up to a second. Raises ToolFailure.
    """
    with _ONE_AT_A_TIME, _blaming_the_file():
        image = _opened(data)
        is_photo = image.format == "JPEG"
        image.draft("RGB", (MOST_SIDE, MOST_SIDE))
        image = _flat(image)
        image.thumbnail((MOST_SIDE, MOST_SIDE))
        png = b"" if is_photo else _packed(image, "PNG")
        if png and len(png) <= _MOST_PNG_BYTES:
            return Picture("image/png", png, *image.size)
        return Picture("image/jpeg", _packed(image, "JPEG"), *image.size)


def as_png(data: bytes) -> Picture:
    """The picture as PNG, unchanged where it is one. Raises ToolFailure."""
    with _ONE_AT_A_TIME, _blaming_the_file():
        image = _opened(data)
        is_png = image.format == "PNG"
        # What is broken shows only here.
        image.load()
        if not is_png:
            data = _packed(image.convert("RGBA" if image.has_transparency_data else "RGB"), "PNG")
        return Picture("image/png", data, *image.size)


@contextmanager
def _blaming_the_file() -> Iterator[None]:
    """Whatever a broken file makes of Pillow is that file's fault."""
    try:
        yield
    except ToolFailure:
        raise
    except Exception as error:
        message = f"the picture is damaged ({type(error).__name__})"
        raise ToolFailure(ToolErrorKind.UNSUPPORTED_CONTENT, message) from error


def _opened(data: bytes) -> "Image":
    # Loaded for the runs that look at pictures only.
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError:
        formats = ", ".join(_FORMATS)
        raise ToolFailure(ToolErrorKind.UNSUPPORTED_CONTENT, f"it is no picture that can be read ({formats})") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise _too_many_pixels() from None
    if image.width * image.height > MOST_PIXELS:
        raise _too_many_pixels()
    return image


def _too_many_pixels() -> ToolFailure:
    return ToolFailure(ToolErrorKind.TOO_LARGE, f"the picture has more than {MOST_PIXELS // 10**6} million pixels")


def _flat(image: "Image") -> "Image":
    """Upright, RGB, on white where it is transparent; the first picture of a moving one."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        # 16 bits a pixel: the upper ones are what a screen shows.
        return image.convert("I").point([value >> 8 for value in range(65536)], "L").convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _packed(image: "Image", form: str) -> bytes:
    file = io.BytesIO()
    if form == "JPEG":
        image.save(file, form, quality=90)
    else:
        image.save(file, form)
    return file.getvalue()
