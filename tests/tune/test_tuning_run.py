"""What the tuner makes of measurements, with a stand-in for the workbench: who wins, what is noted, what is spent."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import planted_failures
import pytest
from small_pipelines import SOME_TARGET, some_machine

from metol import SearchOptions, _core
from metol.lower import Call, Schedule
from metol.measure import Fallen, Measurement, Outcome, Status, WorkbenchTimes
from metol.tune import (
    FinalRace,
    Problem,
    Record,
    Records,
    TunerOptions,
    TuningBudget,
    TuningResult,
    TuningSettings,
    tune_all,
)
from metol.tune.proposals import directives_text
from metol.tune.tuner import Tuner

QUICK = SearchOptions(beam_width=4, passes=1, discrepancies=False)


@dataclass
class StandIn:
    """Measures nothing: each schedule takes longer the more of its directives are splits, unless a script says so."""

    script: Callable[[Schedule], Outcome | None] = lambda _: None
    finals: Callable[[Schedule], Outcome | None] = lambda _: None
    measured: list[Schedule] = field(default_factory=list)
    raced: list[Schedule] = field(default_factory=list)
    times: WorkbenchTimes = field(default_factory=WorkbenchTimes)
    better_known: tuple[tuple[Schedule, float], ...] = ()
    dead: tuple[Fallen, ...] = ()
    drift: float = 1.0
    is_closed: bool = False

    def prepare(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        pass

    def measure(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        self.measured += schedules
        return tuple(self.script(schedule) or ran(milliseconds(schedule)) for schedule in schedules)

    def rescored(self) -> tuple[tuple[Schedule, float], ...]:
        return self.better_known

    def fallen(self) -> tuple[Fallen, ...]:
        dead, self.dead = self.dead, ()
        return dead

    def race_afresh(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        self.raced += schedules
        return tuple(self.finals(schedule) or ran(milliseconds(schedule)) for schedule in schedules)

    def close(self) -> None:
        self.is_closed = True


def milliseconds(schedule: Schedule) -> float:
    return 1 + sum(one.call is Call.SPLIT for one in schedule.directives) + len(directives_text(schedule)) / 1e6


def ran(ms: float) -> Outcome:
    return Outcome(Measurement("app", "schedule", run_ms=ms, verified=True), ms)


def failed(status: Status = Status.RUN_FAILED) -> Outcome:
    return Outcome(Measurement("app", "schedule").with_failure(status, "planted"))


def settings(*benches: StandIn, **tuner: object) -> TuningSettings:
    waiting = list(benches)
    options = TunerOptions(**{"peers": (), "batch": 4, **tuner})
    return TuningSettings(options, FinalRace(), open_workbench=lambda *_: waiting.pop(0))


def brighten() -> Problem:
    return Problem(planted_failures.brighten(), options=QUICK, target=SOME_TARGET, machine=some_machine(threads=1))


def tune(bench: StandIn, trials: int = 12, records: Records | None = None, **tuner: object) -> TuningResult:
    with brighten() as problem:
        (result,) = tune_all([problem], TuningBudget(trials=trials), settings(bench, **tuner), records=records)
    assert isinstance(result, TuningResult), result
    assert bench.is_closed
    return result


def text_of(result: TuningResult) -> str:
    return directives_text(result.schedule)


def test_the_fastest_of_the_final_race_wins_and_everything_is_noted() -> None:
    bench = StandIn()
    result = tune(bench)
    assert len(bench.measured) == 12
    assert result.trials == 12
    assert text_of(result) == min(map(directives_text, bench.raced), key=lambda text: _ms(bench, text))
    assert result.best.is_final
    assert sum(record.is_final for record in result.history) == len(bench.raced)
    assert len({directives_text(schedule) for schedule in bench.measured}) == 12, "nothing is measured twice"


def _ms(bench: StandIn, text: str) -> float:
    return next(milliseconds(one) for one in bench.raced if directives_text(one) == text)


def test_what_the_search_found_runs_in_the_final_race() -> None:
    bench = StandIn()
    result = tune(bench)
    own = next(record.schedule for record in result.history if record.origin == "search")
    assert own in {record.schedule for record in result.history if record.is_final}
    finals = {record.schedule: record.run_ms for record in result.history if record.is_final}
    assert result.speedup_over["search"] == pytest.approx(finals[own] / result.best.run_ms)


@pytest.mark.slow
def test_whoever_fails_in_the_final_race_does_not_win() -> None:
    plain = StandIn()
    winner = text_of(tune(plain))
    bench = StandIn(finals=lambda schedule: failed() if directives_text(schedule) == winner else None)
    result = tune(bench)
    assert text_of(result) != winner
    assert result.best.is_final
    assert [record.status for record in result.failures] == [Status.RUN_FAILED] * 3, "one a process"


def test_where_all_finalists_fail_the_next_ones_run() -> None:
    doomed: set[str] = set()

    def fail_at_first(schedule: Schedule) -> Outcome | None:
        if len(doomed) < 4:
            doomed.add(directives_text(schedule))
        return failed() if directives_text(schedule) in doomed else None

    result = tune(StandIn(finals=fail_at_first))
    assert text_of(result) not in doomed
    assert result.best.is_final


def test_whoever_dies_in_a_later_race_is_recorded_and_does_not_win() -> None:
    plain = StandIn()
    winner = text_of(tune(plain))

    class Deadly(StandIn):
        def measure(self, schedules, is_cancelled=lambda: False):
            outcomes = super().measure(schedules, is_cancelled)
            dead = [schedule for schedule in self.measured if directives_text(schedule) == winner]
            self.dead = tuple(Fallen(schedule, failed().measurement) for schedule in dead)
            return outcomes

    bench = Deadly()
    result = tune(bench)
    assert text_of(result) != winner
    assert winner not in {directives_text(schedule) for schedule in bench.raced}
    assert Status.RUN_FAILED in {record.status for record in result.failures}


def test_a_lucky_score_that_is_better_known_later_does_not_lead() -> None:
    class Lucky(StandIn):
        def measure(self, schedules, is_cancelled=lambda: False):
            outcomes = list(super().measure(schedules, is_cancelled))
            if len(self.measured) == len(schedules):
                outcomes[1] = ran(0.001)
                self.better_known = ((schedules[1], 1000.0),)
            return tuple(outcomes)

    bench = Lucky()
    tune(bench)
    assert bench.measured[1] not in bench.raced


def test_an_interrupted_final_race_is_not_noted(tmp_path: Path) -> None:
    cancelled: list[int] = []

    class Interrupted(StandIn):
        def race_afresh(self, schedules, is_cancelled=lambda: False):
            outcomes = super().race_afresh(schedules, is_cancelled)
            cancelled.append(1)
            return (*outcomes[:1], *(replace(one, score_ms=None, is_cancelled=True) for one in outcomes[1:]))

    bench = Interrupted()
    with (
        Records(tmp_path / "tuning.db") as database,
        brighten() as problem,
    ):
        (result,) = tune_all(
            [problem],
            TuningBudget(trials=8),
            settings(bench),
            records=database,
            is_cancelled=lambda: bool(cancelled),
        )
        assert isinstance(result, TuningResult)
        assert not any(record.is_final for record in database.all())
    assert not result.is_complete
    assert milliseconds(result.schedule) == min(map(milliseconds, bench.measured))


def test_refused_schedules_are_no_trials() -> None:
    turns = itertools.count()
    bench = StandIn(script=lambda _: failed(Status.REFUSED) if next(turns) % 3 == 1 else None)
    result = tune(bench)
    assert result.trials <= 12
    refused = [record for record in result.history if record.status is Status.REFUSED]
    assert len(bench.measured) == result.trials + len(refused)


def test_a_beam_whose_result_is_refused_measures_the_next_one() -> None:
    bench = StandIn(script=lambda schedule: failed(Status.REFUSED) if schedule is bench.measured[0] else None)
    with brighten() as problem:
        only_seeds = replace(settings(bench), only_seeds=True)
        (result,) = tune_all([problem], TuningBudget(trials=1), only_seeds)
    assert isinstance(result, TuningResult)
    assert len(bench.measured) == 2
    assert text_of(result) == directives_text(bench.measured[1])


@pytest.mark.slow
def test_half_of_a_budget_is_shared_evenly_and_the_rest_goes_to_who_gains() -> None:
    gaining, idle = StandIn(), StandIn(script=lambda _: ran(5.0))
    scores = iter(range(10_000, 0, -1))
    gaining.script = lambda _: ran(float(next(scores)))
    with (
        brighten() as one,
        brighten() as other,
    ):
        results = tune_all([one, other], TuningBudget(trials=48), settings(gaining, idle))
    assert all(isinstance(result, TuningResult) for result in results)
    assert len(gaining.measured) + len(idle.measured) == 48
    assert 12 <= len(idle.measured) < len(gaining.measured)


def test_a_foreign_schedule_wins_only_after_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def seeds(self, *rest):
        own = Tuner_seeds(self, *rest)
        return [*own[:2], replace(own[2], nest=None, is_foreign=True, origin="peer"), *own[3:]]

    Tuner_seeds = Tuner.seeds
    monkeypatch.setattr(Tuner, "seeds", seeds)
    monkeypatch.setattr(
        "metol.tune.final_race.wrong_size", lambda _, proposal, __: checked.append(proposal.origin) or "planted"
    )
    bench = StandIn(script=lambda schedule: ran(0.01) if schedule is bench.measured[2] else None)
    result = tune(bench, trials=6)
    assert checked == ["peer"]
    assert result.best.origin != "peer"
    (first, second) = [record for record in result.history if record.origin == "peer"]
    assert (first.status, first.is_verified) == (Status.OK, False)
    assert (second.status, second.detail) == (Status.WRONG_RESULT, "planted")


class CountingRetrainer:
    def __init__(self) -> None:
        self.measured: list[int] = []

    def retrain(self, problem: Problem, measured: Sequence[Record]) -> _core.CostModel:
        self.measured.append(len(measured))
        return _core.CostModel()


def test_retrainer_is_asked_between_batches() -> None:
    retrainer = CountingRetrainer()
    tune(StandIn(), retrainer=retrainer)
    assert len(retrainer.measured) >= 2
    assert retrainer.measured == sorted(set(retrainer.measured))


@pytest.mark.slow
def test_a_later_run_measures_again_only_what_it_compares_with(tmp_path: Path) -> None:
    first, second = StandIn(), StandIn()
    with Records(tmp_path / "tuning.db") as database:
        tune(first, trials=10, records=database)
        tune(second, trials=10, records=database)
    before = set(map(directives_text, first.measured))
    again = [schedule for schedule in second.measured if directives_text(schedule) in before]
    # The search's own, the safe schedule, and the best three.
    assert 2 <= len(again) <= 5
    assert len(second.measured) == 10


@pytest.mark.parametrize("peers", [(), ("mullapudi2016",)])
def test_what_is_told_is_what_is_done(peers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tuner, "peers", lambda *_: iter(()))
    steps: list[str] = []
    with brighten() as problem:
        tune_all(
            [problem],
            TuningBudget(trials=4),
            settings(StandIn(), peers=peers),
            progress=lambda told: steps.append(told.step),
        )
    assert ("asking Halide's own autoschedulers" in steps) == bool(peers)
    assert "measured" in steps
