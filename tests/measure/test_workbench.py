"""The workbench: what becomes of each schedule, who stays for the next batch, and that no child outlives anything."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from running_children import children

from metol.errors import MetolError
from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs, load
from metol.measure import LocalWorkbench, Outcome, PipelineSource, RacePlan, RunOptions, Status, TimingPlan
from metol.measure import messages as m
from metol.measure.process import Child
from metol.measure.trial import Trial

BRIEF_TIMING = TimingPlan(round_seconds=0.005)
PLAN = RacePlan(stages=(1, 1), timing=BRIEF_TIMING)
CANARY = 1
"""A workbench's only child that belongs to no schedule."""


@pytest.fixture
def count_children() -> Callable[[], int]:
    """Count the children that this test has."""
    before = children()
    return lambda: len(children() - before)


def vectors(source: PipelineSource, lanes: int, tail: Tail = Tail.GUARD_WITH_IF) -> Schedule:
    """The output in vectors, so that schedules can be told apart."""
    funcs = describe_funcs(source.build())
    (output,) = (func.index for func in funcs if func.output == 0)
    x, xo, xi = Var("x"), Var("xo"), Var("xi")
    split = Directive(output, 0, Call.SPLIT, (x, xo, xi, lanes, tail))
    return Schedule(funcs, (split, Directive(output, 0, Call.VECTORIZE, (xi,))))


def unrolled(source: PipelineSource) -> Schedule:
    """Of a loop whose extent is unknown, which does not compile."""
    return Schedule(describe_funcs(source.build()), (Directive(0, 0, Call.UNROLL, (Var("x"),)),))


def statuses(outcomes: Iterable[Outcome]) -> list[Status]:
    return [outcome.measurement.status for outcome in outcomes]


class Script:
    """Stands in for the clock: every schedule, by its lanes, takes as long as is written here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms: Mapping[int, float] = {}
        self.timed: list[int] = []
        """The lanes of whoever had a round, in order."""
        clock = self

        def time_round(trial: Trial, case: str, plan: object, give_up_ms: float = 0.0) -> float:
            name = Path(trial._scheduler.file).name
            lanes = 0 if name.startswith("canary") else clock.lanes(Path(trial._scheduler.file))
            ms = clock.ms.get(lanes, 1.0)
            if lanes:
                clock.timed.append(lanes)
            trial._rounds.append([ms])
            trial._tell_rounds()
            return ms

        monkeypatch.setattr(Trial, "time_round", time_round)

    @staticmethod
    def lanes(file: Path) -> int:
        return int(next(d.args[3] for d in load(file).directives if d.call is Call.SPLIT))

    def take(self) -> list[int]:
        """Who had a round since this was asked last."""
        timed, self.timed = self.timed, []
        return timed


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


@pytest.mark.slow
def test_whatever_a_schedule_does_is_its_outcome_and_the_others_run(
    planted, brief_options: RunOptions, monkeypatch: pytest.MonkeyPatch, count_children
) -> None:
    source = planted("errs_at_third")
    right, again, bad = vectors(source, 8), vectors(source, 16), unrolled(source)
    refused = vectors(source, 32)
    Path(source.location).with_suffix(".count").unlink()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})  # one after the other
    with LocalWorkbench(
        source, brief_options, refusal=lambda schedule: "no" if schedule is refused else "", plan=PLAN
    ) as bench:
        # The reference is built first, then what is right, and then what is wrong.
        outcomes = bench.measure([right, refused, right, bad, again])
        assert statuses(outcomes) == [
            Status.OK,
            Status.REFUSED,
            Status.WRONG_RESULT,
            Status.COMPILE_FAILED,
            Status.OK,
        ]
        assert [outcome.score_ms is None for outcome in outcomes] == [False, True, True, True, False]
        assert not any(outcome.is_cancelled for outcome in outcomes)
        assert outcomes[1].measurement.detail == "no"
        assert outcomes[0].measurement.verified
        assert outcomes[0].measurement.run_ms is not None
        assert count_children() == CANARY + 1, "the best of them stays"
        assert bench.times.preparing > 0 < bench.times.compiling
        assert bench.times.total > bench.times.racing > 0


@pytest.mark.slow
def test_scores_of_a_later_batch_are_as_in_the_first_race(planted, brief_options: RunOptions, script: Script) -> None:
    source = planted("blur")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        script.ms = {8: 10, 16: 11}
        first = bench.measure([vectors(source, 16), vectors(source, 8)])
        # The machine is half as fast now.
        script.ms = {8: 20, 4: 10, 32: 80}
        second = bench.measure([vectors(source, 32), vectors(source, 4)])
    assert [outcome.score_ms for outcome in first] == [11, 10]
    assert [outcome.score_ms for outcome in second] == [40, 5]
    assert [outcome.measurement.run_ms for outcome in second] == [80, 10], "a row tells what was measured"


@pytest.mark.slow
def test_the_anchor_and_the_best_so_far_run_in_every_race(
    planted, brief_options: RunOptions, script: Script, count_children
) -> None:
    source = planted("blur")
    one_round = RacePlan(stages=(1,), timing=BRIEF_TIMING)
    script.ms = {8: 10, 16: 11, 4: 5, 32: 12, 2: 6}
    with LocalWorkbench(source, brief_options, plan=one_round) as bench:
        bench.measure([vectors(source, 8), vectors(source, 16)])
        assert script.take() == [8, 16]
        bench.measure([vectors(source, 4), vectors(source, 32)])
        assert script.take() == [8, 4, 32], "who stays sets the pace"
        assert count_children() == CANARY + 2
        bench.measure([vectors(source, 2)])
        assert script.take() == [8, 4, 2]
        assert bench.rescored() == ((vectors(source, 8), 10), (vectors(source, 4), 5))
        assert bench.fallen() == ()
        assert count_children() == CANARY + 2
        assert bench.measure([]) == ()
        assert script.take() == [], "nobody races where nothing is new"


@pytest.mark.slow
def test_whoever_dies_in_a_later_race_is_told_and_stays_no_longer(
    planted, brief_options: RunOptions, count_children
) -> None:
    source = planted("blur")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        bench.measure([vectors(source, 8)])
        assert bench._best is not None
        bench._best.trial.kill()
        (outcome,) = bench.measure([vectors(source, 16)])
        (fallen,) = bench.fallen()
        assert fallen.schedule == vectors(source, 8)
        assert "SIGKILL" in fallen.measurement.detail
        assert outcome.score_ms is not None
        assert bench.rescored() == ()
        assert count_children() == CANARY + 1


@pytest.mark.slow
def test_what_refuses_the_awkward_size_has_a_score_and_does_not_stay(
    planted, brief_options: RunOptions, count_children
) -> None:
    source = planted("blur")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        (outcome,) = bench.measure([vectors(source, 64, Tail.SHIFT_INWARDS)])
        assert outcome.score_ms is not None
        assert not outcome.measurement.verified
        assert count_children() == CANARY


@pytest.mark.slow
def test_a_race_of_its_own_is_without_eliminations_and_keeps_nobody(
    planted, brief_options: RunOptions, script: Script, count_children
) -> None:
    source = planted("blur")
    script.ms = {8: 10, 16: 1000, 4: 5}
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        bench.measure([vectors(source, 4)])
        script.take()
        fast, slow = bench.race_afresh([vectors(source, 8), vectors(source, 16)])
        assert script.take() == [8, 16, 16, 8], "each round begins with another"
        assert count_children() == CANARY + 1, "only the best of the batch before"
        script.take()
        (later,) = bench.measure([vectors(source, 8)])
        assert later.score_ms == 10, "by the anchor of the first batch"
    assert [outcome.score_ms for outcome in (fast, slow)] == [10, 1000]
    assert slow.measurement.run_ms_samples == (1000, 1000)


@pytest.mark.slow
def test_timing_has_the_whole_time_limit_again(
    planted, brief_options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    ask = Child.ask

    def listen(child: Child, request: m.Request, timeout_seconds: float) -> object:
        if isinstance(request, m.Time):
            limits.append(timeout_seconds)
        return ask(child, request, timeout_seconds)

    monkeypatch.setattr(Child, "ask", listen)
    source = planted("blur")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        bench.measure([vectors(source, 8)])
        bench.race_afresh([vectors(source, 8)])
    assert limits
    assert min(limits) >= brief_options.timeout_seconds


@pytest.mark.slow
def test_what_is_cancelled_before_it_is_compiled_never_starts(
    planted, brief_options: RunOptions, count_children
) -> None:
    source = planted("blur")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        for measure in (bench.measure, bench.race_afresh):
            outcomes = measure([vectors(source, 8)] * 3, lambda: True)
            assert [outcome.is_cancelled for outcome in outcomes] == [True] * 3
            assert count_children() == CANARY


class Canceller:
    """Cancels once something besides the canary has started, and for ever after."""

    def __init__(self, count_children: Callable[[], int], error: type[BaseException] | None = None) -> None:
        self._count_children = count_children
        self._error = error
        self._is_cancelled = False

    def __call__(self) -> bool:
        self._is_cancelled = self._is_cancelled or self._count_children() > CANARY
        if self._is_cancelled and self._error and threading.current_thread() is threading.main_thread():
            raise self._error
        return self._is_cancelled


@pytest.mark.slow
def test_what_is_cancelled_while_it_compiles_leaves_no_failure_and_no_child(
    planted, brief_options: RunOptions, count_children
) -> None:
    source = planted("hangs")
    schedule = Schedule((), ())
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        bench.prepare()
        outcomes = bench.measure([schedule] * 3, Canceller(count_children))
        assert [outcome.is_cancelled for outcome in outcomes] == [True] * 3
        assert statuses(outcomes) == [Status.OK] * 3
        assert count_children() == CANARY


@pytest.mark.slow
def test_an_exception_while_compiling_leaves_no_child(planted, brief_options: RunOptions, count_children) -> None:
    source = planted("hangs")
    with LocalWorkbench(source, brief_options, plan=PLAN) as bench:
        bench.prepare()
        with pytest.raises(KeyboardInterrupt):
            bench.measure([Schedule((), ())] * 3, Canceller(count_children, KeyboardInterrupt))
    assert count_children() == 0


@pytest.mark.slow
def test_what_was_compiled_when_an_exception_came_is_ended(planted, brief_options: RunOptions, count_children) -> None:
    source = planted("blur")

    def refuse(schedule: Schedule) -> str:
        if not schedule.funcs:
            raise ValueError("there is a mistake in this judge")
        return ""

    with LocalWorkbench(source, brief_options, refusal=refuse, plan=PLAN) as bench:
        bench.prepare()
        with pytest.raises(ValueError, match="mistake in this judge"):
            bench.measure([vectors(source, 8), Schedule((), ()), vectors(source, 16)])
        assert count_children() == CANARY
        (outcome,) = bench.measure([vectors(source, 8)])
        assert outcome.score_ms is not None
    assert count_children() == 0


@pytest.mark.slow
def test_a_reference_that_fails_is_an_error_every_time(planted, brief_options: RunOptions, count_children) -> None:
    with LocalWorkbench(planted("is_broken"), brief_options, plan=PLAN) as bench:
        for _ in range(2):
            with pytest.raises(MetolError, match=r"reference.*there is a mistake in this builder"):
                bench.measure([Schedule((), ())])
        assert count_children() == CANARY
    assert count_children() == 0


def test_a_source_that_names_nothing_is_an_error(planted, brief_options: RunOptions, count_children) -> None:
    with (
        LocalWorkbench(planted("blurr"), brief_options, plan=PLAN) as bench,
        pytest.raises(MetolError, match="no function `blurr`"),
    ):
        bench.prepare()
    assert count_children() == 0


def test_a_workbench_that_was_never_used_closes(planted, count_children) -> None:
    LocalWorkbench(planted("blur")).close()
    assert count_children() == 0
