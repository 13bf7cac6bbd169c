"""Each application judged by a fit that has not seen it: a table enters, weights fitted to all and scores leave.

Source: Anderson et al. 2021, §6: one-shot schedules of an application are by a model trained on random pipelines and on
all applications but that one.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from metol.cost import Weights
from metol.errors import MetolError
from metol.text_table import TextTable
from metol.train.fit import FitOptions, fit
from metol.train.predict import predict
from metol.train.scores import Scores, score
from metol.train.split import split_without
from metol.train.table import FeatureTable

__all__ = ["HeldOut", "HoldOneOut", "fit_all", "hold_one_out"]

Seconds = npt.NDArray[np.float64]

# How often those who wait look at the clock.
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One program, and what models that have not seen it make of its schedules."""

    program: str
    """Its source as text."""
    measured: Seconds
    """[samples]"""
    analytical: Seconds
    """What the analytical model predicts, [samples]."""
    trained: Seconds
    """What weights predict that were fitted to all other programs, [samples]."""

    def scores(self) -> tuple[Scores, Scores]:
        """Return the scores of the analytical model and of the weights."""
        return _score((self,), "analytical"), _score((self,), "trained")


@dataclass(frozen=True, slots=True)
class HoldOneOut:
    """All programs that were held out, one after the other."""

    programs: tuple[HeldOut, ...]
    """In the order in which they were asked for."""

    @property
    def analytical(self) -> Scores:
        """The scores of the analytical model."""
        return _score(self.programs, "analytical")

    @property
    def trained(self) -> Scores:
        """The scores of the fits, each on the program that it has not seen."""
        return _score(self.programs, "trained")

    @property
    def is_better(self) -> bool:
        """Whether fits order the schedules of unseen programs better than the analytical model, and choose no worse."""
        if not self.programs:
            return False
        ours, plain = self.trained, self.analytical
        return ours.rank_correlation > plain.rank_correlation and ours.regret <= plain.regret

    def notes(self) -> dict[str, Any]:
        """Return the scores as they stand in a file of weights."""
        return {
            "analytical": _note(self.analytical),
            "analytical and network": _note(self.trained),
            "held_out": {one.program: [_note(scores) for scores in one.scores()] for one in self.programs},
        }

    def table(self) -> TextTable:
        """Return the scores program by program: those of the analytical model, then those of the weights."""
        rows = [_row(one.program, len(one.measured), *one.scores()) for one in self.programs]
        samples = sum(len(one.measured) for one in self.programs)
        summary = (_row("all", samples, self.analytical, self.trained),) if self.programs else ()
        headers = (
            "held out",
            "samples",
            *("R², analytical", "R², trained"),
            *("rank correlation, analytical", "rank correlation, trained"),
            *("regret, analytical", "regret, trained"),
        )
        return TextTable("Each predicted by a fit that has not seen it", headers, tuple(rows), summary)


def fit_all(table: FeatureTable, options: FitOptions, tell: Callable[[str], None] = lambda _: None) -> Weights:
    """Fit to all programs but those that stop the fit.

    Raises:
        MetolError: there are too few.
    """
    return fit(table, split_without(table.programs, table.algorithms), options, tell).weights


def hold_one_out(
    table: FeatureTable,
    options: FitOptions,
    programs: Sequence[str],
    *,
    workers: int = 1,
    tell: Callable[[str], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> HoldOneOut:
    """Hold out one program after the other, fit to all others, and predict it.

    Args:
        table: All samples.
        options: How to fit.
        programs: Which to hold out; those without samples enough to tell an order are passed over.
        workers: Processes that fit at once; 1 for this one alone.
        tell: Told how it goes.
        is_over: Asked now and then; True leaves out what is not done.
    """
    numbers = {name: number for number, name in enumerate(table.programs)}
    chosen = [name for name in programs if name in numbers and _tells_an_order(table, numbers[name])]
    done: dict[str, HeldOut] = {}
    for name, outcome in _outcomes(table, options, chosen, workers, is_over):
        try:
            done[name] = outcome()
            tell(_line(done[name]))
        except MetolError as error:
            tell(f"{name} is not held out: {error}")
    return HoldOneOut(tuple(done[name] for name in chosen if name in done))


def _outcomes(
    table: FeatureTable, options: FitOptions, names: Sequence[str], workers: int, is_over: Callable[[], bool]
) -> Iterator[tuple[str, Callable[[], HeldOut]]]:
    """Yield each program, in whatever order it is done, with what returns its outcome or raises its error."""
    if workers == 1:
        for name in names:
            if is_over():
                return
            yield name, partial(_held_out, table, options, name)
        return
    # A fork would have PyTorch's threads without their locks.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        waiting = {pool.submit(_held_out, table, options, name): name for name in names}
        while waiting and not is_over():
            finished, _ = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
            for future in finished:
                yield waiting.pop(future), future.result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _held_out(table: FeatureTable, options: FitOptions, program: str) -> HeldOut:
    split = split_without(table.programs, table.algorithms, (program,))
    weights = fit(table, split, options).weights
    judged = table.select(split.held_out)
    return HeldOut(program, judged.seconds, judged.analytical_seconds, predict(weights, judged))


def _tells_an_order(table: FeatureTable, program: int) -> bool:
    own = table.select([program])
    return bool(score(own.analytical_seconds, own.seconds, own.program_of_sample, own.programs).programs)


def _score(programs: Sequence[HeldOut], model: str) -> Scores:
    if not programs:
        return Scores(float("nan"), ())
    return score(
        np.concatenate([getattr(one, model) for one in programs]),
        np.concatenate([one.measured for one in programs]),
        np.repeat(np.arange(len(programs)), [len(one.measured) for one in programs]),
        tuple(one.program for one in programs),
    )


def _note(scores: Scores) -> dict[str, Any]:
    return {
        "programs": len(scores.programs),
        "r2": round(scores.r2, 4),
        "rank_correlation": round(scores.rank_correlation, 4),
        "regret": round(scores.regret, 4),
    }


def _row(name: str, samples: int, plain: Scores, ours: Scores) -> tuple[str, ...]:
    pairs = (
        *(f"{one.r2:.3f}" for one in (plain, ours)),
        *(f"{one.rank_correlation:.3f}" for one in (plain, ours)),
        *(f"{one.regret:.1%}" for one in (plain, ours)),
    )
    return name, str(samples), *pairs


def _line(held_out: HeldOut) -> str:
    plain, ours = held_out.scores()
    return (
        f"{held_out.program}, not fitted to: rank correlation {plain.rank_correlation:.2f} by the analytical model, "
        f"{ours.rank_correlation:.2f} by the fit"
    )
