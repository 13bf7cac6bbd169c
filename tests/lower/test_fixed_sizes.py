"""Schedules for outputs of one size: right there, refused by Halide everywhere else, and free of guards."""

import re
from pathlib import Path

import halide as hl
import numpy as np
import pytest
from slow_cases import half_of, slow_but
from small_pipelines import (
    HEIGHT,
    PIPELINES,
    SOME_TARGET,
    WIDTH,
    ExactRuns,
    X,
    Y,
    blur,
    cpu_space,
    finish,
    image,
    matmul_output,
    tuple_output,
)

from metol import _core
from metol.errors import ScheduleFormatError
from metol.lower import Call, Directive, LoweringOptions, Schedule, Tail, cpu_directives, describe_funcs
from metol.measure.case import Case
from metol.measure.compiled import CompiledPipeline
from metol.pipeline import PipelineDag

SEEDS = (1, 4)
# The other pipelines run with the slow tests.
QUICK_NAMES = ("blur", "matmul_output", "scan", "boundary", "tuple_output", "two_outputs", "in_place", "no_dimension")


def fixed_schedule(build, dag: PipelineDag, leaf: _core.States) -> Schedule:
    directives = cpu_directives(dag, leaf.describe(), LoweringOptions(fixed_sizes=True))
    return Schedule(funcs=describe_funcs(build()), directives=directives)


def leaves(build, seeds: tuple[int, ...]) -> tuple[PipelineDag, list[_core.States]]:
    dag, space = cpu_space(build)
    return dag, [space.rollout(space.root(), [seed]) for seed in seeds]


def odd_width() -> hl.Pipeline:
    """No vector divides the width, and the height is less than many tiles."""
    source, stencil, output = image(39, 8), hl.Func("stencil"), hl.Func("output")
    stencil[X, Y] = source[X, Y] * 3 - source[X + 2, Y + 1]
    output[X, Y] = stencil[X, Y] + stencil[X, Y]
    return finish(output, sizes=(37, 7))


@pytest.mark.parametrize(
    "name", slow_but(QUICK_NAMES, PIPELINES, further=half_of(PIPELINES, QUICK_NAMES) | {"symmetric"})
)
def test_only_the_estimated_size_runs(name: str) -> None:
    build = PIPELINES[name]
    runs = ExactRuns(name)
    dag, found = leaves(build, SEEDS)
    for leaf in found:
        pipeline = build()
        fixed_schedule(build, dag, leaf).apply(pipeline)
        compiled = CompiledPipeline.compile(pipeline, runs.target)
        estimated, *others = runs.cases
        results, is_intact = compiled.run_once(estimated)
        assert is_intact
        for result, expected in zip(results, estimated.expected, strict=True):
            np.testing.assert_array_equal(result, expected)
        for case in others:
            if reads_output(dag) and runs_right(compiled, case):
                continue
            with pytest.raises(hl.HalideError, match=r"Constraint violated|accessed at|is smaller than"):
                compiled.run_once(case)


def reads_output(dag: PipelineDag) -> bool:
    """Does the pipeline read an output back? Halide is told nothing of its size then, and refuses what it must."""
    read = {edge.producer for stage in dag.stages for edge in stage.edges}
    return any(
        func in read or any(dag.stages[stage].self_accesses for stage in dag.funcs[func].stages) for func in dag.outputs
    )


def runs_right(compiled: CompiledPipeline, case: Case) -> bool:
    try:
        results, is_intact = compiled.run_once(case)
    except hl.HalideError:
        return False
    assert is_intact
    for result, expected in zip(results, case.expected, strict=True):
        np.testing.assert_array_equal(result, expected)
    return True


def test_a_size_that_nothing_divides_is_right() -> None:
    dag, found = leaves(odd_width, tuple(range(8)))
    source = np.random.default_rng(0).integers(0, 100, (8, 39)).astype(np.int32)
    once = source[:7, :37] * 3 - source[1:8, 2:39]
    for leaf in found:
        pipeline = odd_width()
        fixed_schedule(odd_width, dag, leaf).apply(pipeline)
        run = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
        result = np.zeros((7, 37), np.int32)
        run(hl.Buffer(source), hl.Buffer(result))
        np.testing.assert_array_equal(result, 2 * once)


@pytest.mark.parametrize("name", ["blur", "tuple_output", "two_outputs"])
def test_an_output_of_at_least_a_tile_has_no_guard_and_one_version(name: str) -> None:
    dag, found = leaves(PIPELINES[name], tuple(range(12)))
    outputs = {index for index, func in enumerate(dag.funcs) if func.is_output}
    splits = 0
    for leaf in found:
        schedule = fixed_schedule(PIPELINES[name], dag, leaf)
        assert schedule.has_fixed_sizes
        calls = [directive for directive in schedule.directives if directive.func in outputs]
        assert all(directive.call is not Call.SPECIALIZE for directive in calls)
        for split in (directive for directive in calls if directive.call is Call.SPLIT):
            splits += 1
            loop, _, _, factor, tail = split.args
            extent = WIDTH if loop.name.startswith("x") else HEIGHT
            assert tail in (Tail.ROUND_UP, Tail.SHIFT_INWARDS) or factor > extent, split
    assert splits > 0


def test_bounds_are_those_of_the_estimate() -> None:
    dag, (leaf,) = leaves(blur, (0,))
    bounds = [d.args for d in fixed_schedule(blur, dag, leaf).directives if d.call is Call.SET_BOUNDS]
    assert bounds == [(0, 0, WIDTH), (1, 0, HEIGHT)]
    assert not any(d.call is Call.SET_BOUNDS for d in cpu_directives(dag, leaf.describe()))


def read_output() -> hl.Pipeline:
    """An output that another one reads."""
    source, first, second = image(WIDTH, HEIGHT), hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] * 3
    second[X, Y] = first[X, Y] + 1
    return finish(first, second)


@pytest.mark.parametrize("build", [matmul_output, read_output])
def test_outputs_that_are_read_back_are_not_taken_for_aligned(build, tmp_path: Path) -> None:
    # Halide 21 loads them as if they were aligned as soon as it can tell the place of a load in a vector.
    dag, found = leaves(build, tuple(range(8)))
    name = dag.funcs[dag.outputs[0]].name.split("$")[0]
    load = re.compile(rf"(?<!^)\b{name}(\$\d+)?\[ramp\([^\]]*\]")
    loads = []
    for leaf in found:
        pipeline = build()
        schedule = fixed_schedule(build, dag, leaf)
        assert schedule.has_fixed_sizes
        schedule.apply(pipeline)
        file, arguments = tmp_path / "code.stmt", pipeline.infer_arguments()
        pipeline.compile_to_lowered_stmt(str(file), arguments, hl.StmtOutputFormat.Text, hl.Target(SOME_TARGET))
        loads += [m.group() for line in file.read_text().splitlines() for m in load.finditer(line.strip())]
    assert loads
    assert not [one for one in loads if "aligned" in one]


@pytest.mark.parametrize("build", [blur, tuple_output])
def test_source_and_file_say_the_same(build) -> None:
    dag, (leaf,) = leaves(build, (3,))
    schedule = fixed_schedule(build, dag, leaf)
    assert Schedule.from_json(schedule.to_json()) == schedule
    buffer = "output_buffers()[0]" if build is tuple_output else "output_buffer()"
    for text in (schedule.to_python(), schedule.to_cpp()):
        assert f".{buffer}.dim(0).set_bounds(0, {WIDTH})" in text
    names: dict[str, object] = {}
    exec(compile(schedule.to_python(), "schedule.py", "exec"), names)
    pipeline = build()
    names["apply_schedule"](pipeline)  # type: ignore[operator]
    source = hl.Buffer(np.zeros((HEIGHT + 2, WIDTH + 2), np.uint16 if build is blur else np.int32))
    run = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    with pytest.raises(hl.HalideError, match=r"Constraint violated"):
        run(source, *(hl.Buffer(kind, [WIDTH + 1, HEIGHT]) for kind in pipeline.outputs()[0].types()))


@pytest.mark.parametrize(
    ("func", "args", "message"),
    [(1, (0, 0, 8), "is not an output"), (2, (2, 0, 8), "has no dimension 2"), (2, (0, 0, 0), "a factor is 1 or more")],
)
def test_bounds_that_mean_nothing_are_refused(func: int, args: tuple[int, ...], message: str) -> None:
    with pytest.raises(ScheduleFormatError, match=message):
        Schedule(funcs=describe_funcs(blur()), directives=(Directive(func, 0, Call.SET_BOUNDS, args),))
