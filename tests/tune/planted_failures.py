"""A pipeline that goes wrong in some of the child processes that build it, each time in another way.

`METOL_PLANTED` names a folder in which the children are counted. The first has the reference, and is left alone.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

import halide as hl
import numpy as np

COMPILER_ERROR, CRASH, HANG, GREED, WRONG_RESULT = range(3, 8)
"""Which child goes wrong how."""

WIDTH, HEIGHT = 640, 480


def brighten() -> hl.Pipeline:
    """Two stencils and what is made of both."""
    number = _child_number()
    if number in _PLANTS:
        _PLANTS[number]()
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.UInt(8), 2, "source")
    rows, columns, result = hl.Func("rows"), hl.Func("columns"), hl.Func("result")
    rows[x, y] = hl.u16(source[x, y]) + source[x + 1, y] + source[x + 2, y]
    columns[x, y] = rows[x, y] + rows[x, y + 1] + rows[x, y + 2]
    result[x, y] = columns[x, y] * 3 + rows[x, y] + (1 if number == WRONG_RESULT else 0)
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH + 2), (0, HEIGHT + 2)])
    return hl.Pipeline(result)


def _child_number() -> int:
    """How many children have built before; 0 where nothing is planted, and in the process of the tuner itself."""
    folder = os.environ.get("METOL_PLANTED")
    if not folder or not sys.argv[0].endswith("child.py"):
        return 0
    number = 1
    while True:
        try:
            (Path(folder) / str(number)).touch(exist_ok=False)
        except FileExistsError:
            number += 1
            continue
        return number


def _refuse_to_compile() -> None:
    compile_to_callable = hl.Pipeline.compile_to_callable
    calls = []

    def compile_or_refuse(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 1:  # the first is Halide's runtime, which every child compiles
            raise RuntimeError("planted: no such instruction")
        return compile_to_callable(*arguments)

    hl.Pipeline.compile_to_callable = compile_or_refuse


def _when_run(action: object) -> None:
    from metol.measure.compiled import CompiledPipeline

    CompiledPipeline.run_once = lambda *_: action()


_PLANTS = {
    COMPILER_ERROR: _refuse_to_compile,
    CRASH: lambda: _when_run(lambda: ctypes.string_at(0)),
    HANG: lambda: _when_run(lambda: time.sleep(600)),
    GREED: lambda: _when_run(lambda: np.ones(20 * 2**30, dtype=np.uint8)),
}
