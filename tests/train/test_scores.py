"""Scores of predictions, against numbers that were reckoned by hand."""

import math

import numpy as np
import pytest

from metol.train.scores import Scores, rank_correlation_with_errors, score


def scores_of(predicted: list[float], measured: list[float]) -> Scores:
    return score(np.array(predicted), np.array(measured), np.zeros(len(measured), dtype=np.int64), ("a",))


def test_what_is_predicted_exactly_has_the_best_scores() -> None:
    times = [1.0, 2.0, 3.0, 5.0, 4.0]
    scores = scores_of(times, times)
    (program,) = scores.programs
    assert (scores.r2, program.rank_correlation, program.regret, program.samples) == (1, pytest.approx(1), 0, 5)


def test_determination_is_that_of_the_logarithm_of_time() -> None:
    e = math.e
    # Logarithms 1 to 5, whose squared differences from their mean add up to 10; errors of 1 and 2 to 5.
    scores = scores_of([e**2, e**2, e**3, e**4, e**3], [e, e**2, e**3, e**4, e**5])
    assert scores.r2 == pytest.approx(0.5)


def test_a_factor_costs_determination_but_neither_order_nor_choice() -> None:
    scores = scores_of([10.0, 20.0, 30.0, 40.0, 50.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert scores.r2 < 0
    assert scores.rank_correlation == pytest.approx(1)
    assert scores.regret == 0


def test_rank_correlation_counts_order_alone() -> None:
    assert scores_of([5.0, 4, 3, 2, 1], [1.0, 2, 3, 4, 100]).rank_correlation == pytest.approx(-1)
    # Squared differences of ranks add up to 2: 1 - 6 * 2 / (5 * 24).
    assert scores_of([1.0, 2, 3, 4, 5], [1.0, 2, 3, 900, 7]).rank_correlation == pytest.approx(0.9)


def test_times_that_are_equal_share_their_mean_rank() -> None:
    # Ranks 1.5, 1.5, 3, 4, 5 and 1, 2, 3, 4, 5: their covariance is 9.5, their variances 9.5 and 10.
    found = scores_of([7.0, 7.0, 8.0, 9.0, 10.0], [1.0, 2.0, 3.0, 4.0, 5.0]).rank_correlation
    assert found == pytest.approx(9.5 / math.sqrt(9.5 * 10))


def test_what_is_predicted_alike_has_no_order() -> None:
    assert scores_of([2.0] * 5, [1.0, 2, 3, 4, 5]).rank_correlation == 0
    assert scores_of([1.0, 2, 3, 4, 5], [2.0] * 5).rank_correlation == 0


def test_regret_is_how_much_slower_the_one_is_that_seems_best() -> None:
    assert scores_of([3.0, 2, 1, 4, 5], [2.0, 4, 3, 6, 9]).regret == pytest.approx(0.5)


def test_programs_count_alike_and_those_with_few_samples_do_not_count() -> None:
    measured = np.array([1.0, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 1, 2])
    predicted = np.array([1.0, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 2, 1])
    program_of_sample = np.repeat([0, 1, 2], [5, 6, 2])
    scores = score(predicted, measured, program_of_sample, ("a", "b", "c"))
    assert [(one.program, one.samples) for one in scores.programs] == [("a", 5), ("b", 6)]
    assert scores.rank_correlation == pytest.approx(0)
    assert scores.regret == pytest.approx((0 + 5) / 2)


@pytest.mark.parametrize("deviation", [0.1, 0.2])
def test_the_closer_schedules_are_the_less_of_their_order_do_errors_leave(deviation: float) -> None:
    def with_errors(step: float, by: float) -> float:
        return rank_correlation_with_errors(np.exp(step * np.arange(20)), np.zeros(20, dtype=np.int64), ("a",), by)

    assert with_errors(0.001, 0) == pytest.approx(1)
    close, spread, far = (with_errors(step, deviation) for step in (0.001, 0.03, 3))
    assert abs(close) < 0.2
    assert 0.5 < spread < 0.98
    assert far == pytest.approx(1)


def test_scores_of_nothing_are_unknown() -> None:
    scores = scores_of([1.0, 2.0], [2.0, 2.0])
    assert math.isnan(scores.r2)
    assert math.isnan(scores.rank_correlation)
    assert math.isnan(scores.regret)
