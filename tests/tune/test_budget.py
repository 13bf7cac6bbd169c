"""Budgets as people write them, and what is left of them."""

import math

import pytest

from metol.errors import TuningError
from metol.tune import TuningBudget
from metol.tune.budget import Clock


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10min", 600),
        ("90s", 90),
        ("90 sec", 90),
        ("2m", 120),
        ("1h30min", 5400),
        ("1h 30min 5s", 5405),
        ("1.5h", 5400),
        (" 10MIN ", 600),
        ("45", 45),
        (45, 45),
        (0.5, 0.5),
    ],
)
def test_a_budget_of_time_is_read(text: str | float, seconds: float) -> None:
    assert TuningBudget.parse(text) == TuningBudget(seconds=seconds)


@pytest.mark.parametrize(("text", "trials"), [("200 trials", 200), ("1 trial", 1), ("32trials", 32)])
def test_a_budget_of_trials_is_read(text: str, trials: int) -> None:
    assert TuningBudget.parse(text) == TuningBudget(trials=trials)


def test_a_budget_that_is_one_already_stays() -> None:
    budget = TuningBudget(seconds=3, trials=5)
    assert TuningBudget.parse(budget) is budget


@pytest.mark.parametrize(
    "text", ["", "soon", "10 days", "min", "-5min", "10min!", "1.2.3s", "ten trials", "2.5 trials", "10min 3 trials"]
)
def test_text_that_is_no_budget_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(TuningError, match="is no budget; write 10min"):
        TuningBudget.parse(text)


@pytest.mark.parametrize("nothing", [0, -1, math.nan, math.inf, "0s", "0 trials"])
def test_a_budget_of_nothing_is_an_error(nothing: str | float) -> None:
    with pytest.raises(TuningError, match="A budget is"):
        TuningBudget.parse(nothing)


def test_a_budget_without_a_limit_is_an_error() -> None:
    with pytest.raises(TuningError, match="needs a budget"):
        TuningBudget()


class Now:
    """Stands in for the clock."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    now = Now()
    monkeypatch.setattr("metol.tune.budget.time", now)
    return now


def test_a_clock_counts_seconds(now: Now) -> None:
    clock = Clock(TuningBudget(seconds=20))
    now.seconds += 5
    assert (clock.seconds, clock.seconds_left, clock.share) == (5, 15, 0.25)
    assert clock.trials_left is None
    now.seconds += 50
    assert (clock.seconds_left, clock.share) == (0, 1)


def test_a_clock_counts_trials(now: Now) -> None:
    clock = Clock(TuningBudget(trials=8))
    clock.trials += 2
    now.seconds += 1e6
    assert (clock.trials_left, clock.seconds_left, clock.share) == (6, math.inf, 0.25)
    clock.trials += 7
    assert (clock.trials_left, clock.share) == (0, 1)


def test_whatever_is_spent_most_is_the_share(now: Now) -> None:
    clock = Clock(TuningBudget(seconds=100, trials=10))
    assert clock.share == 0
    now.seconds += 10
    clock.trials += 5
    assert clock.share == 0.5
    now.seconds += 70
    assert clock.share == pytest.approx(0.8)
