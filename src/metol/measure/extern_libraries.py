"""Shared libraries that define a pipeline's extern functions, so that a child process finds these, too.

In: a pipeline whose functions this process has loaded. Out: paths. Halide looks for an extern function among the
symbols of the process that compiles the pipeline, and a file of a pipeline keeps the name alone.
"""

import contextlib
import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metol.lower import pipeline_funcs

__all__ = ["libraries_of", "load_libraries", "undefined_functions"]


class _SymbolInfo(ctypes.Structure):
    """What `dladdr` tells (dladdr(3))."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def libraries_of(pipeline: Any) -> tuple[str, ...]:
    """Return the libraries that define the extern functions of a pipeline, as far as they are loaded here."""
    found = {_library_of(name) for name in _function_names(pipeline)}
    return tuple(sorted(path for path in found if path))


def undefined_functions(pipeline: Any) -> tuple[str, ...]:
    """Return the extern functions of a pipeline that no library in this process defines."""
    here = ctypes.CDLL(None)
    return tuple(sorted(name for name in _function_names(pipeline) if not hasattr(here, name)))


def _function_names(pipeline: Any) -> set[str]:
    return {func.extern_function_name() for func in pipeline_funcs(pipeline) if func.is_extern()}


def load_libraries(paths: Iterable[str]) -> None:
    """Load libraries so that Halide finds their symbols; one that is gone, or of another kind, is passed over."""
    for path in paths:
        with contextlib.suppress(OSError):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _library_of(name: str) -> str:
    """The library that a symbol is from; "" where nothing here has it, or what has it is no library."""
    here = ctypes.CDLL(None)
    try:
        address = ctypes.cast(getattr(here, name), ctypes.c_void_p)
    except AttributeError:
        return ""
    info = _SymbolInfo()
    tells = getattr(here, "dladdr", None)
    if tells is None or not tells(address, ctypes.byref(info)) or not info.file:
        return ""
    path = Path(info.file.decode(errors="surrogateescape"))
    return str(path.resolve()) if ".so" in path.name else ""
