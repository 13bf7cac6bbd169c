"""What lowered code says that it needs, beside what Halide finds by compiling and asking."""

from collections.abc import Callable
from pathlib import Path

import halide as hl
import pytest
from sample_algorithms import X, Y, blur, histogram

from metol.errors import ExtractionError, MetolError
from metol.pipeline import LoweredPipeline, copy_pipeline, placements, strip_schedules

TARGET = str(hl.get_host_target())
XO, XI = hl.Var("xo"), hl.Var("xi")


def shifted_output() -> tuple[hl.Pipeline, hl.ImageParam, str]:
    """A Func at root that rounds up over an input, and an output whose remainder is shifted inwards."""
    source = hl.ImageParam(hl.Int(32), 2, "source")
    double, output = hl.Func("double"), hl.Func("output")
    double[X, Y] = source[X, Y] * 2
    output[X, Y] = double[X, Y] + double[X + 3, Y - 1]
    double.compute_root().split(X, XO, XI, 8, hl.TailStrategy.RoundUp).vectorize(XI)
    output.split(X, hl.Var("oo"), hl.Var("oi"), 16, hl.TailStrategy.ShiftInwards)
    return hl.Pipeline(output), source, output.name()


@pytest.mark.parametrize("size", [(40, 10), (17, 3), (32, 1)])
def test_required_is_what_a_bounds_query_of_compiled_code_answers(size: tuple[int, int]) -> None:
    pipeline, source, output = shifted_output()
    lowered = LoweredPipeline(pipeline, TARGET)
    required = lowered.required({output: [(0, extent) for extent in size]}, {})
    pipeline.infer_input_bounds(list(size))
    needed = [(dim.min(), dim.extent()) for dim in (source.get().dim(0), source.get().dim(1))]
    assert [(side.min, side.extent) for side in required["source"] if side] == needed
    assert [(side.min, side.extent) for side in required[output] if side] == [(0, extent) for extent in size]


def test_required_tells_of_an_output_that_is_too_small() -> None:
    pipeline, _, output = shifted_output()
    (along_x, _) = LoweredPipeline(pipeline, TARGET).required({output: [(0, 5), (0, 3)]}, {})[output]
    assert along_x is not None
    assert (along_x.min, along_x.max) == (-11, 4)


def test_required_uses_scalars_and_leaves_open_what_it_does_not_know() -> None:
    source, shift, output = hl.ImageParam(hl.Int(32), 1, "source"), hl.Param(hl.Int(32), "shift"), hl.Func("output")
    output[X] = source[X + shift]
    lowered = LoweredPipeline(hl.Pipeline(output), TARGET)
    (side,) = lowered.required({output.name(): [(0, 10)]}, {"shift": 7})["source"]
    assert side is not None
    assert (side.min, side.max) == (7, 16)
    assert lowered.required({output.name(): [(0, 10)]}, {})["source"] == [None]


@pytest.mark.parametrize("feature", ["no_asserts", "no_bounds_query"])
def test_required_does_not_depend_on_the_checks_of_the_target(feature: str) -> None:
    lowered = LoweredPipeline(shifted_output()[0], f"{TARGET}-{feature}")
    assert len(lowered.required({}, {})) == 2


def test_lowering_tells_what_halide_refuses() -> None:
    pipeline, _, _ = shifted_output()
    pipeline.get_func(2).unroll(Y)
    with pytest.raises(ExtractionError, match="constant extent"):
        LoweredPipeline(pipeline, TARGET)


@pytest.mark.parametrize("build", [blur, histogram])
def test_copy_has_a_schedule_of_its_own(build: Callable[[], hl.Pipeline]) -> None:
    pipeline = build()
    pipeline.get_func(1).compute_root()
    copy = copy_pipeline(pipeline)
    assert placements(copy) == placements(pipeline)
    strip_schedules(copy)
    assert placements(pipeline)[1] == ("root", ())
    assert placements(copy)[1] == ("inline", ())


def test_placements_name_the_funcs_whose_loops_a_schedule_is_at() -> None:
    pipeline = blur()
    source, blur_x, blur_y = (pipeline.get_func(i) for i in range(3))
    blur_x.store_root().compute_at(blur_y, Y)
    source.compute_root()
    assert placements(pipeline) == (("root", ()), ("at", (blur_y.name(),)), ("root", ()))


def test_strip_leaves_kept_funcs_alone() -> None:
    pipeline = blur()
    for i in range(2):
        pipeline.get_func(i).compute_root()
    pipeline.get_func(1).vectorize(X, 4)
    strip_schedules(pipeline, [1])
    assert [placement for placement, _ in placements(pipeline)] == ["inline", "root", "root"]
    strip_schedules(pipeline)
    assert [placement for placement, _ in placements(pipeline)] == ["inline", "inline", "root"]


def test_strip_leaves_the_wrappers_of_kept_funcs_alone(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = blur()
    _, blur_x, blur_y = (pipeline.get_func(i) for i in range(3))
    blur_x.compute_root()
    blur_x.in_(blur_y).compute_root()
    strip_schedules(pipeline, [1])
    pipeline.print_loop_nest()
    assert capfd.readouterr().err.count("produce blur_x") == 2  # the wrapper prints under the name of what it wraps
    strip_schedules(pipeline)
    pipeline.print_loop_nest()
    assert "produce blur_x" not in capfd.readouterr().err


def loops_in(pipeline: hl.Pipeline, path: Path) -> int:
    pipeline.compile_to_lowered_stmt(str(path), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    return path.read_text().count("for (")


def clamped() -> tuple[hl.Func, hl.Func]:
    source, output = hl.ImageParam(hl.Int(32), 1, "source"), hl.Func("output")
    clamped = hl.BoundaryConditions.repeat_edge(source)
    output[X] = clamped[X - 1] + clamped[X + 1]
    return output, clamped


def test_loops_are_split_as_before_once_a_pipeline_has_been_lowered(tmp_path: Path) -> None:
    output, _ = clamped()
    pipeline = hl.Pipeline(output)
    before = loops_in(pipeline, tmp_path / "before.stmt")
    assert before > 1  # the ends and the middle
    LoweredPipeline(pipeline, TARGET)
    assert loops_in(pipeline, tmp_path / "after.stmt") == before


def test_what_is_told_to_be_split_and_cannot_be_is_refused() -> None:
    source, output = hl.ImageParam(hl.Int(32), 1, "source"), hl.Func("output")
    output[X] = source[X]
    output.always_partition_all()
    with pytest.raises(MetolError):
        LoweredPipeline(hl.Pipeline(output), TARGET)


def test_loops_are_split_as_before_once_lowering_has_failed(tmp_path: Path) -> None:
    output, inner = clamped()
    inner.compute_root()
    before = loops_in(hl.Pipeline(output), tmp_path / "before.stmt")
    output.always_partition_all()  # there is nothing to split in it
    with pytest.raises(MetolError):
        LoweredPipeline(hl.Pipeline(output), TARGET)
    output.partition(X, hl.Partition.Auto)
    assert loops_in(hl.Pipeline(output), tmp_path / "after.stmt") == before


def test_launches_are_those_of_each_stage() -> None:
    output, k = hl.Func("output"), hl.RDom([(0, 4)], "k")
    output[X, Y] = X
    output[X, Y] += k.x * Y
    for stage in (output, output.update()):
        stage.gpu_tile(X, Y, XI, hl.Var("yi"), 16, 4, hl.TailStrategy.GuardWithIf)
    lowered = LoweredPipeline(hl.Pipeline(output), "host-cuda", has_partitions=True)
    launches = lowered.launches({output.name(): [(0, 40), (0, 10)]}, {})
    assert [(launch.func, launch.stage) for launch in launches] == [(output.name(), 0), (output.name(), 1)]
    for launch in launches:
        assert (launch.blocks, launch.threads, launch.shared_bytes) == ([3, 3, 1], [16, 4, 1], 0)
        assert f".entry {launch.kernel}(" in lowered.device_code()
    unknown, *_ = lowered.launches({}, {})
    assert (unknown.blocks, unknown.threads) == ([None, None, 1], [16, 4, 1])


def test_launches_of_a_second_lowering_are_told_apart_all_the_same() -> None:
    output = hl.Func("output$7")
    output[X, Y] = X
    output.gpu_tile(X, Y, XI, hl.Var("yi"), 16, 4)
    launches = [LoweredPipeline(hl.Pipeline(output), "host-cuda").launches({}, {})[0] for _ in range(2)]
    assert launches[0].kernel != launches[1].kernel
    assert {(launch.func, launch.stage) for launch in launches} == {(output.name(), 0)}


def test_code_for_a_cpu_launches_nothing() -> None:
    lowered = LoweredPipeline(shifted_output()[0], TARGET)
    assert lowered.launches({}, {}) == []
    assert lowered.device_code() == ""
