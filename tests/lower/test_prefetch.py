"""Rows asked for an iteration ahead: offered where that hides something, in the code, right at every size."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import (
    HEIGHT,
    SOME_TARGET,
    WIDTH,
    ExactRuns,
    X,
    Y,
    chain,
    finish,
    image,
    make_space,
    pyramid,
    scan,
    schedule_of,
    some_machine,
    transpose,
)

from metol import SearchOptions, _core, autoschedule
from metol.lower import Call
from metol.pipeline import PipelineDag, extract
from metol.targets.cpu import CpuMachine, cpu_parameters

Build = Callable[[], hl.Pipeline]

TRIES = 600
# Of a cache that holds a few rows of the small pipelines, but none of their Funcs.
SMALL_CACHE = 1024


def shades() -> hl.Pipeline:
    """Rows of bytes, read from below and through a Func that is inlined, or not."""
    source = image(WIDTH + 1, HEIGHT + 4, pixel=hl.UInt(8))
    once, mixed, output = hl.Func("once"), hl.Func("mixed"), hl.Func("output")
    once[X, Y] = source[X, Y] * hl.u8(3) + source[X + 1, Y]
    mixed[X, Y] = once[X, Y] ^ once[X, Y + 4]
    output[X, Y] = mixed[X, Y] + once[X, Y + 1]
    return finish(output)


def sums_down() -> hl.Pipeline:
    """An update that goes down the rows of another Func."""
    source = image(WIDTH, HEIGHT * 4, pixel=hl.UInt(8))
    once, total, output = hl.Func("once"), hl.Func("total"), hl.Func("output")
    r = hl.RDom([(0, HEIGHT * 4)], "r")
    once[X, Y] = source[X, Y] * hl.u8(5)
    total[X] = hl.u8(1)
    total[X] += once[X, r.x]
    output[X, Y] = total[X] + hl.u8(Y & 255)
    return finish(output)


def prefetching_options() -> _core.SpaceOptions:
    options = _core.SpaceOptions()
    options.allow_prefetch = True
    return options


def space_with(dag: PipelineDag, *, l2_bytes: int, seconds_per_segment: float = 1e-7) -> _core.Space:
    parameters = cpu_parameters(CpuMachine.default(threads=2), dag)
    parameters.l2_bytes = l2_bytes
    parameters.seconds_per_segment = seconds_per_segment
    return _core.Space(dag, parameters, prefetching_options(), 1)


@cache
def small_space(build: Build) -> tuple[PipelineDag, _core.Space]:
    dag = extract(build())
    return dag, space_with(dag, l2_bytes=SMALL_CACHE)


def looking_ahead(leaf: _core.States) -> list[_core.StageNest]:
    return [nest for schedule in leaf.describe() for nest in schedule.stages if nest.prefetched >= 0]


def drawn(space: _core.Space) -> list[_core.States]:
    leaves = space.rollout(space.root(), range(TRIES))
    return [leaves.take([i]) for i in range(TRIES)]


def prefetching(space: _core.Space, wanted: int) -> list[_core.States]:
    """Random complete loop nests in which a Stage asks for something ahead."""
    return [leaf for leaf in drawn(space) if looking_ahead(leaf)][:wanted]


@pytest.mark.parametrize(
    "build",
    slow_but((), [shades, sums_down, chain, pyramid, scan, transpose], further=[sums_down, chain, pyramid, transpose]),
)
def test_what_is_asked_for_ahead_keeps_the_result(build: Build) -> None:
    dag, space = small_space(build)
    runs = ExactRuns(build.__name__, build)
    leaves = prefetching(space, 3)
    assert len(leaves) == 3
    for leaf in leaves:
        schedule = schedule_of(build, dag, leaf)
        asked = {(d.func, d.stage) for d in schedule.directives if d.call is Call.PREFETCH}
        assert len(asked) == len(looking_ahead(leaf))
        runs.check(schedule)


@pytest.mark.parametrize("build", [shades, sums_down])
def test_halide_keeps_the_instructions(build: Build, tmp_path: Path) -> None:
    dag, space = small_space(build)
    leaves = prefetching(space, 6)
    assert leaves
    for leaf in leaves:
        pipeline = build()
        schedule_of(build, dag, leaf).apply(pipeline)
        arguments = pipeline.infer_arguments()
        pipeline.compile_to_lowered_stmt(str(tmp_path / "code"), arguments, hl.StmtOutputFormat.Text)
        assert "prefetch(" in (tmp_path / "code").read_text()


def test_looking_ahead_hides_jumps_at_an_instruction_a_line() -> None:
    dag, space = small_space(shades)
    columns = list(space.feature_table())
    jumps, lines = columns.index("segments_into_l2"), columns.index("lines_prefetched")
    hidden = 0
    for leaf in prefetching(space, 10):
        path = space.path(leaf)
        plain = space.replay([*path[: -len(dag.stages)], *(keep(d) for d in path[-len(dag.stages) :])])
        after, before = (space.featurize(state)[0] for state in (leaf, plain))
        for schedule in leaf.describe():
            for stage, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False):
                is_ahead = nest.prefetched >= 0
                assert (after[stage, lines] > 0) == is_ahead
                assert before[stage, lines] == 0
                assert after[stage, jumps] <= before[stage, jumps]
        hidden += np.sum(after[:, jumps] < before[:, jumps])
    assert hidden


def keep(decision: tuple[int, ...]) -> tuple[int, ...]:
    """The decision to ask for nothing."""
    none = (0, *decision[1:3], -1, 0, 0, -1, 1, 0, 0)
    return (*none, *[0] * (len(decision) - len(none)))


@pytest.mark.parametrize(("l2_bytes", "seconds_per_segment"), [(1 << 20, 1e-7), (SMALL_CACHE, 0.0)])
def test_nothing_is_asked_for_where_there_is_nothing_to_hide(l2_bytes: int, seconds_per_segment: float) -> None:
    space = space_with(extract(shades()), l2_bytes=l2_bytes, seconds_per_segment=seconds_per_segment)
    assert not prefetching(space, 1)


def slanted(pixel: hl.Type) -> hl.Pipeline:
    """Rows of which each iteration needs more than 16 elements of 32 bits, a line, but less of bytes."""
    source = image(WIDTH + 20, HEIGHT + 1, pixel=pixel)
    once, output = hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * source[X, Y]
    output[X, Y] = once[X, Y] - once[X + 20, Y + 1]
    return finish(output)


@pytest.mark.parametrize(("pixel", "is_offered"), [(hl.UInt(8), True), (hl.Int(32), False)])
def test_rows_are_asked_for_where_halide_fetches_all_lines_of_them(pixel: hl.Type, *, is_offered: bool) -> None:
    space = space_with(extract(slanted(pixel)), l2_bytes=SMALL_CACHE)
    is_along_rows = any(
        schedules[nest.prefetched].innermost_dim == 0
        for schedules, nest in ((leaf.describe(), nest) for leaf in drawn(space) for nest in looking_ahead(leaf))
    )
    assert is_along_rows == is_offered


def test_nothing_is_decided_unless_asked_for() -> None:
    dag, space = small_space(shades)
    plain = make_space(dag)
    assert plain.decision_count < space.decision_count
    assert not any(looking_ahead(leaf) for leaf in drawn(plain))


def narrow() -> hl.Pipeline:
    """Every third of the short rows of what is scanned downwards first, and read upwards."""
    width, height = 60, 40000
    source = image(width, height, pixel=hl.UInt(8))
    down, output = hl.Func("down"), hl.Func("output")
    r = hl.RDom([(1, height - 1)], "r")
    down[X, Y] = source[X, Y]
    down[X, r.x] += down[X, r.x - 1]
    output[X, Y] = down[X, hl.clamp(height - 1 - 3 * Y, 0, height - 1)] + hl.u8(1)
    return finish(output, sizes=(width, height // 3))


def test_a_search_looks_ahead_where_that_is_asked_for_and_saves_time() -> None:
    def calls(*, prefetch: bool) -> list[Call]:
        options = SearchOptions(strategy="greedy", prefetch=prefetch, budget_seconds=None)
        machine = some_machine()
        # One that takes its time to go elsewhere in memory.
        slow = replace(machine.overheads, loop_entry_seconds=10 * machine.overheads.loop_entry_seconds)
        machine = replace(machine, overheads=slow)
        result = autoschedule(narrow(), target=SOME_TARGET, threads=2, machine=machine, options=options)
        return [directive.call for directive in result.schedule.directives]

    assert Call.PREFETCH in calls(prefetch=True)
    assert Call.PREFETCH not in calls(prefetch=False)
