"""Inputs beside memory that cannot be touched, so that code which reads outside of them dies of it.

Reading beyond an input goes unnoticed where other memory happens to lie there; on a user's machine it may not. An input
is as large as the pipeline said it needs, so nothing outside of it may ever be read, masked lanes of vectors aside.
"""

import ctypes
import mmap
from dataclasses import replace

import numpy as np

from metol.measure.case import Array, BufferShape, Case

__all__ = ["fence_inputs"]

_LIBC = ctypes.CDLL(None, use_errno=True)


def fence_inputs(case: Case, *, at_end: bool) -> Case:
    """Copy a case, each of its input arrays into pages of its own between two that cannot be read or written.

    Args:
        case: What to copy.
        at_end: Whether the last element of each array lies just before the page that follows; else the first element
            lies just behind the page that precedes.
    """
    inputs = (
        item if item.array is None else replace(item, array=_fence(item.array, item.mins, at_end=at_end))
        for item in case.inputs
    )
    return replace(case, inputs=tuple(inputs))


def _fence(array: Array, mins: tuple[int, ...], *, at_end: bool) -> Array:
    shape = BufferShape.of_array(array, mins)
    dense = np.ascontiguousarray(shape.to_memory(array))
    page = mmap.PAGESIZE
    usable = -(-max(1, dense.nbytes) // page) * page
    memory = mmap.mmap(-1, usable + 2 * page)
    raw = np.frombuffer(memory, np.uint8)
    _forbid(raw[:page])
    _forbid(raw[page + usable :])
    start = page + (usable - dense.nbytes if at_end else 0)
    inner = raw[start : start + dense.nbytes].view(dense.dtype).reshape(dense.shape)
    inner[...] = dense
    return shape.view(inner)


def _forbid(pages: Array) -> None:
    """Forbid reading and writing whole pages."""
    nothing = 0  # PROT_NONE, which the module mmap does not name
    if _LIBC.mprotect(ctypes.c_void_p(pages.ctypes.data), ctypes.c_size_t(pages.nbytes), nothing) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")
