"""Inputs between pages that cannot be touched."""

import ctypes
import faulthandler
import os
import signal
from multiprocessing import get_context

import numpy as np
import pytest

from metol.measure.case import Array, BufferShape, Case, Input
from metol.measure.fence import fence_inputs


def case_of(array: Array) -> Case:
    shape = BufferShape.of_array(array)
    return Case("estimated size", (Input("image", array=array, mins=(3, 5)), Input("gain", number=2)), (shape,))


def fenced(array: Array, *, at_end: bool) -> Array:
    copied = fence_inputs(case_of(array), at_end=at_end).inputs[0].array
    assert copied is not None
    return copied


PLANAR = np.arange(7 * 11, dtype=np.uint16).reshape(7, 11)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(
    "array", [PLANAR, PLANAR.T, PLANAR[:0], PLANAR[:1, :1]], ids=["planar", "turned", "empty", "one"]
)
def test_copy_has_the_values_and_the_layout(array: Array, at_end: bool) -> None:
    copied = fence_inputs(case_of(array), at_end=at_end)
    assert (copied.inputs[0].mins, copied.inputs[1].number) == ((3, 5), 2)
    inner = copied.inputs[0].array
    assert inner is not None
    np.testing.assert_array_equal(inner, array)
    assert BufferShape.of_array(inner).order == BufferShape.of_array(array).order


def _touch(at_end: bool, offset: int) -> None:
    faulthandler.disable()
    array = fenced(PLANAR, at_end=at_end)
    assert (
        ctypes.c_uint8.from_address(array.ctypes.data + (offset if offset < 0 else array.nbytes - 1 + offset)).value
        >= 0
    )
    os._exit(0)


@pytest.mark.parametrize(
    ("at_end", "offset", "is_fatal"), [(True, 0, False), (True, 1, True), (False, -1, True), (False, 1, False)]
)
def test_the_next_byte_is_fatal(at_end: bool, offset: int, is_fatal: bool) -> None:
    child = get_context("fork").Process(target=_touch, args=(at_end, offset))
    child.start()
    child.join(20)
    assert child.exitcode == (-signal.SIGSEGV if is_fatal else 0)
