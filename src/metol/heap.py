"""What lies in memory that a pipeline has allocated and not written.

Tiles that are rounded up are computed, too, where their inputs are not: of whatever the heap was used for before.
Nobody needs these values, but they are not free: Intel's cores take a hundred cycles and more for an operation on
numbers too small to be normal, which small integers and halves of pointers are when read as floats. So a search gives
back what it used, for pages that are new are zero. And nobody may read these values, though of zeros a schedule may be
right by chance: while results are verified, blocks are filled with numbers of our own.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

__all__ = ["LEFTOVER_BYTE", "gives_back_memory", "leave_ordinary_numbers"]

# Every byte of a new block: 0.75 as a float of 32 bits, 1.8 as one of 16, and as an integer of 32 an index that no
# buffer has. What is freed gets the complement, -6.0 as a float, and of this nothing small comes, either.
LEFTOVER_BYTE = 0x3F
# From malloc.h.
_M_PERTURB = -6
_LIBC = ctypes.CDLL(None)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def gives_back_memory(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Have a function give the system back what it has freed when it ends; glibc does, other libraries keep it."""

    @functools.wraps(function)
    def run(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return function(*arguments, **named)
        finally:
            if (trim := getattr(_LIBC, "malloc_trim", None)) is not None:
                trim(ctypes.c_size_t(0))

    return run


@contextlib.contextmanager
def leave_ordinary_numbers() -> Iterator[None]:
    """Have this process's blocks of memory filled as they are allocated and freed; glibc does, others leave them be.

    What runs next, with nothing filled any more, finds these numbers, whatever its process did before.
    """
    if (set_option := getattr(_LIBC, "mallopt", None)) is None:
        yield
        return
    set_option(_M_PERTURB, LEFTOVER_BYTE ^ 0xFF)
    try:
        yield
    finally:
        set_option(_M_PERTURB, 0)
