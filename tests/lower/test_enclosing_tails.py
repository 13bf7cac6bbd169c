"""Tails of loops that others are computed in: guarded along what those read of an input, and nowhere else."""

import halide as hl
import pytest
from small_pipelines import C, ExactRuns, X, Y, cpu_space, finish, func_named, image, schedule_of

from metol import _core
from metol.lower import Call, Tail
from metol.pipeline import PipelineDag

SIZES = (48, 40)
CHANNELS, TAPS = 6, 3
ROLLOUTS = 300


def layers() -> hl.Pipeline:
    """Sums over a table of exactly as many rows as there are channels, inside what goes along channels and pixels."""
    source, table = image(*SIZES), image(CHANNELS, TAPS, name="table")
    summed, kept, output = hl.Func("summed"), hl.Func("kept"), hl.Func("output")
    edges = hl.BoundaryConditions.repeat_edge(source, [(0, source.width()), (0, source.height())])
    k = hl.RDom([(0, TAPS)], "k")
    summed[C, X, Y] = 0
    summed[C, X, Y] += table[C, k] * edges[X + k, Y]
    kept[C, X, Y] = hl.max(summed[C, X, Y], 7)
    output[X, Y] = sum((kept[c, X + c, Y] for c in range(1, CHANNELS)), kept[0, X, Y])
    return finish(output, sizes=SIZES)


def inside(dag: PipelineDag, leaf: _core.States) -> bool:
    """Is the sum computed in the loops of what keeps it, which keeps no window itself?"""
    schedules = leaf.describe()
    schedule, host = schedules[func_named(dag, "summed")], func_named(dag, "kept")
    is_at = schedule.placement == _core.Placement.AT
    return is_at and dag.stages[schedule.compute.stage].func == host and schedules[host].slide_dim < 0


@pytest.fixture(scope="module")
def leaves() -> tuple[PipelineDag, list[_core.States]]:
    dag, space = cpu_space(layers)
    found = space.rollout(space.root(), range(ROLLOUTS))
    return dag, [leaf for leaf in (found.take([i]) for i in range(ROLLOUTS)) if inside(dag, leaf)]


@pytest.mark.slow
def test_a_loop_is_guarded_only_along_what_is_read_inside_it(leaves: tuple[PipelineDag, list[_core.States]]) -> None:
    dag, found = leaves
    host = func_named(dag, "kept")
    tails: dict[str, set[Tail]] = {"c": set(), "x": set()}
    for leaf in found:
        for d in schedule_of(layers, dag, leaf).directives:
            loop = d.args[0].name.split("_")[0] if d.call is Call.SPLIT else ""
            if d.func == host and loop in tails and d.args[0].name.count("_") <= 1:
                tails[loop].add(d.args[-1])
    assert tails["x"] & {Tail.ROUND_UP, Tail.SHIFT_INWARDS}
    assert Tail.GUARD_WITH_IF not in tails["x"]
    assert tails["c"] == {Tail.GUARD_WITH_IF}


@pytest.mark.slow
def test_loops_that_are_not_guarded_read_nothing_beyond_an_input(
    leaves: tuple[PipelineDag, list[_core.States]],
) -> None:
    dag, found = leaves
    runs = ExactRuns("layers", layers)
    for leaf in found[:2]:
        runs.check(schedule_of(layers, dag, leaf))


def test_what_is_computed_inside_is_followed_through_several_funcs() -> None:
    # From `output` through `second` to `first`, which reads the table along both of its dimensions.
    def build() -> hl.Pipeline:
        table = image(SIZES[0] + 1, SIZES[1], name="table")
        first, second, output = hl.Func("first"), hl.Func("second"), hl.Func("output")
        first[X, Y] = table[X, Y] * 3
        second[X, Y] = first[X, Y] * first[X + 1, Y]
        third = hl.Func("third")
        third[X, Y] = second[X, Y] * 5 + second[X, Y] % 3
        output[X, Y] = third[X, Y] % 11
        return finish(output, sizes=SIZES)

    dag, space = cpu_space(build)
    host, guest = func_named(dag, "third"), func_named(dag, "first")
    seen = 0
    for seed in range(ROLLOUTS):
        leaf = space.rollout(space.root(), [seed])
        schedules = leaf.describe()
        inner = schedules[guest]
        while inner.placement == _core.Placement.AT and inner.func != host:
            inner = schedules[dag.stages[inner.compute.stage].func]
        is_within = inner.func == host and schedules[guest].placement == _core.Placement.AT
        if is_within and schedules[host].placement != _core.Placement.INLINE:
            splits = [d for d in schedule_of(build, dag, leaf).directives if d.call is Call.SPLIT and d.func == host]
            first = [d.args[-1] for d in splits if d.args[0].name.split("_")[-1] in ("x", "y", "all")]
            seen += bool(first)
            assert set(first) <= {Tail.GUARD_WITH_IF}
    assert seen
