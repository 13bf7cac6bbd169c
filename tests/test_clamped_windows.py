"""Reductions over a window whose coordinates are clamped to numbers, and not to the size of an input."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image

import metol
from metol import SearchOptions
from metol.pipeline import base_name, extract

Build = Callable[[], hl.Pipeline]
WIDTH, HEIGHT = 160, 120


def box() -> hl.Pipeline:
    source, sums, output = image(WIDTH, HEIGHT), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, 5), (0, 5)])
    sums[X, Y] = 0
    sums[X, Y] += source[hl.clamp(X + r[0] - 2, 0, WIDTH - 1), hl.clamp(Y + r[1] - 2, 0, HEIGHT - 1)]
    output[X, Y] = source[X, Y] - sums[X, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def column() -> hl.Pipeline:
    source, sums, output = image(WIDTH + 1, HEIGHT), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, 17)])
    sums[X, Y] = 0
    sums[X, Y] += source[X, hl.clamp(Y + r, 0, 100)]
    output[X, Y] = sums[X, Y] * 2 + sums[X + 1, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


@pytest.mark.parametrize("build", [box, column])
@pytest.mark.parametrize("strategy", ["greedy", pytest.param("beam", marks=pytest.mark.slow)])
def test_searched_schedules_are_accepted(build: Build, strategy: str) -> None:
    result = metol.autoschedule(build(), threads=2, options=SearchOptions(strategy=strategy), verify=True)
    assert (result.origin, result.fallbacks) == ("search", ())


@pytest.mark.parametrize("seed", range(6))
def test_draws_for_a_gpu_are_accepted(seed: int) -> None:
    options = SearchOptions(strategy="random", refine=False, seed=seed)
    result = metol.autoschedule(column(), target="cuda", gpu="h200", threads=2, options=options)
    assert (result.origin, result.fallbacks) == ("search", ())


def test_what_is_required_at_every_size_alike_is_known() -> None:
    """Of one sum over everything nothing depends on the output, and of what a window reads all does."""
    source, rows, total, output = image(WIDTH, 64), hl.Func("rows"), hl.Func("total"), hl.Func("output")
    r = hl.RDom([(0, WIDTH), (0, 64)])
    rows[X, Y] = source[hl.clamp(X, 0, WIDTH - 1), hl.clamp(Y, 0, 63)] * 2
    total[()] = 0
    total[()] += rows[r[0], r[1]]
    output[X, Y] = total[()] + rows[hl.clamp(X, 0, 9), 3]
    dag = extract(finish(output, sizes=(WIDTH, HEIGHT)))
    fixed = {base_name(func.name): func.fixed_dims for func in dag.funcs}
    assert fixed["rows"] == [True, True]
    assert fixed["output"] == [False, False]
    window = {base_name(func.name): func.fixed_dims for func in extract(box()).funcs}
    assert window["sums"] == [False, False]
    assert window["source_im"] == [False, False]
