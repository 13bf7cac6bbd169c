"""How good predictions are: measured and predicted times enter, scores leave.

Source: Adams et al. 2019, figure 7, for the coefficient of determination; rank correlation and regret, because a search
needs an order and the best, not times.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ProgramScore", "Scores", "rank_correlation_of", "rank_correlation_with_errors", "score"]

Seconds = npt.NDArray[np.float64]

# Of fewer schedules a rank correlation tells nothing.
_LEAST_SAMPLES = 5
# Draws of errors at random.
_DRAWS = 20


@dataclass(frozen=True, slots=True)
class ProgramScore:
    """One program."""

    program: str
    """Its source as text."""
    samples: int
    """Schedules that were measured."""
    rank_correlation: float
    """Spearman's, between predicted and measured times."""
    regret: float
    """How much slower the schedule is that is predicted to be the best than the one that is: 0 for the same."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Many programs."""

    r2: float
    """Coefficient of determination of the logarithm of time, over all samples."""
    programs: tuple[ProgramScore, ...]
    """One by one."""

    @property
    def rank_correlation(self) -> float:
        """Mean over the programs."""
        return float(np.mean([one.rank_correlation for one in self.programs])) if self.programs else float("nan")

    @property
    def regret(self) -> float:
        """Mean over the programs."""
        return float(np.mean([one.regret for one in self.programs])) if self.programs else float("nan")


def score(
    predicted: Seconds, measured: Seconds, program_of_sample: npt.NDArray[np.int64], programs: tuple[str, ...]
) -> Scores:
    """Compare predictions, [samples], with measurements, [samples]."""
    logs, truth = np.log(predicted), np.log(measured)
    spread = float(((truth - truth.mean()) ** 2).sum())
    r2 = 1 - float(((logs - truth) ** 2).sum()) / spread if spread > 0 else float("nan")
    scores = []
    for number, program in enumerate(programs):
        own = program_of_sample == number
        if own.sum() >= _LEAST_SAMPLES:
            times, guess = measured[own], predicted[own]
            regret = float(times[int(np.argmin(guess))] / times.min() - 1)
            scores.append(ProgramScore(program, int(own.sum()), rank_correlation_of(guess, times), regret))
    return Scores(r2, tuple(scores))


def rank_correlation_with_errors(
    measured: Seconds, program_of_sample: npt.NDArray[np.int64], programs: tuple[str, ...], deviation: float
) -> float:
    """Return the rank correlation of predictions that are right but for errors at random, as a yardstick.

    Schedules of a program can be so close to each other that only an exact model orders them.

    Args:
        measured: Seconds, [samples].
        program_of_sample: Numbers in `programs`, [samples].
        programs: As `score` takes them.
        deviation: Standard deviation of the logarithm of predicted over measured time: 0.1 is about 10 %.
    """
    random = np.random.default_rng(0)
    draws = [
        score(measured * np.exp(random.normal(0, deviation, measured.shape)), measured, program_of_sample, programs)
        for _ in range(_DRAWS)
    ]
    return float(np.mean([one.rank_correlation for one in draws]))


def rank_correlation_of(a: Seconds, b: Seconds) -> float:
    """Return Spearman's rank correlation of two columns, [samples]; values that are equal share their mean rank."""
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    if ranks_a.std() == 0 or ranks_b.std() == 0:
        return 0.0
    return float(np.corrcoef(ranks_a, ranks_b)[0, 1])


def _ranks(values: Seconds) -> Seconds:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Seconds = (last - (counts - 1) / 2)[place]
    return means
