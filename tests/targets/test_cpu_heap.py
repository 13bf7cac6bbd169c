"""Which Funcs in tiles Halide allocates on the heap: what the model takes for so is, mostly."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import halide as hl
import pytest
from allocated import allocated_on_heap
from small_pipelines import PIPELINES, X, Y, finish, image, make_space, schedule_with

from metol import _core
from metol.lower import LoweringOptions, cpu_directives
from metol.pipeline import extract

TARGET = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"
ROLLOUTS = 120
MOST_LOWERED = 30
MOST_WRONG = 0.2


def compared(build: Callable[[], hl.Pipeline], path: Path) -> Counter[tuple[bool, bool]]:
    """How often the model takes a Func in a tile for one on the heap, and Halide does."""
    seen: Counter[tuple[bool, bool]] = Counter()
    dag = extract(build())
    options = _core.SpaceOptions()
    options.has_fixed_sizes = True
    space = make_space(dag, target=TARGET, options=options)
    column = list(space.feature_table()).index("heap_allocations")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    lowered = 0
    for i in range(ROLLOUTS):
        leaf = leaves.take([i])
        inside = [
            schedule.func
            for schedule in leaf.describe()
            if schedule.placement == _core.Placement.AT and schedule.storage == _core.Storage.PLAIN
        ]
        if not inside or lowered == MOST_LOWERED:
            continue
        lowered += 1
        (rows,) = space.featurize(leaf)
        sizes = [side.extent for side in dag.funcs[dag.outputs[0]].root_region]
        schedule = schedule_with(build, cpu_directives(dag, leaf.describe(), LoweringOptions(fixed_sizes=True)))
        on_heap = allocated_on_heap(build(), schedule, path, sizes=sizes, target=TARGET)
        for func in inside:
            own = dag.funcs[func].name.split("$")[0]
            if own in on_heap:
                seen[bool(rows[dag.funcs[func].stages[0]][column] > 0), on_heap[own]] += 1
    return seen


@pytest.mark.slow
def test_what_is_allocated_on_the_heap_is_known_for_sizes_that_are_fixed(tmp_path: Path) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    for name in ("blur", "chain", "convolution", "boundary", "matmul", "where", "scan"):
        seen += compared(PIPELINES[name], tmp_path / "lowered.stmt")
    assert seen[True, True] > 0 < seen[False, False]
    assert seen[True, False] + seen[False, True] <= MOST_WRONG * seen.total()


def frames(*, is_sum: bool) -> hl.Pipeline:
    """Each frame beside the third: along time the two move apart, by a few points."""
    source, t, k = image(64, 48, 5), hl.Var("t"), hl.RDom([(0, 5)], "k")
    light, output = hl.Func("light"), hl.Func("output")
    light[X, Y, t] = source[X, Y, t] * 3 + 1
    if is_sum:
        output[X, Y] = 0
        output[X, Y] += light[X, Y, k.x] * light[X, Y, 2]
        return finish(output, sizes=(64, 48))
    output[X, Y, t] = light[X, Y, t] * light[X, Y, 2]
    return finish(output, sizes=(64, 48, 5))


@pytest.mark.slow
@pytest.mark.parametrize("is_sum", [False, True])
def test_what_is_read_at_places_that_move_apart_has_no_constant_size(*, is_sum: bool, tmp_path: Path) -> None:
    seen = compared(partial(frames, is_sum=is_sum), tmp_path / "lowered.stmt")
    assert seen[True, True] > 0 < seen[False, False]
    # Of some, with several frames in a tile, Halide finds a constant that no extent exceeds.
    assert seen[False, True] == 0
    assert seen[True, False] < seen[True, True]
