"""Checking schedules at awkward sizes: right ones, wrong ones, and sizes that no schedule of a pipeline works at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import image

from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs
from metol.measure import CheckOutcome, OutputSizes, PipelineSource, RunOptions, SizeCheck, SizeChecker, sizes_to_check
from metol.measure.case_names import ESTIMATED
from metol.measure.scheduler import Scheduler

Planted = Callable[[str], PipelineSource]
OPTIONS = RunOptions(timing=None, timeout_seconds=60)
VERIFIED, NOT_ALLOWED, FAILED = CheckOutcome


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Callable[..., list[SizeCheck]]]:
    """Give a function that checks a schedule of a source at sizes."""
    (tmp_path / "cases").mkdir()
    file = tmp_path / "schedule.json"
    checkers: list[SizeChecker] = []

    def run(source: PipelineSource, schedule: Schedule, *extents: tuple[int, ...]) -> list[SizeCheck]:
        schedule.save(file)
        if not checkers:
            checkers.append(SizeChecker(source, OPTIONS, tmp_path / "cases"))
        sizes = [OutputSizes("x".join(map(str, sides)), (sides,)) for sides in extents]
        return list(checkers[0].check(file, sizes))

    yield run
    for checker in checkers:
        checker.close()


def root(source: PipelineSource, *directives: Directive) -> Schedule:
    """Everything at root: `directives` are for the last Func."""
    pipeline = source.build()
    # The planted builders go wrong when built a second time, and the reference is to be the first.
    Path(source.location).with_suffix(".built").unlink(missing_ok=True)
    return Schedule(describe_funcs(pipeline), directives)


def split_of_last(source: PipelineSource, factor: int, tail: Tail) -> Schedule:
    last = len(describe_funcs(source.build())) - 1
    Path(source.location).with_suffix(".built").unlink(missing_ok=True)
    names = Var("x"), Var("x_o"), Var("x_i")
    return root(source, Directive(last, 0, Call.SPLIT, (*names, factor, tail)))


def test_sizes_lie_around_vectors_and_the_factors_of_the_output() -> None:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    source, result = image(100, 80, 3), hl.Func("result")
    result[x, y, c] = source[x, y, c]
    result.set_estimates([(0, 100), (0, 80), (0, 3)])
    pipeline = hl.Pipeline(result)
    funcs = describe_funcs(pipeline)
    output = next(func.index for func in funcs if func.output >= 0)
    calls = [("x", 32, "x_o", "x_i"), ("x_i", 8, "x_1", "x_2"), ("y", 10, "y_o", "y_i")]
    directives = [
        Directive(output, 0, Call.SPLIT, (Var(old), Var(outer), Var(inner), factor, Tail.GUARD_WITH_IF))
        for old, factor, outer, inner in calls
    ]
    target = hl.Target("x86-64-linux-avx2")
    sizes = sizes_to_check(pipeline, Schedule(funcs, tuple(directives)), target)
    assert {size.name: size.text for size in sizes} == {
        ESTIMATED: "100x80x3",
        "1x1": "1x1x3",
        "3x5": "3x5x3",
        "vector-1": "7x3x3",
        "tile-1": "7x9x3",
        "tile1-1": "31x9x3",
        "vector+1": "9x3x3",
        "tile+1": "9x11x3",
        "tile1+1": "33x11x3",
        "odd": "75x61x3",
    }


def test_right_schedule_is_verified_at_every_size(planted: Planted, check: Callable[..., list[SizeCheck]]) -> None:
    source = planted("blur")
    checks = check(source, split_of_last(source, 8, Tail.GUARD_WITH_IF), (320, 200), (1, 1), (9, 5))
    assert [(c.extents, c.outcome) for c in checks] == [("320x200", VERIFIED), ("1x1", VERIFIED), ("9x5", VERIFIED)]


def test_refused_size_is_a_failure_where_the_reference_runs(
    planted: Planted, check: Callable[..., list[SizeCheck]]
) -> None:
    source = planted("blur")
    large, small = check(source, split_of_last(source, 8, Tail.ROUND_UP), (16, 5), (9, 5))
    assert large.outcome is VERIFIED
    assert small.outcome is FAILED
    assert "HalideError" in small.detail


def test_wrong_result_is_a_failure(planted: Planted, check: Callable[..., list[SizeCheck]]) -> None:
    source = planted("differs")
    (wrong,) = check(source, root(source), (6, 5))
    assert wrong.outcome is FAILED
    assert wrong.detail.startswith("wrong result")


def test_code_that_dies_fails_at_each_size(planted: Planted, check: Callable[..., list[SizeCheck]]) -> None:
    source = planted("aborts")
    checks = check(source, root(source), (6, 5), (7, 5))
    assert [c.outcome for c in checks] == [FAILED, FAILED]
    assert "SIGABRT" in checks[1].detail


def test_size_that_the_pipeline_does_not_allow_is_no_failure(
    tmp_path: Path, check: Callable[..., list[SizeCheck]]
) -> None:
    (tmp_path / "mine.py").write_text(
        "import halide as hl\n"
        "def wide():\n"
        "    x, y, result = hl.Var('x'), hl.Var('y'), hl.Func('result')\n"
        "    result[x, y] = x + y\n"
        "    result.output_buffer().dim(0).set_bounds(0, 64)\n"
        "    result.set_estimates([(0, 64), (0, 48)])\n"
        "    return result\n"
    )
    source = PipelineSource.parse(f"{tmp_path / 'mine.py'}:wide")
    checks = check(source, root(source), (64, 48), (9, 48), (64, 1))
    assert [c.outcome for c in checks] == [VERIFIED, NOT_ALLOWED, VERIFIED]
    assert checks[1].detail == "its constraints make it 64x48"


def test_promise_of_one_size_must_be_kept(
    planted: Planted, check: Callable[..., list[SizeCheck]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = planted("blur")
    bounds = [Directive(1, 0, Call.SET_BOUNDS, (d, 0, extent)) for d, extent in enumerate((320, 200))]
    funcs = describe_funcs(source.build())
    output = next(func.index for func in funcs if func.output >= 0)
    keeping = root(source, *(Directive(output, 0, call.call, call.args) for call in bounds))
    (kept,) = check(source, keeping, (9, 5))
    assert kept.outcome is VERIFIED
    assert "HalideError" in kept.detail
    monkeypatch.setattr(Scheduler, "has_fixed_sizes", True)
    (broken,) = check(source, root(source), (9, 5))
    assert (broken.outcome, broken.detail) == (FAILED, "it runs at a size that it promised to refuse")


def test_check_survives_its_row() -> None:
    whole = SizeCheck("1x1", "1x1", FAILED, "why")
    assert SizeCheck.from_row(whole.to_row()) == whole
