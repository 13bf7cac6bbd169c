"""Where Stages compute, read and write, counted: what updates leave alone, rows that are skipped, loads that stay."""

from collections.abc import Callable
from functools import partial

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, Y, finish, func_named, image, make_space

from metol import _core
from metol.pipeline import PipelineDag, extract

# Nothing is run: wherever the tests do, tiles are to be as wide.
TARGET = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"
WIDE, HIGH = 320, 400
STEP = 50
ROLLOUTS = 400


def patched(*, is_read: bool = False) -> hl.Pipeline:
    """A Func of which one row is written anew, by an update that may read it."""
    source, patch, output = image(WIDE, HIGH + 1), hl.Func("patch"), hl.Func("output")
    patch[X, Y] = source[X, Y] * 3
    patch[X, HIGH] = patch[X, HIGH] + 7 if is_read else 7
    output[X, Y] = patch[X, Y] + patch[X, Y + 1]
    return finish(output, sizes=(WIDE, HIGH))


def every_fiftieth() -> hl.Pipeline:
    """Sums of rows that lie far apart."""
    source, total, output = image(WIDE, 8 * STEP), hl.Func("total"), hl.Func("output")
    r = hl.RDom([(0, 8)], "r")
    total[X] = 0
    total[X] += source[X, STEP * r.x]
    output[X] = total[X] * 2
    return finish(output, sizes=(WIDE,))


def twice() -> hl.Pipeline:
    source, output = image(WIDE, HIGH), hl.Func("output")
    output[X, Y] = source[X, Y] * 2
    return finish(output, sizes=(WIDE, HIGH))


def product() -> hl.Pipeline:
    a, b = image(24, HIGH, name="a"), image(WIDE, 24, name="b")
    k = hl.RDom([(0, 24)], "k")
    product, output = hl.Func("product"), hl.Func("output")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    output[X, Y] = product[X, Y] + 1
    return finish(output, sizes=(WIDE, HIGH))


def rolled_out(
    build: Callable[[], hl.Pipeline],
) -> tuple[PipelineDag, list[tuple[list[_core.FuncSchedule], dict[str, np.ndarray]]]]:
    """Random loop nests, and their features, [Stages] each."""
    dag = extract(build())
    space = make_space(dag, target=TARGET)
    names = list(space.feature_table())
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    features = space.featurize(leaves)
    return dag, [
        (leaves.take([i]).describe(), {name: features[i][:, column] for column, name in enumerate(names)})
        for i in range(ROLLOUTS)
    ]


@pytest.mark.parametrize("is_read", [False, True])
def test_rows_are_computed_for_an_update_that_reads_them_alone(*, is_read: bool) -> None:
    dag, found = rolled_out(partial(patched, is_read=is_read))
    patch = func_named(dag, "patch")
    pure, update = dag.funcs[patch].stages
    rows = []
    for schedules, features in found:
        own = next(schedule for schedule in schedules if schedule.func == patch)
        if own.placement == _core.Placement.AT and own.slide_dim < 0:
            # The update runs over a row, whatever is needed of the others.
            assert features["points_computed_per_production"][update] <= WIDE
            rows.append(features["points_computed_per_production"][pure] / WIDE)
    # Tiles of a row or two; and of part of a row, but of all that lie between it and the other.
    assert (min(rows) > 5) == is_read


def test_what_no_update_writes_is_not_used() -> None:
    dag, found = rolled_out(patched)
    patch = func_named(dag, "patch")
    pure, update = dag.funcs[patch].stages
    seen = False
    for schedules, features in found:
        own = next(schedule for schedule in schedules if schedule.func == patch)
        if own.placement == _core.Placement.AT and own.slide_dim < 0:
            written = features["bytes_written_beyond_l2"]
            # All rows between are allocated, and none of them leaves a cache.
            assert written[update] <= 64 * WIDE * features["num_realizations"][update]
            seen = seen or features["bytes_at_realization"][pure] > 4 * features["points_computed_per_production"][pure]
    assert seen


def test_rows_that_a_loop_skips_are_not_read() -> None:
    dag, found = rolled_out(every_fiftieth)
    update = dag.funcs[func_named(dag, "total")].stages[1]
    whole = [features for schedules, features in found if features["num_realizations"][update] == 1]
    assert whole
    for features in whole:
        assert features["unique_bytes_read_per_realization"][update] == 8 * WIDE * 4
        assert features["unique_lines_read_per_realization"][update] == 8


def test_loops_are_entered_as_often_as_what_is_around_them_turns() -> None:
    dag, found = rolled_out(twice)
    (stage,) = dag.funcs[dag.outputs[0]].stages
    seen = set()
    for schedules, features in found:
        (nest,) = next(schedule for schedule in schedules if schedule.func == dag.outputs[0]).stages
        columns, rows = nest.levels[-2][:2]
        inner = (columns, rows) if nest.vector_loop <= 0 else (rows, columns)
        turns = next((count for count in inner if count > 1), 1)
        entered = features["outer_iterations"][stage] - features["loop_iterations"][stage] / turns * (turns > 1)
        # Levels further out than those two, each as often as it turns.
        outer = np.cumprod([np.prod(level) for level in nest.levels[:-2]]).sum()
        assert entered == pytest.approx(outer, rel=1e-5)
        seen.add(turns > 1)
    assert True in seen


def test_what_stays_the_same_in_a_loop_is_loaded_before_it() -> None:
    dag, found = rolled_out(product)
    multiplied = func_named(dag, "product")
    update = dag.funcs[multiplied].stages[1]
    along_x = [loop.name for loop in dag.stages[update].loops].index("x")
    gathers: dict[bool, list[float]] = {True: [], False: []}
    for schedules, features in found:
        own = next(schedule for schedule in schedules if schedule.func == multiplied)
        nest = own.stages[1] if own.stages else None
        # Rows of `a` are gathered by vectors down y.
        if nest is None or nest.vector_loop < 0 or dag.stages[update].loops[nest.vector_loop].name != "y":
            continue
        tile = nest.levels[-1]
        if tile[nest.vector_loop] == nest.vector_width and own.innermost_dim == 1:
            gathers[tile[along_x] > 1].append(float(features["scalar_loads_per_vector"][update]) / nest.vector_width)
    assert min(gathers[False]) >= 1
    assert max(gathers[True]) < 1
