import struct
import zlib
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest

from metol.errors import GivenInputError
from metol.measure.png_images import convert_png, read_png

GRAY = np.array([[0, 1, 128], [254, 255, 7]], np.uint8)
COLOURS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
PALETTE, RGB = 3, 2


def raw_png(path: Path, *, bits: int, colour: int, row: bytes, extra: bytes = b"") -> Path:
    """Write one pixel as a PNG of a kind that Pillow does not write."""
    header = struct.pack(">IIBBBBB", 1, 1, bits, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(b"\0" + row)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize(
    "image",
    [GRAY, GRAY.astype(np.uint16) * 300, COLOURS, np.dstack([COLOURS, GRAY])],
    ids=["gray", "gray of 16 bits", "RGB", "RGBA"],
)
def test_read_png_returns_what_was_written(image: np.ndarray, tmp_path: Path) -> None:
    imageio.imwrite(tmp_path / "image.png", image)
    found = read_png(tmp_path / "image.png")
    assert found.dtype == image.dtype
    np.testing.assert_array_equal(found, image)


def test_read_png_refuses_colours_that_would_lose_bits(tmp_path: Path) -> None:
    path = raw_png(tmp_path / "deep.png", bits=16, colour=RGB, row=bytes(6))
    with pytest.raises(GivenInputError, match=r"deep.png` has colours of 16 bits"):
        read_png(path)


def test_read_png_refuses_a_palette(tmp_path: Path) -> None:
    path = raw_png(tmp_path / "few.png", bits=8, colour=PALETTE, row=b"\0", extra=chunk(b"PLTE", bytes(3)))
    with pytest.raises(GivenInputError, match=r"few.png` has a palette"):
        read_png(path)


@pytest.mark.parametrize("kept_bytes", [0, 20, 40])
def test_read_png_refuses_a_broken_file(kept_bytes: int, tmp_path: Path) -> None:
    path = raw_png(tmp_path / "broken.png", bits=8, colour=RGB, row=bytes(3))
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(GivenInputError, match=r"broken\.png"):
        read_png(path)


@pytest.mark.parametrize(
    ("held", "wanted", "white"),
    [
        (np.uint8, "uint8", 255),
        (np.uint8, "uint16", 65535),
        (np.uint16, "uint16", 65535),
        (np.uint8, "float32", 1.0),
        (np.uint16, "float16", 1.0),
        (np.uint16, "float64", 1.0),
    ],
)
def test_convert_png_keeps_black_and_white(held: type, wanted: str, white: float) -> None:
    image = np.array([[0, np.iinfo(held).max]], held)
    converted = convert_png(image, wanted, 2, "it")
    assert converted.dtype.name == wanted
    assert converted.tolist() == [[0, white]]


@pytest.mark.parametrize(("held", "wanted"), [(np.uint16, "uint8"), (np.uint8, "int32"), (np.bool_, "uint8")])
def test_convert_png_refuses_other_types(held: type, wanted: str) -> None:
    with pytest.raises(GivenInputError, match=f"^it, which holds .* to {wanted}"):
        convert_png(np.zeros((2, 3), held), wanted, 2, "it")


def test_convert_png_puts_channels_into_dimension_2() -> None:
    planes = convert_png(COLOURS, "uint8", 3, "it")
    assert planes.shape == (3, 2, 3)
    np.testing.assert_array_equal(planes[1], COLOURS[:, :, 1])


def test_convert_png_makes_a_gray_image_one_channel() -> None:
    assert convert_png(GRAY, "uint8", 3, "it").shape == (1, 2, 3)


@pytest.mark.parametrize(("image", "dimensions"), [(COLOURS, 2), (GRAY, 1), (GRAY, 4)])
def test_convert_png_refuses_other_dimensions(image: np.ndarray, dimensions: int) -> None:
    with pytest.raises(GivenInputError, match=r"^it, .*dimensions"):
        convert_png(image, "uint8", dimensions, "it")
