"""From a pipeline to a schedule, and again from the file."""

import sys
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import PIPELINES, ExactRuns, X, Y, blur, chain, image

import metol
from metol.errors import (
    MetolError,
    MissingEstimateError,
    ScheduleMismatchError,
    UndefinedPipelineError,
    UnsupportedTargetError,
)
from metol.lower import Call, Directive, Var
from metol.options import SearchOptions

QUICK = SearchOptions(strategy="greedy")


def lowered(pipeline: hl.Pipeline, folder: Path) -> str:
    path = folder / "lowered.stmt"
    pipeline.compile_to_lowered_stmt(str(path), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    return path.read_text(encoding="utf-8")


def loops(pipeline: hl.Pipeline, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    pipeline.print_loop_nest()
    return capfd.readouterr().err


@pytest.mark.parametrize("name", ["blur", "matmul", "histogram", "two_outputs", "no_dimension"])
def test_autoschedule_keeps_the_result(name: str) -> None:
    result = metol.autoschedule(PIPELINES[name](), options=QUICK, threads=2)
    ExactRuns(name).check(result.schedule)


def test_autoschedule_works_in_place(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, other = blur(), blur()
    result = metol.autoschedule(pipeline, options=QUICK, threads=2)
    result.schedule.apply(other)
    assert loops(pipeline, capfd) == loops(other, capfd)
    assert result.is_complete
    assert result.candidates > 0
    assert 0 < result.predicted_seconds < 1
    assert f"{result.candidates} loop nests" in result.summary()


def test_autoschedule_strips_the_schedule_that_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    scheduled, plain = chain(), chain()
    scheduled.get_func(1).compute_root().parallel(Y).vectorize(X, 4)
    scheduled.get_func(3).split(X, hl.Var("outer"), hl.Var("inner"), 5)
    results = [metol.autoschedule(pipeline, options=QUICK, threads=2) for pipeline in (scheduled, plain)]
    assert results[0].schedule.directives == results[1].schedule.directives
    assert loops(scheduled, capfd) == loops(plain, capfd)


def test_autoschedule_again_finds_the_same() -> None:
    pipeline = blur()
    first = metol.autoschedule(pipeline, options=QUICK, threads=2)
    again = metol.autoschedule(pipeline, options=QUICK, threads=2)
    assert first.schedule == again.schedule


def test_saved_schedule_gives_the_same_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, other = chain(), chain()
    metol.autoschedule(pipeline, options=QUICK, threads=2).save(tmp_path / "chain.json")
    metol.load(tmp_path / "chain.json").apply(other)
    assert loops(pipeline, capfd) == loops(other, capfd)
    assert len(lowered(pipeline, tmp_path)) > 100


def test_saved_schedule_refuses_another_pipeline(tmp_path: Path) -> None:
    metol.autoschedule(chain(), options=QUICK, threads=2).save(tmp_path / "chain.json")
    with pytest.raises(ScheduleMismatchError, match=r"it has 3 Funcs"):
        metol.load(tmp_path / "chain.json").apply(blur())


def test_emitted_python_makes_the_same_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, other = chain(), chain()
    result = metol.autoschedule(pipeline, options=QUICK, threads=2)
    names: dict[str, object] = {}
    exec(compile(result.to_python(), "schedule.py", "exec"), names)
    names["apply_schedule"](other)  # type: ignore[operator]
    assert loops(pipeline, capfd) == loops(other, capfd)
    result.save(tmp_path / "chain.schedule.h")
    assert (tmp_path / "chain.schedule.h").read_text(encoding="utf-8") == result.to_cpp()


def test_a_func_is_as_good_as_a_pipeline(capfd: pytest.CaptureFixture[str]) -> None:
    whole, other = blur(), blur()
    func = other.outputs()[0]
    from_pipeline = metol.autoschedule(whole, options=QUICK, threads=2)
    from_func = metol.autoschedule(func, options=QUICK, threads=2)
    assert from_func.schedule == from_pipeline.schedule
    assert loops(hl.Pipeline(func), capfd) == loops(whole, capfd)


def without_estimates() -> hl.Pipeline:
    source, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("output")
    output[X, Y] = source[X, Y] + 1
    return hl.Pipeline(output)


@pytest.mark.parametrize(("given", "missing"), [("output", "`source`"), ("source", "`output`")])
def test_missing_estimate_names_the_func(given: str, missing: str) -> None:
    with pytest.raises(MissingEstimateError, match=missing):
        metol.autoschedule(without_estimates(), estimates={given: [(0, 64), (0, 48)]}, options=QUICK)


def test_estimates_may_be_given() -> None:
    estimates = {"output": [(0, 64), (0, 48)], "source": [(0, 64), (0, 48)]}
    result = metol.autoschedule(without_estimates(), estimates=estimates, options=QUICK, threads=2)
    assert {e.name: e.bounds for e in result.schedule.estimates} == {
        "output": ((0, 64), (0, 48)),
        "source_im": ((0, 64), (0, 48)),
    }


def test_undefined_func_is_an_error_that_names_it() -> None:
    with pytest.raises(UndefinedPipelineError, match="nothing"):
        metol.autoschedule(hl.Func("nothing"), options=QUICK)


@pytest.mark.parametrize("target", ["host-cuda", "x86-64-linux-opencl"])
def test_gpu_targets_are_refused(target: str) -> None:
    with pytest.raises(UnsupportedTargetError, match="GPU"):
        metol.autoschedule(blur(), target=target, options=QUICK)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="pdp11"):
        metol.autoschedule(blur(), target="pdp11", options=QUICK)


def test_target_may_be_an_object() -> None:
    result = metol.autoschedule(blur(), target=hl.Target("x86-64-linux-avx2"), options=QUICK, threads=1)
    assert result.schedule.target.startswith("x86-64-linux")


def test_time_budget_ends_the_search() -> None:
    options = SearchOptions(beam_width=32, budget_seconds=1e-6)
    result = metol.autoschedule(chain(), options=options, threads=1)
    assert not result.is_complete
    assert "stopped by the time budget" in result.summary()


def test_a_failed_call_leaves_the_pipeline_alone(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = blur()
    pipeline.get_func(1).compute_root()
    before = loops(pipeline, capfd)
    with pytest.raises(UnsupportedTargetError):
        metol.autoschedule(pipeline, target="host-cuda", options=QUICK)
    assert loops(pipeline, capfd) == before


def test_single_stage() -> None:
    source, output = image(64, 48), hl.Func("output")
    output[X, Y] = source[X, Y] * 2
    output.set_estimates([(0, 64), (0, 48)])
    assert metol.autoschedule(output, options=QUICK, threads=2).schedule.directives


def test_verify_tells_what_was_compared(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, other = blur(), blur()
    result = metol.autoschedule(pipeline, options=QUICK, threads=1, verify=True)
    assert "40x24" in result.verification
    assert "exact" in result.verification
    result.schedule.apply(other)
    assert loops(pipeline, capfd) == loops(other, capfd)
    assert metol.autoschedule(blur(), options=QUICK, threads=1).verification == ""


def test_verify_refuses_a_schedule_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # A schedule that Halide takes and cannot compile: no loop of unknown extent can be unrolled.
    unroll = Directive(1, 0, Call.UNROLL, (Var("x"),))
    calls = (Directive(1, 0, Call.COMPUTE_ROOT), unroll)
    monkeypatch.setattr(sys.modules["metol.autoschedule"], "cpu_directives", lambda *_, **__: calls)
    with pytest.raises(MetolError, match=r"compile failed and has not been applied.*constant extent"):
        metol.autoschedule(blur(), options=QUICK, threads=1, verify=True)
