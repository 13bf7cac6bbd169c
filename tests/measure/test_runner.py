import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from slow_cases import EXHAUSTIVE

from metol.errors import MetolError, UnknownAppError
from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs
from metol.measure import LocalRunner, Measurement, PipelineSource, RunOptions, Scheduler, Status, verify_schedule


def run(source: PipelineSource, options: RunOptions, schedulers: str = "mullapudi2016") -> Sequence[Measurement]:
    return LocalRunner(options).run(source, [Scheduler.parse(name) for name in schedulers.split(",")])


def test_run_measures_and_verifies_in_the_order_given(planted, brief_options: RunOptions) -> None:
    rows = run(planted("blur"), brief_options, "reference,mullapudi2016")
    assert [row.scheduler for row in rows] == ["reference", "mullapudi2016"]
    for row in rows:
        assert (row.app, row.status) == ("planted.py:blur", Status.OK)
        assert row.verified, row.detail
        assert row.schedule_seconds is not None
        assert row.compile_seconds is not None
        assert row.run_ms is not None
        assert len(row.run_ms_samples) >= 2
        assert "estimated size 320x200" in row.detail
        assert "awkward size 33x21" in row.detail


def test_run_without_timing_verifies_only(planted, brief_options: RunOptions) -> None:
    (row,) = run(planted("interleaved"), replace(brief_options, timing=None), "reference")
    assert row.verified, row.detail
    assert row.run_ms is None


def test_schedule_that_refuses_the_awkward_size_is_timed_and_unverified(
    planted, brief_options: RunOptions, tmp_path: Path
) -> None:
    source = planted("interleaved")
    funcs = describe_funcs(source.build())
    (output,) = (func.index for func in funcs if func.output >= 0)
    # ShiftInwards cannot shift before the start of a small output.
    split = Directive(output, 0, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), 64, Tail.SHIFT_INWARDS))
    Schedule(funcs, (split,)).save(tmp_path / "schedule.json")
    (row,) = run(source, brief_options, f"schedule:{tmp_path / 'schedule.json'}")
    assert row.status is Status.OK
    assert not row.verified
    assert row.run_ms is not None
    assert "before the min" in row.detail


@pytest.mark.parametrize(
    ("builder", "status", "reason"),
    [
        ("aborts", Status.SCHEDULE_FAILED, "building the pipeline: killed by SIGABRT: .*going down"),
        ("differs", Status.WRONG_RESULT, "64000 of 64000 elements differ; the first, at .0, 0., is 7 instead of 0"),
        ("needs_all_memory", Status.OUT_OF_MEMORY, "(?i)memory|allocation"),
    ],
)
def test_planted_failure_becomes_its_status(
    builder: str, status: Status, reason: str, planted, brief_options: RunOptions
) -> None:
    (row,) = run(planted(builder), brief_options, "reference")
    assert row.status is status, row.detail
    assert not row.verified
    assert row.run_ms is None
    assert re.search(reason, row.detail), row.detail


@pytest.mark.parametrize("builder", ["hangs", pytest.param("runs_forever", marks=EXHAUSTIVE)])
def test_hang_becomes_a_timeout(builder: str, planted, brief_options: RunOptions) -> None:
    (row,) = run(planted(builder), replace(brief_options, timeout_seconds=3), "reference")
    assert row.status is Status.TIMEOUT
    assert "over 3 s, while" in row.detail


def test_scheduler_that_aborts_is_a_row_beside_others(planted, brief_options: RunOptions) -> None:
    aborted, fine = run(planted("blur"), brief_options, "mullapudi2016:no_such_option=1,mullapudi2016")
    assert aborted.status is Status.SCHEDULE_FAILED
    assert "scheduling: killed by SIGABRT" in aborted.detail
    assert fine.status is Status.OK


def test_schedule_that_does_not_compile_is_a_row(planted, brief_options: RunOptions, tmp_path: Path) -> None:
    source = planted("is_scheduled")
    funcs = describe_funcs(source.build())
    Schedule(funcs, (Directive(0, 0, Call.UNROLL, (Var("x"),)),)).save(tmp_path / "bad.json")
    (row,) = run(source, brief_options, f"schedule:{tmp_path}/bad.json")
    assert row.status is Status.COMPILE_FAILED
    assert "constant extent" in row.detail


def test_schedule_on_the_pipeline_is_taken_off(planted, brief_options: RunOptions) -> None:
    rows = run(planted("is_scheduled"), replace(brief_options, timing=None))
    assert [row.status for row in rows] == [Status.OK], rows


def test_verify_schedule_accepts_a_live_pipeline(planted) -> None:
    pipeline = planted("blur").build()
    root = [
        Directive(i, 0, Call.COMPUTE_ROOT, ()) for i, ref in enumerate(describe_funcs(pipeline)) if ref.args[0] == "x"
    ]
    row = verify_schedule(pipeline, Schedule(describe_funcs(pipeline), tuple(root)))
    assert row.verified, row.detail
    assert row.run_ms is None


def test_verify_schedule_tells_what_is_wrong(planted) -> None:
    pipeline = planted("blur").build()
    schedule = Schedule(describe_funcs(planted("pair").build()), ())
    row = verify_schedule(pipeline, schedule)
    assert not row.verified
    assert "ScheduleMismatchError" in row.detail


def test_reference_that_fails_leaves_rows_with_its_reason(planted, brief_options: RunOptions) -> None:
    rows = run(planted("is_broken"), brief_options, "reference,mullapudi2016")
    assert [row.status for row in rows] == [Status.SCHEDULE_FAILED] * 2
    assert all("there is a mistake in this builder" in row.detail for row in rows)


def test_mistake_of_the_user_is_raised(planted, brief_options: RunOptions) -> None:
    with pytest.raises(MetolError, match="no function `blurr`"):
        run(planted("blurr"), brief_options)
    with pytest.raises(UnknownAppError, match="nothing"):
        run(PipelineSource.parse("app:nothing"), brief_options)


@pytest.mark.parametrize("options", [{"threads": 0}, {"timeout_seconds": 0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(MetolError):
        RunOptions(**options)


@pytest.mark.slow
def test_app_is_verified_with_every_peer(brief_options: RunOptions) -> None:
    rows = run(PipelineSource.parse("app:hist"), brief_options, "reference,mullapudi2016,adams2019-greedy")
    assert all(row.status is Status.OK for row in rows), rows


def test_schedule_for_one_size_is_verified_by_refusing_others(planted, brief_options: RunOptions) -> None:
    options = replace(brief_options, timing=None)
    (row,) = run(planted("blur"), options, "metol:fixed_sizes=true/strategy=greedy")
    assert row.verified, row.detail
    assert "estimated size 320x200" in row.detail
    assert "running at the awkward size" in row.detail


@pytest.mark.parametrize(
    ("name", "relative"), [("doubled_singles", "0.001 relative"), ("doubles", "1.86e-12 relative")]
)
def test_doubles_are_as_precise_as_what_went_in(planted, brief_options: RunOptions, name: str, relative: str) -> None:
    (row,) = run(planted(name), replace(brief_options, timing=None), "reference")
    assert row.verified, row.detail
    assert relative in row.detail


def test_long_sum_of_floats_is_compared_with_one_that_is_more_exact(planted, brief_options: RunOptions) -> None:
    (row,) = run(planted("long_sums"), replace(brief_options, timing=None), "exact-reference")
    assert row.verified, row.detail
    assert "by a more exact reference" in row.detail


def test_one_wrong_point_of_long_sums_is_found(planted, brief_options: RunOptions) -> None:
    (row,) = run(planted("long_sums_one_wrong"), replace(brief_options, timing=None), "exact-reference")
    assert row.status is Status.WRONG_RESULT


def test_few_elements_may_be_as_the_witness_rounds_them(planted, brief_options: RunOptions) -> None:
    (row,) = run(planted("rounds_otherwise"), replace(brief_options, timing=None), "reference")
    assert row.verified, row.detail
    assert "16 of 64000 elements are as the last places of floats decide" in row.detail


def test_few_elements_may_be_as_nudged_inputs_make_them(planted, brief_options: RunOptions) -> None:
    (row,) = run(planted("rounds_by_one_place"), replace(brief_options, timing=None), "reference")
    assert row.verified, row.detail
    assert re.search(r"[1-9]\d* of 64000 elements are as the last places of floats decide", row.detail)


@pytest.mark.parametrize("wrong", ["alone", "one_wrong", "column_wrong"])
def test_what_the_witness_does_not_have_or_has_too_often_is_found(
    planted, brief_options: RunOptions, wrong: str
) -> None:
    (row,) = run(planted(f"rounds_otherwise_{wrong}"), replace(brief_options, timing=None), "reference")
    assert row.status is Status.WRONG_RESULT
    assert "by a more exact reference it is wrong, too" in row.detail
