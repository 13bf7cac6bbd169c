"""Funcs that keep their schedule where others are scheduled for a GPU, and kept outputs with Halide's own tails."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image

import metol
from metol import SearchOptions
from metol.lower import Call

SIZE = (200, 120)
Scheduled = Callable[[hl.Func, hl.Func], None]
XO, YO, XI, YI = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))


def parts() -> tuple[hl.Func, hl.Func, hl.Func]:
    source = image(SIZE[0] + 2, SIZE[1] + 2)
    first, second, output = hl.Func("first"), hl.Func("second"), hl.Func("output")
    first[X, Y] = source[X, Y] + source[X + 1, Y]
    second[X, Y] = first[X, Y] * first[X, Y + 1]
    output[X, Y] = second[X, Y] - second[X + 1, Y]
    return first, second, output


def on_the_host(func: hl.Func) -> None:
    func.compute_root().vectorize(X, 4, hl.TailStrategy.GuardWithIf)


def in_threads(func: hl.Func) -> None:
    func.compute_root().gpu_tile(X, Y, XO, YO, XI, YI, 8, 8, hl.TailStrategy.GuardWithIf)


@pytest.mark.parametrize("by_hand", [on_the_host, in_threads])
@pytest.mark.parametrize(
    "options",
    [SearchOptions(strategy="greedy"), *(SearchOptions(strategy="random", refine=False, seed=s) for s in range(3))],
)
def test_others_are_scheduled_for_the_gpu(by_hand: Callable[[hl.Func], None], options: SearchOptions) -> None:
    _, second, output = parts()
    by_hand(second)
    pipeline = finish(output, sizes=SIZE)
    result = metol.autoschedule(
        pipeline, target="host-opencl", gpu="opencl-cpu", threads=2, keep=[second], options=options, verify=True
    )
    assert result.origin == "search"
    kept = {keep.func for keep in result.schedule.kept}
    directives = result.schedule.directives
    assert not kept & {directive.func for directive in directives}
    assert Call.GPU_THREADS in {directive.call for directive in directives}


def vectors(second: hl.Func, output: hl.Func) -> None:
    output.vectorize(X, 8)


def tiles(second: hl.Func, output: hl.Func) -> None:
    output.tile(X, Y, XO, YO, XI, YI, 32, 8)


def tiles_with_producers(second: hl.Func, output: hl.Func) -> None:
    output.tile(X, Y, XO, YO, XI, YI, 32, 8).vectorize(XI, 8).parallel(YO)
    second.compute_at(output, XO).vectorize(X, 8)


@pytest.mark.parametrize("by_hand", [vectors, tiles, tiles_with_producers])
def test_kept_output_may_be_shifted_inwards(by_hand: Scheduled) -> None:
    """It then computes a whole vector of a single point, and more of the others than that point needs."""
    _, second, output = parts()
    by_hand(second, output)
    keep = [output] if by_hand is not tiles_with_producers else [second, output]
    pipeline = finish(output, sizes=SIZE)
    result = metol.autoschedule(pipeline, threads=2, keep=keep, options=SearchOptions(strategy="greedy"), verify=True)
    assert result.origin == "search"


def test_others_are_computed_in_two_steps_beside_what_is_kept() -> None:
    source, r = image(*SIZE), hl.RDom([(0, SIZE[0]), (0, SIZE[1])], "r")
    before, whole, after, output = (hl.Func(name) for name in ("before", "whole", "after", "output"))
    before[X, Y] = source[X, Y] // 2
    whole[()] = hl.cast(hl.Int(64), 0)  # of 64 bits, which are not added atomically
    whole[()] += hl.cast(hl.Int(64), before[r.x, r.y])
    after[X, Y] = before[X, Y] + hl.i32(whole[()] % 100)
    output[X, Y] = after[X, Y] * 2
    for func in (before, after):
        in_threads(func)
    pipeline = finish(output, sizes=SIZE)
    options = SearchOptions(strategy="greedy")
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", keep=[before, after], options=options, verify=True)
    assert result.fallbacks == ()
    funcs, directives = result.schedule.funcs, result.schedule.directives
    assert {funcs[d.func].name for d in directives if d.call is Call.RFACTOR} == {"whole"}
    assert not {keep.func for keep in result.schedule.kept} & {directive.func for directive in directives}
