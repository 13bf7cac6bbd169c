"""What each thread of a GPU computes for itself stays in registers, wherever a guard may cut it short."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import halide as hl
import pytest
from ptx_loops import loops_of
from slow_cases import half_of, slow_but
from small_pipelines import (
    EMULATED_TARGET,
    HEIGHT,
    PIPELINES,
    WIDTH,
    C,
    ExactRuns,
    X,
    Y,
    finish,
    gpu_space,
    image,
    schedule_with,
)

from metol import _core
from metol.lower import Call, Schedule, gpu_directives
from metol.pipeline import PipelineDag

THREADS, POINTS = 1, 2  # levels of a loop nest
ROLLOUTS = 600


def layer() -> hl.Pipeline:
    """A layer of a network: for each further channel it reads more of the weights."""
    source, weights = image(WIDTH + 64, HEIGHT + 1), image(64, 4, name="weights")
    sums, rectified, output = hl.Func("sums"), hl.Func("rectified"), hl.Func("output")
    k = hl.RDom([(0, 64)], "k")
    sums[X, Y, C] = 1
    sums[X, Y, C] += source[X + k.x, Y] * weights[k.x, C]
    rectified[X, Y, C] = hl.max(sums[X, Y, C], 20)
    output[X, Y, C] = rectified[X, Y, C] * 3 - rectified[X + 1, Y, C] + rectified[X, Y + 1, C]
    return finish(output, sizes=(WIDTH, HEIGHT, 4))


def line() -> hl.Pipeline:
    """An output of one dimension, whose version for small sizes would know what its loop is split by."""
    source = image(70)
    sums, output = hl.Func("sums"), hl.Func("output")
    k = hl.RDom([(0, 5)], "k")
    sums[X] = 0
    sums[X] += source[X + k.x] * (k.x + 1)
    output[X] = sums[X] * 2
    return finish(output, sizes=(64,))


# Pipelines of Funcs of which a thread may compute several points.
SEVERAL = ("blur", "chain", "convolution", "pyramid", "boundary", "product_inside", "tuples", "transpose", "where")
BUILDS = {**PIPELINES, "layer": layer, "line": line}


def plain_name(dag: PipelineDag, func: int) -> str:
    """The name of a Func, without what Halide adds where there was one of this name."""
    return dag.funcs[func].name.partition("$")[0]


def in_threads(dag: PipelineDag, schedules: list[_core.FuncSchedule]) -> dict[str, dict[int, int]]:
    """Funcs that threads compute for themselves, and how many points of each dimension."""
    found = {}
    for one in schedules:
        if one.placement == _core.Placement.AT and one.compute.level == THREADS:
            loops = dag.stages[dag.funcs[one.func].stages[0]].loops
            counts = one.stages[0].levels[POINTS]
            found[plain_name(dag, one.func)] = {
                loop.pure_dim: count for loop, count in zip(loops, counts, strict=False)
            }
    return found


def nests_with_points(name: str) -> Iterator[tuple[PipelineDag, list[_core.FuncSchedule]]]:
    """Random loop nests where threads compute several points of a Func for themselves."""
    dag, space = gpu_space(BUILDS[name])
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for place in range(ROLLOUTS):
        schedules = leaves.take([place]).describe()
        if any(max(points.values(), default=1) > 1 for points in in_threads(dag, schedules).values()):
            yield dag, schedules


def test_registers_are_told_how_many_points_a_thread_has() -> None:
    for dag, schedules in islice(nests_with_points("layer"), 8):
        told: dict[str, dict[int, int]] = {}
        for directive in gpu_directives(dag, schedules):
            if directive.call is Call.BOUND_STORAGE:
                dim = dag.funcs[directive.func].args.index(directive.args[0].name)
                told.setdefault(plain_name(dag, directive.func), {})[dim] = directive.args[1]
        assert told == in_threads(dag, schedules)


def test_what_registers_are_told_is_written_in_every_language() -> None:
    dag, schedules = next(nests_with_points("layer"))
    schedule = schedule_with(layer, gpu_directives(dag, schedules))
    func, points = next(iter(in_threads(dag, schedules).items()))
    assert func in ("sums", "rectified")
    for dim, name in enumerate("xyc"):
        assert f".bound_storage({name}, {points[dim]})" in schedule.to_python()
        assert f".bound_storage({name}, {points[dim]})" in schedule.to_cpp()
    assert Schedule.from_json(schedule.to_json()).directives == schedule.directives


def test_sums_of_several_points_go_to_no_memory_where_channels_are_guarded(tmp_path: Path) -> None:
    _, directives = next(
        (dag, gpu_directives(dag, schedules))
        for dag, schedules in nests_with_points("layer")
        if (points := in_threads(dag, schedules).get("sums", {})).get(2, 1) > 1 and max(points[0], points[1]) > 1
    )
    pipeline = layer()
    schedule_with(layer, directives).apply(pipeline)
    code = tmp_path / "kernels.ptx"
    target = hl.Target("host-cuda-cuda_capability_80-no_asserts-no_bounds_query")
    pipeline.compile_to({hl.OutputFileType.device_code: str(code)}, pipeline.infer_arguments(), "layer", target)
    sums = [body for body in loops_of(code.read_text(encoding="utf-8")) if "mad.lo.s32" in body and "ld." in body]
    assert sums
    for body in sums:
        assert "st." not in body
        assert ".local" not in body


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize("name", slow_but(["layer"], ["layer", *SEVERAL], further={*half_of(SEVERAL, ()), "chain"}))
def test_what_threads_compute_for_themselves_is_right_at_every_size(name: str) -> None:
    build = BUILDS[name]
    # Of a convolution's sizes, for a layer has as many channels.
    runs = ExactRuns("convolution" if build is layer else name, build, target=EMULATED_TARGET)
    nests = list(islice(nests_with_points(name), 3))
    assert nests
    for dag, schedules in nests:
        runs.check(schedule_with(build, gpu_directives(dag, schedules)))


def test_an_output_of_one_dimension_has_one_point_a_thread_where_others_are_in_its_threads() -> None:
    assert not list(nests_with_points("line"))
