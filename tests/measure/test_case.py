from pathlib import Path

import numpy as np
import pytest

from metol.measure.case import ALIGNMENT_BYTES, BufferShape, Case, Input, allocate_output, guards_are_intact
from metol.measure.compiled import buffer_of
from metol.measure.tolerance import Tolerance

# 3 channels innermost in memory, 5 columns, 4 rows.
INTERLEAVED = BufferShape("uint8", (1, -2, 0), (5, 4, 3), (2, 0, 1))


def test_view_puts_axes_in_numpys_order_over_the_wanted_memory() -> None:
    memory = np.arange(60, dtype=np.uint8).reshape(INTERLEAVED.memory_shape)
    view = INTERLEAVED.view(memory)
    assert INTERLEAVED.memory_shape == (4, 5, 3)
    assert view.shape == (3, 4, 5)
    assert view.strides == (1, 15, 3)
    np.testing.assert_array_equal(INTERLEAVED.to_memory(view), memory)


def test_of_array_recovers_the_layout() -> None:
    array = INTERLEAVED.view(np.zeros(INTERLEAVED.memory_shape, np.uint8))
    assert BufferShape.of_array(array, INTERLEAVED.mins) == INTERLEAVED
    planar = np.zeros((2, 3, 4), np.float32)
    assert BufferShape.of_array(planar) == BufferShape("float32", (0, 0, 0), (4, 3, 2), (0, 1, 2))


def test_load_is_the_inverse_of_save(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    image = INTERLEAVED.view(rng.integers(0, 255, INTERLEAVED.memory_shape, np.uint8))
    expected = rng.random((4, 5), np.float32)
    inputs = (Input("image", array=image, mins=INTERLEAVED.mins), Input("gain", number=0.1), Input("n", number=2**40))
    case = Case("awkward size", inputs, (BufferShape.of_array(expected),), (expected,), (Tolerance(0.5, 1e-3),))
    case.save(tmp_path / "case")
    loaded = Case.load(tmp_path / "case")
    np.testing.assert_array_equal(loaded.inputs[0].array, image)
    assert loaded.inputs[0].array.strides == image.strides
    assert loaded.inputs[0].mins == INTERLEAVED.mins
    assert loaded.inputs[1:] == inputs[1:]
    np.testing.assert_array_equal(loaded.expected[0], expected)
    assert (loaded.name, loaded.outputs, loaded.tolerances) == (case.name, case.outputs, case.tolerances)
    assert loaded.size_text == "5x4"


def test_what_is_timed_begins_at_a_multiple_of_the_alignment(tmp_path: Path) -> None:
    for size in range(1, 40, 3):
        image = np.arange(size, dtype=np.float32)
        Case("one", (Input("image", array=image),), ()).save(tmp_path / str(size))
        (loaded,) = Case.load(tmp_path / str(size)).inputs
        np.testing.assert_array_equal(loaded.array, image)
        output, raw = allocate_output(BufferShape("float32", (0,), (size,), (0,)), is_aligned=True)
        assert loaded.array.ctypes.data % ALIGNMENT_BYTES == output.ctypes.data % ALIGNMENT_BYTES == 0
        assert guards_are_intact(raw)


def test_guards_notice_a_write_on_either_side() -> None:
    for offset in (-1, 60):
        output, raw = allocate_output(INTERLEAVED)
        assert guards_are_intact(raw)
        start = (raw.size - output.size) // 2
        raw[start + offset] ^= 0xFF
        assert not guards_are_intact(raw)


def test_allocated_output_is_poisoned_and_writable() -> None:
    output, raw = allocate_output(BufferShape("float32", (0, 0), (7, 5), (0, 1)))
    assert np.isnan(output).all()
    output[:] = 1
    assert guards_are_intact(raw)
    scalar, _ = allocate_output(BufferShape("int16", (), (), ()))
    assert scalar.shape == ()


@pytest.mark.parametrize(
    ("strides", "order", "expected"),
    [
        ((1, 5, 20), (0, 1, 2), (1, 5, 20)),  # nothing is said
        ((1, 1, 20), (1, 0, 2), (4, 1, 20)),  # the second is dense; the first begins after it
        ((3, 5, 1), (2, 0, 1), (3, 15, 1)),
        ((1, 8, 20), (0, 1, 2), (1, 8, 32)),  # rows with a gap between them
        ((1, 3, 1), (2, 1, 0), (12, 3, 1)),
        ((1, -8, 20), (0, 1, 2), (1, -8, 32)),
    ],
)
def test_places_whose_strides_are_open_lie_apart(
    strides: tuple[int, ...], order: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    shape = BufferShape.of_answer("uint8", (0, 0, 0), (5, 4, 3), strides)
    assert (shape.order, shape.strides) == (order, expected)


def test_one_place_is_where_it_is_asked_for() -> None:
    shape = BufferShape.of_answer("uint8", (0, 0, 0), (1, 4, 4), (1, 4, 1))
    assert shape.strides == (1, 4, 1)


@pytest.mark.parametrize("extents", [(5, 4, 3), (2, 1, 3), (1, 1, 1), (1, 4, 3), (0, 4, 3)])
def test_buffers_have_the_strides_of_their_shapes(extents: tuple[int, ...]) -> None:
    """Along axes of one place, too, of which NumPy tells others its own."""
    shape = BufferShape("uint8", (1, -2, 0), extents, (2, 0, 1)).spread((3, 40, 1))
    array, _ = allocate_output(shape)
    buffer = buffer_of(array, shape.mins)
    dims = [buffer.dim(d) for d in range(3)]
    assert [(dim.min(), dim.extent()) for dim in dims] == list(zip(shape.mins, extents, strict=True))
    if array.size:
        assert [dim.stride() for dim in dims] == [3, 40, 1]
        array[-1, -1, -1] = 77
        assert buffer[tuple(dim.max() for dim in dims)] == 77
