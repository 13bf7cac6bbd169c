"""From a pipeline to a schedule, and again from the file."""

import pickle
import sys
from pathlib import Path

import halide as hl
import pytest
from loop_nests import loops
from small_pipelines import PIPELINES, ExactRuns, X, Y, blur, chain, finish, image

import metol
from metol import verification
from metol.errors import (
    ContradictoryEstimateError,
    ExtractionError,
    MetolError,
    MissingEstimateError,
    ScheduleMismatchError,
    SearchError,
    UndefinedPipelineError,
    UnsupportedTargetError,
)
from metol.lower import Call, Directive, Tail, Var
from metol.measure import Acceptance, Measurement, Status
from metol.options import SearchOptions

X_, XO, XI = Var("x"), Var("xo"), Var("xi")
QUICK = SearchOptions(strategy="greedy")


def lowered(pipeline: hl.Pipeline, folder: Path) -> str:
    path = folder / "lowered.stmt"
    pipeline.compile_to_lowered_stmt(str(path), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["blur", "matmul", "histogram", "two_outputs", "no_dimension"])
def test_autoschedule_keeps_the_result(name: str) -> None:
    result = metol.autoschedule(PIPELINES[name](), options=QUICK, threads=2)
    ExactRuns(name).check(result.schedule)


def test_func_that_a_condition_keeps_within_an_input_is_computed() -> None:
    source, output = image(40, 3), hl.Func("output")
    doubled, weighted = hl.Func("doubled"), hl.Func("weighted")
    doubled[X, Y] = 2 * source[X, Y]
    weighted[X, Y] = hl.select(Y < 3, doubled[X, Y], 1)
    output[X, Y] = weighted[X, Y] // weighted[X, 3]
    result = metol.autoschedule(finish(output, sizes=(40, 3)), options=QUICK, threads=2)
    assert (result.origin, result.fallbacks) == ("search", ())
    computed = {d.func for d in result.schedule.directives if d.call in (Call.COMPUTE_ROOT, Call.COMPUTE_AT)}
    assert next(func.index for func in result.schedule.funcs if func.name == "doubled") in computed


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


@pytest.mark.parametrize("target", ["x86-64-windows-d3d12compute", "arm-64-osx-metal", "metal", "host-vulkan"])
def test_other_gpu_targets_are_refused(target: str) -> None:
    with pytest.raises(UnsupportedTargetError, match="Use cuda or opencl"):
        metol.autoschedule(blur(), target=target, options=QUICK)


@pytest.mark.parametrize(
    ("target", "machine", "wanted"),
    [
        ("host-opencl", metol.CpuMachine.default(), "GpuMachine"),
        ("host", metol.GpuMachine.preset("a100"), "CpuMachine"),
    ],
)
def test_a_machine_of_another_kind_is_refused(
    target: str, machine: metol.CpuMachine | metol.GpuMachine, wanted: str
) -> None:
    with pytest.raises(UnsupportedTargetError, match=f"needs a {wanted}"):
        metol.autoschedule(blur(), target=target, machine=machine, options=QUICK)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="pdp11") as error:
        metol.autoschedule(blur(), target="pdp11", options=QUICK)
    assert "\n" not in str(error.value)


def test_target_may_be_an_object() -> None:
    result = metol.autoschedule(blur(), target=hl.Target("x86-64-linux-avx2"), options=QUICK, threads=1)
    assert result.schedule.target.startswith("x86-64-linux")


def test_time_budget_ends_the_search() -> None:
    options = SearchOptions(beam_width=32, budget_seconds=1e-6)
    result = metol.autoschedule(chain(), options=options, threads=1)
    assert not result.is_complete
    assert "stopped early" in result.summary()


@pytest.mark.parametrize("side", [(0, 99_999_999_999), (1 << 31, 4), (-(1 << 31) - 1, 4)])
def test_estimates_beyond_coordinates_are_told(side: tuple[int, int]) -> None:
    with pytest.raises(ContradictoryEstimateError, match="coordinates have 32 bits"):
        metol.autoschedule(blur(), options=QUICK, estimates={"blur_y": [side, (0, 24)]})


def test_a_result_goes_to_other_processes() -> None:
    result = metol.autoschedule(blur(), options=QUICK, threads=2)
    assert result.lower is not None
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert copy.lower is None
    ExactRuns("blur").check(copy.schedule)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", 100_000])
@pytest.mark.parametrize("target", ["host", "host-cuda"])
def test_what_is_no_number_of_threads_is_told(threads: object, target: str) -> None:
    with pytest.raises(SearchError, match="1 thread or more, up to 8192, not"):
        metol.autoschedule(blur(), options=QUICK, threads=threads, target=target)  # type: ignore[arg-type]


def test_a_failed_call_leaves_the_pipeline_alone(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = blur()
    pipeline.get_func(1).compute_root()
    before = loops(pipeline, capfd)
    with pytest.raises(UnsupportedTargetError):
        metol.autoschedule(pipeline, target="arm-64-osx-metal", options=QUICK)
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


# Ways in which a schedule of `blur` can be wrong.
AT_THE_CALL = (Directive(1, 0, Call.COMPUTE_ROOT), Directive(1, 0, Call.SPLIT, (X_, XO, XI, 4, Tail.PREDICATE_LOADS)))
UNROLLED = (Directive(1, 0, Call.COMPUTE_ROOT), Directive(1, 0, Call.UNROLL, (X_,)))
ROUNDED_UP = (Directive(2, 0, Call.SPLIT, (X_, XO, XI, 16, Tail.ROUND_UP)),)
TWICE = (Directive(1, 0, Call.COMPUTE_ROOT), Directive(1, 0, Call.PARALLEL, (Var("nothing"),)))
WRONG = {
    "the call is refused": (
        (*AT_THE_CALL, Directive(1, 0, Call.SPLIT, (XI, Var("a"), Var("b"), 2, Tail.PREDICATE_LOADS))),
        "Halide refused directive",
    ),
    "lowering is refused": (UNROLLED, "constant extent"),
    "more is needed": (ROUNDED_UP, "where the algorithm needs"),
    "it makes no sense": (TWICE, "Directive 1 of the schedule"),
}


def plant(monkeypatch: pytest.MonkeyPatch, name: str, *results: tuple[Directive, ...]) -> None:
    """Let a function that makes directives give these, one a call, and then what it really makes."""
    module = sys.modules["metol.candidates"]
    real, planted = getattr(module, name), list(results)
    monkeypatch.setattr(module, name, lambda *args: planted.pop(0) if planted else real(*args))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_refused_schedule_gives_way_to_the_next_best(
    wrong: tuple[tuple[Directive, ...], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directives, reason = wrong
    plant(monkeypatch, "target_directives", directives)
    result = metol.autoschedule(blur(), options=SearchOptions(beam_width=4), threads=2)
    assert result.origin == "alternative"
    (refusal,) = result.fallbacks
    assert refusal.startswith("the best found: ")
    assert reason in refusal
    assert "1 schedule refused, this is the next best found" in result.summary()
    assert 0 < result.predicted_seconds < 1
    ExactRuns("blur").check(result.schedule)


def test_safe_schedule_is_taken_where_all_that_was_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "target_directives", *[UNROLLED] * 20)
    result = metol.autoschedule(blur(), options=QUICK, threads=2)
    assert result.origin == "safe"
    assert result.fallbacks
    assert "this is the safe schedule" in result.summary()
    assert "predicted" not in result.summary()
    ExactRuns("blur").check(result.schedule)


def refuse_first(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    real, refused = Acceptance.refusal, []

    def refusal(self: Acceptance, schedule: metol.Schedule) -> str:
        if len(refused) < count:
            refused.append(schedule)
            return "planted"
        return real(self, schedule)

    monkeypatch.setattr(Acceptance, "refusal", refusal)


# Each finds one schedule, and no other.
ONE_EACH = {
    "x86-64-linux-avx2": SearchOptions(strategy="random", refine=False),
    "cuda": SearchOptions(strategy="grouping", fusion="no-fusion"),
}


@pytest.mark.parametrize("target", ONE_EACH)
def test_narrower_spaces_are_searched_where_all_that_was_found_is_refused(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    refuse_first(monkeypatch, 1)
    gpu = "a100" if target == "cuda" else None
    result = metol.autoschedule(blur(), target=target, gpu=gpu, options=ONE_EACH[target])
    assert (result.origin, result.fallbacks) == ("narrower", ("the best found: planted",))
    assert 0 < result.predicted_seconds < 1
    assert "this is the best found in a narrower space" in result.summary()


def test_spaces_become_ever_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_first(monkeypatch, 3)
    result = metol.autoschedule(chain(), target="x86-64-linux-avx2", options=ONE_EACH["x86-64-linux-avx2"])
    assert (result.origin, len(result.fallbacks)) == ("narrower", 3)
    calls = {directive.call for directive in result.schedule.directives}
    assert Call.VECTORIZE in calls
    assert not calls & {Call.COMPUTE_AT, Call.UNROLL}


def test_each_func_gets_a_kernel_where_all_that_was_found_for_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_first(monkeypatch, 4)
    result = metol.autoschedule(blur(), target="cuda", gpu="a100", options=ONE_EACH["cuda"])
    assert result.origin == "safe"
    funcs = {
        call: {directive.func for directive in result.schedule.directives if directive.call is call}
        for call in (Call.COMPUTE_ROOT, Call.GPU_BLOCKS)
    }
    assert len(funcs[Call.COMPUTE_ROOT]) == 2
    assert funcs[Call.COMPUTE_ROOT] == funcs[Call.GPU_BLOCKS]


@pytest.mark.parametrize(("pixel", "feature"), [(hl.Float(64), "cl_doubles"), (hl.Float(16), "cl_half")])
def test_types_that_opencl_lacks_a_feature_for_are_told(pixel: hl.Type, feature: str) -> None:
    x = hl.Var("x")
    source, output = image(40, name="source", pixel=pixel), hl.Func("output")
    output[x] = hl.i32(source[x])
    output.set_estimates([(0, 40)])
    message = f"`source` has values of type float.*Add it to the target, as in `opencl-{feature}`"
    with pytest.raises(UnsupportedTargetError, match=message):
        metol.autoschedule(output, target="opencl", options=QUICK)
    assert metol.autoschedule(output, target=f"opencl-{feature}", options=QUICK).origin == "search"


def test_root_is_taken_where_the_safe_schedule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "target_directives", *[UNROLLED] * 20)
    plant(monkeypatch, "safe_directives", ROUNDED_UP)
    result = metol.autoschedule(blur(), options=QUICK, threads=2)
    assert result.origin == "root"
    assert result.fallbacks[-1].startswith("the safe schedule: ")
    assert {directive.call for directive in result.schedule.directives} == {Call.COMPUTE_ROOT}
    ExactRuns("blur").check(result.schedule)


def test_pipeline_is_left_alone_where_everything_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Acceptance, "refusal", lambda *_: "planted")
    pipeline = blur()
    pipeline.get_func(1).compute_root().parallel(Y)
    before = loops(pipeline, capfd)
    with pytest.raises(MetolError, match=r"Every schedule .* everything inline: planted"):
        metol.autoschedule(pipeline, options=QUICK, threads=2)
    assert loops(pipeline, capfd) == before


def test_wrong_result_gives_way_to_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Measurement("blur", "schedule", Status.WRONG_RESULT, detail="planted")]
    real = verification.verify_schedule
    monkeypatch.setattr(verification, "verify_schedule", lambda *a, **k: rows.pop() if rows else real(*a, **k))
    result = metol.autoschedule(blur(), options=QUICK, threads=1, verify=True)
    assert result.origin != "search"
    assert "wrong result: planted" in result.fallbacks[0]
    assert "40x24" in result.verification


def test_verify_takes_estimates_from_outside() -> None:
    estimates = {"output": [(0, 64), (0, 48)], "source": [(0, 64), (0, 48)]}
    result = metol.autoschedule(without_estimates(), estimates=estimates, options=QUICK, threads=1, verify=True)
    assert "64x48" in result.verification


def test_interrupted_search_leaves_the_pipeline_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    pipeline = blur()
    pipeline.get_func(1).compute_root().parallel(Y)
    before = loops(pipeline, capfd)
    monkeypatch.setattr(SearchOptions, "make", interrupt)
    with pytest.raises(KeyboardInterrupt):
        metol.autoschedule(pipeline, options=QUICK, threads=2)
    assert loops(pipeline, capfd) == before


def test_cancelled_search_gives_the_best_so_far() -> None:
    result = metol.autoschedule(chain(), options=SearchOptions(), threads=1, is_cancelled=lambda: True)
    assert not result.is_complete
    ExactRuns("chain").check(result.schedule)


def with_extern_stage() -> hl.Func:
    source, output = image(48, 32), hl.Func("output")
    first, foreign = hl.Func("first"), hl.Func("foreign")
    first[X, Y] = source[X, Y] + 1
    foreign.define_extern("somewhere_else", [first], hl.Int(32), 2)
    output[X, Y] = foreign[X, Y] * 2
    output.set_estimates([(0, 48), (0, 32)])
    return output


def read_anywhere(*, inline: bool) -> hl.Func:
    """A read that nothing bounds: of a Func, which can be computed inline, or of an input, which has an end."""
    index, output = image(48, name="index"), hl.Func("output")
    squares, table = hl.Func("squares"), image(100, name="table")
    squares[X] = X * X
    output[X] = squares[index[X]] if inline else table[index[X]]
    output.set_estimates([(0, 48)])
    return output


def test_pipeline_that_cannot_be_read_is_computed_at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["metol.framing"], "extract", refuse_to_read)
    result = metol.autoschedule(blur(), options=QUICK, threads=1, verify=True)
    assert result.origin == "root"
    assert result.fallbacks == ("planted",)
    assert "exact" in result.verification
    ExactRuns("blur").check(result.schedule)


def refuse_to_read(*_: object, **__: object) -> None:
    raise ExtractionError("planted")


def test_whatever_halide_lowers_gets_a_schedule(tmp_path: Path) -> None:
    for output in (with_extern_stage(), read_anywhere(inline=True)):
        result = metol.autoschedule(output, options=QUICK, threads=1)
        assert "refused" in result.summary() or not result.fallbacks
        assert len(lowered(hl.Pipeline(output), tmp_path)) > 100


def test_pipeline_that_halide_refuses_too_is_an_error_about_what_was_read() -> None:
    with pytest.raises(ExtractionError, match=r"reads `table.* unbounded; clamp the coordinate"):
        metol.autoschedule(read_anywhere(inline=False), options=QUICK, threads=1)


def test_what_verify_may_be_is_told() -> None:
    with pytest.raises(MetolError, match="True, False or `kernels`, not `kernel`"):
        metol.autoschedule(chain(), verify="kernel")  # type: ignore[arg-type]


@pytest.mark.parametrize("sides", [None, [(0, 640), (0, 480)]])
def test_border_may_be_given_in_numbers_that_are_the_estimated_size(sides: list[tuple[int, int]] | None) -> None:
    x, y = hl.Var("x"), hl.Var("y")
    source, blurred, output = hl.ImageParam(hl.UInt(8), 2, "source"), hl.Func("blurred"), hl.Func("output")
    source.set_estimates([(0, 640), (0, 480)])
    repeat = hl.BoundaryConditions.repeat_edge
    edges = repeat(source) if sides is None else repeat(source, sides)
    blurred[x, y] = hl.u16(edges[x - 1, y]) + edges[x, y] + edges[x + 1, y]
    output[x, y] = hl.u8((blurred[x, y - 1] + blurred[x, y] + blurred[x, y + 1]) // 9)
    output.set_estimates([(0, 640), (0, 480)])
    result = metol.autoschedule(hl.Pipeline(output))
    assert result.fallbacks == ()


def of_truth_values() -> hl.Pipeline:
    source, both, output = image(49, 33, pixel=hl.Bool()), hl.Func("both"), hl.Func("output")
    both[X, Y] = source[X, Y] & source[X + 1, Y]
    output[X, Y] = hl.select(both[X, Y] | both[X, Y + 1], hl.u8(1), hl.u8(0))
    return finish(output)


def test_truth_values_that_no_lane_loads_are_not_taken_for_read() -> None:
    for seed in range(12):
        options = SearchOptions(strategy="random", refine=False, seed=seed)
        result = metol.autoschedule(of_truth_values(), options=options, threads=2)
        assert result.fallbacks == ()


def test_input_that_begins_at_a_multiple_of_bytes_is_verified() -> None:
    source, output = image(49, 33), hl.Func("output")
    source.set_host_alignment(32)
    output[X, Y] = source[X, Y] + source[X + 1, Y]
    result = metol.autoschedule(finish(output), options=QUICK, threads=2, verify=True)
    assert result.is_compared
    assert result.origin == "search"
