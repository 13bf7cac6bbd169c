"""Many schedules of one pipeline measured at once: each has a row, whatever it or another one does to its process."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import ramps

from metol.errors import MetolError
from metol.framing import frame_of
from metol.lower import Call, Directive, Schedule, Site, Var
from metol.measure import Measurement, PipelineSource, RunOptions, Status, TogetherPlan, measure_together
from metol.measure import messages as m
from metol.measure.holding import DeviceFailedError
from metol.measure.together import _Held, _Member, _Team
from metol.pipeline import extract

BRIEF = TogetherPlan(rounds=2, most_rounds=2, round_seconds=0.002, patience=1e3)
# Builds before that of the first schedule: the reference's, and that of the child.
BEFORE = 2


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be one child, so that it is known which schedules share it."""
    monkeypatch.setattr("metol.measure.together.os.sched_getaffinity", lambda _: {0})


@pytest.fixture
def planted(tmp_path: Path) -> Callable[..., PipelineSource]:
    """Plant failures by the number of a schedule's build."""

    def plant(**builds: str) -> PipelineSource:
        shutil.copy(ramps.__file__, tmp_path)
        (tmp_path / "plan").write_text(json.dumps({str(int(n[1:]) + BEFORE + 1): how for n, how in builds.items()}))
        return PipelineSource.parse(f"{tmp_path / 'ramps.py'}:ramp")

    return plant


def schedules() -> list[Schedule]:
    """Everything inline, at root, and in rows."""
    pipeline = ramps.ramp()
    dag = extract(pipeline)
    frame = frame_of(pipeline, dag, "host", ())
    names = [ref.name for ref in frame.funcs]
    squares, result = (next(i for i, name in enumerate(names) if name.startswith(one)) for one in ("squares", "result"))
    at_root = Directive(squares, 0, Call.COMPUTE_ROOT, ())
    in_rows = Directive(squares, 0, Call.COMPUTE_AT, (Site(result, 0, Var("y")),))
    return [replace(frame, directives=directives) for directives in ((), (at_root,), (in_rows,))]


def measured(
    source: PipelineSource, these: Sequence[Schedule] | None = None, plan: TogetherPlan = BRIEF, seconds: float = 60
) -> tuple[Measurement, ...]:
    return measure_together(
        source, schedules() if these is None else these, RunOptions(threads=1, timeout_seconds=seconds), plan
    )


def assert_timed(*rows: Measurement, rounds: int = 2) -> None:
    for row in rows:
        assert row.status is Status.OK, row.problem
        assert len(row.run_ms_samples) == rounds
        assert min(row.run_ms_samples) <= row.run_ms <= max(row.run_ms_samples)
        assert row.run_ms > 0
        assert row.compile_seconds > 0


@pytest.mark.slow
def test_schedules_are_measured_in_the_order_given(planted) -> None:
    rows = measured(planted())
    assert [row.scheduler for row in rows] == ["#0", "#1", "#2"]
    assert {row.app for row in rows} == {"ramps.py:ramp"}
    assert_timed(*rows)


@pytest.mark.slow
def test_a_schedule_that_does_not_apply_is_a_row_with_its_reason(planted, one_core) -> None:
    inline, at_root, _ = schedules()
    (squares,) = at_root.directives
    # Halide vectorizes loops of constant extent alone.
    unknown = replace(at_root, directives=(squares, Directive(squares.func, 0, Call.VECTORIZE, (Var("x"),))))
    other = replace(inline, funcs=inline.funcs[:1])
    rows = measured(planted(), [inline, unknown, other, at_root])
    assert_timed(rows[0], rows[3])
    for row in rows[1:3]:
        assert row.status is Status.COMPILE_FAILED
        assert row.run_ms is None
        assert row.run_ms_samples == ()
    assert "vectorize" in rows[1].detail
    assert "ScheduleMismatchError" in rows[2].detail


@pytest.mark.slow
def test_a_wrong_result_is_a_row_with_what_is_wrong(planted, one_core) -> None:
    right, wrong, last = measured(planted(_1="differ"))
    assert_timed(right, last)
    assert wrong.status is Status.WRONG_RESULT
    assert "elements differ" in wrong.detail
    assert wrong.run_ms is None
    assert wrong.compile_seconds > 0


@pytest.mark.slow
def test_who_shares_a_child_with_one_that_crashes_is_compiled_anew(planted, one_core, tmp_path: Path) -> None:
    first, crashed, last = measured(planted(_1="crash"))
    assert_timed(first, last)
    assert crashed.status is Status.RUN_FAILED
    assert "SIGABRT" in crashed.detail
    # Two of the first child and three of schedules; then a child, and who was lost and who was left.
    assert (tmp_path / "builds").stat().st_size == BEFORE + 2 + 1 + 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize(
    ("how", "reason"), [("crash when timed", "timing: .*SIGABRT"), ("refuse when timed", "timing: .*planted: no time")]
)
def test_who_fails_when_timed_is_a_row_and_takes_nobody_along(
    how: str, reason: str, number: int, planted, one_core
) -> None:
    rows = list(measured(planted(**{f"_{number}": how})))
    failed = rows.pop(number)
    assert failed.status is Status.RUN_FAILED
    assert re.search(reason, failed.detail), failed.detail
    assert (failed.run_ms, failed.run_ms_samples) == (None, ())
    assert_timed(*rows)


@pytest.mark.slow
def test_a_timeout_is_a_row(planted, one_core) -> None:
    first, late, last = measured(planted(_1="hang"), seconds=8)
    assert_timed(first, last)
    assert (late.status, late.detail) == (Status.TIMEOUT, "over 8 s")


@pytest.mark.slow
def test_all_may_fail(planted, one_core) -> None:
    rows = measured(planted(_0="crash", _2="refuse", _3="refuse"))
    assert [row.status for row in rows] == [Status.RUN_FAILED, Status.COMPILE_FAILED, Status.COMPILE_FAILED]


@pytest.mark.slow
def test_several_children_share_the_work(planted, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core, one child")
    assert_timed(*measured(planted(), schedules() * 4))
    assert (tmp_path / "builds").stat().st_size > BEFORE + 12


@pytest.mark.slow
@pytest.mark.parametrize("cores", [{0}, {0, 1}])
def test_a_pipeline_that_the_children_cannot_build_is_an_error(
    cores: set[int], planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metol.measure.together.os.sched_getaffinity", lambda _: cores)
    with pytest.raises(MetolError, match=r"ramps.py:ramp: .*planted: not today"):
        measured(planted(**{f"_{number}": "refuse" for number in range(-1, 5)}), schedules() * 4)


@pytest.mark.slow
def test_a_reference_that_fails_is_an_error(planted) -> None:
    with pytest.raises(MetolError, match=r"The reference of ramps.py:ramp.*not today"):
        measured(planted(**{"_-2": "refuse"}))


def test_a_source_that_names_nothing_is_an_error(planted) -> None:
    source = replace(planted(), function="slope")
    with pytest.raises(MetolError, match="has no function `slope`"):
        measured(source)


@pytest.mark.slow
def test_who_is_far_slower_has_two_rounds(planted, one_core) -> None:
    # By this patience, everybody is.
    rows = measured(planted(), plan=TogetherPlan(rounds=4, round_seconds=0.002, patience=1e-6))
    assert_timed(*rows, rounds=2)


@pytest.mark.slow
def test_who_takes_too_long_is_known_by_the_first_run_alone(planted, one_core) -> None:
    rows = measured(planted(), plan=TogetherPlan(rounds=4, round_seconds=0.002, most_ms=0.0))
    assert_timed(*rows, rounds=1)


@pytest.mark.slow
def test_nothing_to_measure_is_nothing_measured(planted, one_core) -> None:
    assert measured(planted(), []) == ()


@pytest.mark.parametrize(
    ("rounds_ms", "is_known"),
    [
        ((), False),
        ((1.0, 1.0), False),
        ((1.0, 1.2, 1.1), False),
        ((1.0, 1.2, 1.01), True),
        ((9.0,), False),
        ((9.0, 8.0), True),
    ],
)
def test_rounds_go_on_until_the_two_quickest_agree(rounds_ms: tuple[float, ...], is_known: bool) -> None:
    held = _Held(0, 0, Measurement("app", "#0"), 1.0, rounds_ms)
    assert _Team._is_known(held, TogetherPlan(), 1.0) == is_known


@pytest.mark.slow
def test_what_there_is_no_time_to_compile_is_refused(planted, one_core) -> None:
    rows = measured(planted(), plan=replace(BRIEF, compile_seconds=0.0))
    assert {row.status for row in rows} == {Status.REFUSED}
    assert {row.detail for row in rows} == {"there was no time left to compile it"}


def test_few_children_share_a_device(planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.measure.together.os.sched_getaffinity", lambda _: set(range(64)))
    on_cpu, on_gpu = (_Team(planted(), RunOptions(target=target), "") for target in ("host", "host-cuda"))
    assert (len(on_cpu._members), len(on_gpu._members)) == (64, 8)
    # Its driver needs more addresses than there is memory.
    assert [team._members[0]._memory_bytes > 0 for team in (on_cpu, on_gpu)] == [True, False]


class RefusingChild:
    """Stands in for a child whose device is out of order after its second schedule."""

    started = 0

    def __init__(self, **_: object) -> None:
        type(self).started += 1
        self.asked = 0

    def ask(self, request: m.Request, seconds: float) -> object:
        if isinstance(request, m.Build):
            return m.Done(0.0)
        self.asked += 1
        if self.asked == 2:
            return m.Failure(DeviceFailedError.__name__, "CUDA error: illegal address", True)
        return m.Held(self.asked - 1, 0.1, 1.0, "")

    def close(self) -> None:
        pass


def test_who_shares_a_child_whose_device_failed_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.measure.together.Child", RefusingChild)
    member = _Member(PipelineSource.parse("app:blur"), RunOptions(target="host-cuda"), "", 0)
    (schedule, *_) = schedules()
    assert member.compile(0, schedule) is None
    failed = member.compile(1, schedule)
    assert failed.status is Status.RUN_FAILED
    assert "illegal address" in failed.detail
    assert member.held == []
    assert member.compile(0, schedule) is None
    assert RefusingChild.started == 2


def test_rounds_that_time_nothing_are_refused() -> None:
    with pytest.raises(MetolError, match="at least 1 round"):
        TogetherPlan(rounds=0)
