"""Races between stand-ins, whose times are a script: who falls out when, and what is compared with what."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from metol.measure import RacePlan, TimingPlan
from metol.measure.canary import Drift
from metol.measure.race import Race

NOBODY: frozenset[int] = frozenset()
# So that halves fall out after the first, the second and the fourth round, and seven are run.
RESTLESS = TimingPlan(min_rounds=99)
PLAN = RacePlan(stages=(1, 1, 2, 3), timing=RESTLESS)


class StandIn:
    """Takes as many milliseconds as its script says, the last of them for ever; None is its death."""

    def __init__(self, *script: float | None) -> None:
        self.is_alive = True
        self.rounds: list[float] = []
        self.limits_ms: list[float] = []
        self.forgotten = 0
        self._script = script

    def time_round(self, case: str, plan: TimingPlan, give_up_ms: float = 0.0) -> float | None:
        assert self.is_alive, "nobody times the dead"
        ms = self._script[min(len(self.rounds) + self.forgotten, len(self._script) - 1)]
        self.limits_ms.append(give_up_ms)
        if ms is None:
            self.is_alive = False
            return None
        self.rounds.append(ms)
        return ms

    def forget_round(self) -> None:
        self.rounds.pop()
        self.forgotten += 1


class NoDrift(Drift):
    """Says of each round of the canary what a script says, and at its end that all is well."""

    def __init__(self, *script: bool) -> None:
        super().__init__()
        self._answers: Iterator[bool] = iter(script)

    def is_disturbed(self, canary_ms: float) -> bool:
        return next(self._answers, False)


def run(
    contestants: Sequence[StandIn],
    *,
    stayers: Iterable[int] = (),
    plan: RacePlan = PLAN,
    disturbed: Sequence[bool] = (),
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Race:
    race = Race(plan, "case", NoDrift(*disturbed), canary=lambda: 1.0)
    race.run(contestants, frozenset(stayers), is_cancelled)
    return race


def rounds(contestants: Sequence[StandIn]) -> list[int]:
    return [len(contestant.rounds) for contestant in contestants]


def test_the_slower_half_falls_out_after_every_stage() -> None:
    contestants = [StandIn(10 + place / 2) for place in range(5)]
    race = run(contestants)
    # 5, then 3, 2 and 1 of them.
    assert rounds(contestants) == [7, 4, 2, 1, 1]
    assert race.fastest() == 0


def test_whoever_is_clearly_slower_falls_out_first_though_it_is_of_the_better_half() -> None:
    contestants = [StandIn(10), StandIn(14), StandIn(15), StandIn(16)]
    run(contestants)
    assert rounds(contestants) == [7, 1, 1, 1]


def test_a_clear_loss_counts_after_the_first_round_alone() -> None:
    contestants = [StandIn(10), StandIn(11, 30), StandIn(12, 31), StandIn(12.5), StandIn(12.6)]
    run(contestants)
    # Twice as slow after two rounds, the second is the better half of what is left.
    assert rounds(contestants) == [7, 4, 2, 1, 1]


def test_a_photo_finish_keeps_everybody_who_is_as_good_as_the_best() -> None:
    contestants = [StandIn(10), StandIn(10.2), StandIn(10.29), StandIn(10.4)]
    run(contestants)
    assert rounds(contestants) == [7, 7, 7, 1]


def test_stayers_never_fall_out() -> None:
    contestants = [StandIn(10), StandIn(11), StandIn(12), StandIn(100)]
    run(contestants, stayers=[3])
    assert rounds(contestants)[3] == 7
    assert rounds(contestants)[2] == 1


def test_one_alone_runs_to_the_end() -> None:
    (alone,) = contestants = [StandIn(10)]
    race = run(contestants)
    assert len(alone.rounds) == 7
    assert race.ratios(0) == {0: 1.0}


def test_nobody_is_no_race() -> None:
    race = run([])
    assert race.fastest() is None
    assert race.ratios(0) == {}


def test_ratios_are_those_of_the_rounds_that_both_ran_in() -> None:
    # The machine becomes twice as slow after the fourth round, which the second contestant is the last to have seen.
    contestants = [StandIn(10, 10, 10, 10, 20), StandIn(11), StandIn(12), StandIn(12.5), StandIn(13)]
    race = run(contestants)
    assert rounds(contestants) == [7, 4, 2, 1, 1]
    assert race.ratios(0)[1] == pytest.approx(1.1)


def test_a_disturbed_round_of_the_reference_makes_nobody_fast_who_has_no_other() -> None:
    contestants = [StandIn(30, 10), StandIn(9), StandIn(15)]
    race = run(contestants, stayers=[0])
    assert len(contestants[2].rounds) == 1
    assert race.ratios(0)[2] == pytest.approx(1.5)


def test_a_race_ends_when_all_medians_are_known() -> None:
    calm, restless = [StandIn(10), StandIn(10.1)], [StandIn(10), StandIn(*range(9, 29))]
    plan = RacePlan(stages=(1, 1, 2, 5), timing=TimingPlan(min_rounds=5, spread=0.01))
    run(calm, plan=plan)
    run(restless, stayers=[0, 1], plan=plan)
    assert rounds(calm) == [5, 5]
    assert rounds(restless) == [9, 9]


def test_a_ratio_is_the_median_of_those_of_the_rounds() -> None:
    contestants = [StandIn(10), StandIn(11, 11, 50, 12, 12)]
    race = run(contestants, stayers=[1], plan=RacePlan(stages=(5,)))
    assert race.ratios(0)[1] == 1.2
    assert race.ratios(1)[0] == pytest.approx(1 / 1.2)


def test_a_slow_first_run_ends_a_round_by_what_the_best_took_so_far() -> None:
    contestants = [StandIn(20), StandIn(10), StandIn(11)]
    run(contestants, stayers=[0, 1, 2], plan=RacePlan(stages=(2,), give_up=4))
    assert [contestant.limits_ms for contestant in contestants] == [[0, 40], [80, 40], [40, 40]]


def test_a_disturbed_round_is_taken_again() -> None:
    contestants = [StandIn(30, 10), StandIn(40, 10)]
    race = run(contestants, disturbed=[True])
    assert [contestant.rounds for contestant in contestants] == [[10] * 7] * 2
    assert race.ratios(0) == {0: 1.0, 1: 1.0}


def test_a_round_is_taken_again_until_it_is_not_disturbed() -> None:
    contestants = [StandIn(20, 30, 40, 10), StandIn(20, 30, 40, 10)]
    run(contestants, disturbed=[False, True, True])
    assert [contestant.rounds for contestant in contestants] == [[20, *[10] * 6]] * 2


def test_rounds_are_taken_again_so_often_and_no_oftener() -> None:
    contestants = [StandIn(10), StandIn(10)]
    run(contestants, disturbed=[True] * 100, plan=RacePlan(stages=(1, 1, 2, 3), most_retakes=3, timing=RESTLESS))
    assert [contestant.forgotten for contestant in contestants] == [3, 3]
    assert rounds(contestants) == [7, 7]


def test_a_race_without_a_canary_takes_no_round_again() -> None:
    contestant = StandIn(10)
    race = Race(PLAN, "case", NoDrift(*[True] * 100))
    race.run([contestant], NOBODY, lambda: False)
    assert contestant.forgotten == 0


def test_who_cancels_has_one_round_of_everybody() -> None:
    contestants = [StandIn(10), StandIn(100)]
    race = run(contestants, is_cancelled=lambda: True)
    assert rounds(contestants) == [1, 1]
    assert race.ratios(0) == {0: 1.0, 1: 10.0}


def test_who_cancels_in_the_middle_ends_it_there() -> None:
    contestants = [StandIn(10), StandIn(10)]
    run(contestants, is_cancelled=lambda: len(contestants[0].rounds) == 3)
    assert rounds(contestants) == [3, 3]


def test_whoever_dies_is_out_and_what_it_ran_counts() -> None:
    contestants = [StandIn(10, 10, None), StandIn(10.1)]
    race = run(contestants)
    assert rounds(contestants) == [2, 7]
    assert race.fastest() == 1, "the dead win nothing"
    assert race.ratios(1)[0] == pytest.approx(10 / 10.1)


def test_whoever_dies_at_once_or_was_dead_before_has_no_ratio() -> None:
    dead, contestants = StandIn(1), [StandIn(None), StandIn(10)]
    dead.is_alive = False
    race = run([*contestants, dead])
    assert race.ratios(1) == {1: 1.0}
    assert rounds([dead]) == [0]


def test_a_race_of_which_all_die_has_no_winner() -> None:
    race = run([StandIn(None), StandIn(None)])
    assert race.fastest() is None


def test_whoever_dies_while_a_round_is_taken_again_has_none_of_it() -> None:
    contestants = [StandIn(10, None), StandIn(10)]
    race = run(contestants, disturbed=[True])
    assert race.ratios(1) == {1: 1.0}
    assert contestants[0].forgotten == 1
