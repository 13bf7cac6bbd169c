"""Schedules that read beyond what the algorithm needs run on inputs that have grown for them."""

from collections.abc import Callable
from pathlib import Path

from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs
from metol.measure import LocalRunner, Measurement, PipelineSource, RunOptions, Scheduler, Status

Planted = Callable[[str], PipelineSource]


def run(source: PipelineSource, folder: Path, options: RunOptions) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Run everything at root, with one split of `rows` that rounds its 320 columns up to 336, beside a guarded one."""
    funcs = describe_funcs(source.build())
    root = [Directive(func.index, 0, Call.COMPUTE_ROOT) for func in funcs if func.name.startswith(("rows", "result"))]
    rows = next(func.index for func in funcs if func.name.startswith("rows"))
    schedulers = []
    for tail in (Tail.GUARD_WITH_IF, Tail.ROUND_UP):
        split = Directive(rows, 0, Call.SPLIT, (Var("x"), Var("x_o"), Var("x_i"), 48, tail))
        directives = [d for one in root for d in ((one, split) if one.func == rows else (one,))]
        Schedule(funcs, tuple(directives)).save(folder / f"{tail.value}.json")
        schedulers.append(Scheduler.of_file(folder / f"{tail.value}.json"))
    return LocalRunner(options).run_grown(source, schedulers)


def test_both_schedules_are_right_on_the_grown_input(
    planted: Planted, tmp_path: Path, brief_options: RunOptions
) -> None:
    (guarded, rounded), grown = run(planted("blur"), tmp_path, brief_options)
    assert grown == ("", "source")
    for row in (guarded, rounded):
        assert row.verified, row.detail
        assert row.run_ms is not None


def test_result_that_depends_on_the_size_of_the_input_is_wrong_on_the_grown_one(
    planted: Planted, tmp_path: Path, brief_options: RunOptions
) -> None:
    rows, grown = run(planted("blur_by_size"), tmp_path, brief_options)
    assert grown == ("", "source")
    assert [row.status for row in rows] == [Status.WRONG_RESULT, Status.WRONG_RESULT]


def test_no_input_grows_for_guarded_tails(planted: Planted, tmp_path: Path, brief_options: RunOptions) -> None:
    (first, second), grown = LocalRunner(brief_options).run_grown(planted("pair"), [Scheduler("reference")] * 2)
    assert grown == ("", "")
    assert first.verified
    assert second.verified
