"""A pipeline that goes wrong in one of the builds of a child process; which, and how, the file `plan` beside it says.

Builds are counted over all children. The first makes the reference, and is left alone; the second is that of the first
child that holds schedules, and each further one that of a schedule. What builds in the process of the tests is not
counted.
"""

import json
import os
import sys
import time
from pathlib import Path

import halide as hl

HERE = Path(__file__).parent
WIDTH, HEIGHT = 96, 64


def ramp() -> hl.Pipeline:
    """Something to compute inline, at root, or below."""
    how = _plan()
    if how == "crash":
        os.abort()
    if how == "hang":
        time.sleep(600)
    if how == "refuse":
        raise ValueError("planted: not today")
    if how in ("crash when timed", "refuse when timed"):
        _when_timed(os.abort if how == "crash when timed" else _refuse)
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.Int(32), 2, "source")
    squares, result = hl.Func("squares"), hl.Func("result")
    squares[x, y] = source[x, y] * source[x, y]
    result[x, y] = squares[x, y] + squares[x + 1, y] + (1 if how == "differ" else 0)
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH + 1), (0, HEIGHT)])
    return hl.Pipeline(result)


def _plan() -> str:
    """What is to happen in this build."""
    if not sys.argv[0].endswith("child.py"):
        return ""
    builds = HERE / "builds"
    with builds.open("a") as file:
        file.write(".")
    plan = HERE / "plan"
    wanted = json.loads(plan.read_text()) if plan.exists() else {}
    return wanted.get(str(builds.stat().st_size), "")


def _when_timed(action: object) -> None:
    """Let the code of this build alone do something else when it is timed; the run before, to verify, is left alone."""
    from metol.measure.compiled import CompiledPipeline

    bind = CompiledPipeline.bind
    calls = []

    def bind_once(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            return bind(*arguments)
        CompiledPipeline.bind = bind
        return action

    CompiledPipeline.bind = bind_once


def _refuse() -> None:
    raise ValueError("planted: no time")
