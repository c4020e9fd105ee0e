"""Pictures are judged before they are unpacked, and what a model is sent is small."""

import io

import pytest
from PIL import Image

from batchrun_runner.tools.context import ToolFailure
from batchrun_runner.tools.pictures import MOST_SIDE, Picture, for_model


def packed(image: Image.Image, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def corner(picture: Picture) -> object:
    return Image.open(io.BytesIO(picture.data)).getpixel((0, 0))


def test_a_small_picture_keeps_its_size_and_its_pixels() -> None:
    picture = for_model(packed(Image.new("RGB", (40, 30), "red")))

    assert (picture.media_type, picture.width, picture.height) == ("image/png", 40, 30)
    assert corner(picture) == (255, 0, 0)


def test_a_large_one_is_made_smaller_in_its_proportions() -> None:
    picture = for_model(packed(Image.new("RGB", (4000, 3000)), "JPEG"))

    assert (picture.media_type, picture.width, picture.height) == ("image/jpeg", MOST_SIDE, MOST_SIDE * 3 // 4)


def test_what_stays_large_as_png_is_sent_as_jpeg() -> None:
    noise = Image.effect_noise((1600, 1600), 100).convert("RGB")
    picture = for_model(packed(noise))

    assert picture.media_type == "image/jpeg"
    assert Image.open(io.BytesIO(picture.data)).format == "JPEG"


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode: str) -> None:
    assert corner(for_model(packed(Image.new(mode, (9, 9), 0)))) == (255, 255, 255)


def test_16_bits_are_made_8() -> None:
    image = Image.new("I;16", (2, 2), 32768)

    assert corner(for_model(packed(image))) == (128, 128, 128)


def test_a_picture_is_turned_as_its_camera_says_and_tells_nothing_else_of_it() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "A camera with a number"
    file = io.BytesIO()
    Image.new("RGB", (40, 20)).save(file, "JPEG", exif=exif)
    picture = for_model(file.getvalue())

    assert (picture.width, picture.height) == (20, 40)
    assert b"A camera" not in picture.data


@pytest.mark.parametrize("form", ["WEBP", "GIF", "BMP", "JPEG"])
def test_the_usual_forms_are_read(form: str) -> None:
    assert for_model(packed(Image.new("RGB", (7, 5)), form)).width == 7


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"", "unsupported_content", "no picture that can be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "unsupported_content", "no picture that can be read"),
        (packed(Image.new("RGB", (300, 400), "red"))[:200], "unsupported_content", "damaged"),
        (packed(Image.new("RGB", (30, 40)), "TIFF"), "unsupported_content", "no picture that can be read"),
    ],
)
def test_what_is_no_picture_is_refused(data: bytes, kind: str, words: str) -> None:
    with pytest.raises(ToolFailure, match=words) as caught:
        for_model(data)

    assert caught.value.kind == kind


@pytest.mark.parametrize("side", [6400, 10_000, 20_000])
def test_a_decompression_bomb_is_refused_by_its_header(side: int) -> None:
    bomb = packed(Image.new("1", (side, side)))
    assert len(bomb) < 100_000
    with pytest.raises(ToolFailure, match="more than 40 million pixels") as caught:
        for_model(bomb)

    assert caught.value.kind == "too_large"
