"""A GPU for CUDA where there is none: PTX that is run instruction by instruction on the CPU.

Enters: nothing; Halide's runtime loads the driver by its name, and finds ours. Leaves: results that any GPU would give,
and errors where one would have stopped, or might have given another result: accesses outside of what was allocated, or
not aligned, and threads of a block that do not wait for each other. It tells nothing of times.
"""

import ctypes
from pathlib import Path
from typing import Final

__all__ = ["LIBRARY", "last_fault", "load_emulated_cuda"]

_NAME: Final = "libcuda.so"
# Installed in place, this folder is two: that of the sources, and one with what was built.
LIBRARY: Final = next(
    (file for folder in __path__ if (file := Path(folder) / _NAME).exists()), Path(__file__).with_name(_NAME)
)
"""The driver, as the loader finds it."""


def load_emulated_cuda() -> None:
    """Let Halide find the emulated GPU in this process, from its first use of CUDA on; a real one it finds no more.

    Raises:
        OSError: the library is not there.
    """
    # Halide asks for `libcuda.so`, and the loader answers with what has that name and is there already.
    ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)


def last_fault() -> str:
    """Return what the emulated GPU refused last in this process, with the place; "" where it has refused nothing."""
    driver = ctypes.CDLL(str(LIBRARY))
    driver.metol_last_fault.restype = ctypes.c_char_p
    text: bytes = driver.metol_last_fault()
    return text.decode(errors="replace")
