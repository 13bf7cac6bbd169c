from pathlib import Path
from typing import Any

import halide as hl
import imageio.v3 as imageio
import numpy as np
import pytest

from metol.errors import GivenInputError
from metol.measure.given_values import describe_argument, parse_value, read_value

X, Y = hl.Var("x"), hl.Var("y")
IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)


def arguments() -> dict[str, Any]:
    """One argument of each kind, by name."""
    image, mask = hl.ImageParam(hl.Float(32), 2, "image"), hl.ImageParam(hl.Bool(), 1, "mask")
    gain, count, switch = hl.Param(hl.Float(32), "gain"), hl.Param(hl.Int(8), "count"), hl.Param(hl.Bool(), "switch")
    result = hl.Func("result")
    result[X, Y] = hl.select(mask[X], image[X, Y], 0.0) * gain + count + hl.select(switch, 1, 0)
    return {argument.name: argument for argument in hl.Pipeline(result).infer_arguments()}


def test_array_is_taken_as_it_is() -> None:
    item = read_value(IMAGE, arguments()["image"])
    assert (item.name, item.mins, item.array is IMAGE) == ("image", (0, 0), True)


def test_array_in_another_byte_order_is_brought_to_this_machines() -> None:
    item = read_value(IMAGE.astype(IMAGE.dtype.newbyteorder()), arguments()["image"])
    assert item.array.dtype == np.float32
    np.testing.assert_array_equal(item.array, IMAGE)


def test_buffer_keeps_where_it_starts() -> None:
    buffer = hl.Buffer(IMAGE)
    buffer.set_min([-1, 5])
    item = read_value(buffer, arguments()["image"])
    assert item.mins == (-1, 5)
    np.testing.assert_array_equal(item.array, IMAGE)


@pytest.mark.parametrize("as_text", [True, False])
def test_npy_is_read(as_text: bool, tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", IMAGE)
    path = tmp_path / "image.npy"
    np.testing.assert_array_equal(read_value(str(path) if as_text else path, arguments()["image"]).array, IMAGE)


def test_png_is_brought_to_the_type_of_the_input(tmp_path: Path) -> None:
    imageio.imwrite(tmp_path / "image.png", np.array([[0, 51], [102, 255]], np.uint8))
    item = read_value(tmp_path / "image.png", arguments()["image"])
    np.testing.assert_allclose(item.array, [[0, 0.2], [0.4, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (IMAGE.astype(np.float64), "type float32, and what was given has float64"),
        (IMAGE[0], r"has 2 dimensions, and what was given has the shape \(4,\)"),
        (hl.Buffer(IMAGE.astype(np.uint8)), "type float32, and the buffer has uint8"),
        (hl.Buffer(hl.BFloat(16), [4, 3]), "the buffer has bfloat16"),
        (3, "was given 3; give a NumPy array"),
        (None, "was given None"),
        ("nowhere.npy", "`nowhere.npy`, which is no file"),
    ],
    ids=str,
)
def test_what_is_no_such_image_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(GivenInputError, match=f"^Input `image` .*{reason}"):
        read_value(value, arguments()["image"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("image.jpg", b"", "are read from .npy and .png"),
        ("image.npy", b"", "cannot be read"),
        ("image.npy", b"\x93NUMPY nonsense", "cannot be read"),
        ("image.png", b"nonsense", "not a PNG"),
    ],
)
def test_file_that_is_none_is_refused(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GivenInputError, match=reason):
        read_value(tmp_path / name, arguments()["image"])


def test_several_arrays_in_one_file_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "both.npz", a=IMAGE, b=IMAGE)
    (tmp_path / "both.npz").rename(tmp_path / "both.npy")
    with pytest.raises(GivenInputError, match="holds several arrays"):
        read_value(tmp_path / "both.npy", arguments()["image"])


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [("gain", 2, 2.0), ("gain", np.float32(0.5), 0.5), ("count", np.int64(-128), -128), ("switch", True, 1)],
)
def test_number_becomes_plain(name: str, value: Any, number: float) -> None:
    item = read_value(value, arguments()[name])
    assert (item.number, type(item.number)) == (number, type(number))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("gain", IMAGE, "is a number of type float32"),
        ("gain", "0.5", "'0.5' is none"),
        ("count", 0.5, "0.5 is none"),
        ("count", 128, "from -128 to 127; 128 is outside"),
        ("switch", 2, "from 0 to 1; 2 is outside"),
    ],
)
def test_what_is_no_such_number_is_refused(name: str, value: Any, reason: str) -> None:
    with pytest.raises(GivenInputError, match=reason):
        read_value(value, arguments()[name])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("gain", "1e-3", 1e-3), ("count", "-7", -7), ("switch", "True", 1), ("image", "a=b.npy", Path("a=b.npy"))],
)
def test_parse_value_goes_by_the_kind_of_input(name: str, text: str, value: Any) -> None:
    assert parse_value(text, arguments()[name]) == value


def test_parse_value_refuses_a_path_for_a_number() -> None:
    with pytest.raises(GivenInputError, match=r"`gain` is a number of type float32; `gain\.npy` is none"):
        parse_value("gain.npy", arguments()["gain"])


def test_describe_argument_tells_what_to_give() -> None:
    found = arguments()
    assert describe_argument(found["image"]) == "image (2 dimensions, float32)"
    assert describe_argument(found["count"]) == "count (a number, int8)"
