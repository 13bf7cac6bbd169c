"""How good cost models are on programs that they have not seen: a table enters, models with scores leave.

Source: Adams et al. 2019, figure 7. What wins is what is shipped, and all of it is told.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metol.cost import Weights
from metol.errors import MetolError
from metol.text_table import TextTable
from metol.train.predict import fit_trees, predict
from metol.train.report import program_table, save_plots, score_table
from metol.train.samples import ProgramSamples
from metol.train.scores import Scores, rank_correlation_with_errors, score
from metol.train.split import split_by_name, split_of
from metol.train.table import FeatureTable

if TYPE_CHECKING:
    from metol.train.fit import FitOptions

__all__ = ["Evaluation", "evaluate_analytical", "evaluate_weights", "rows_per_second", "score_models", "summary_of"]

Seconds = npt.NDArray[np.float64]

_OURS = "analytical and network"
_TIMED_ROWS = 20_000
_GOES = 10
_ANALYTICAL = "analytical"
_ERRORS = (0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What models make of samples."""

    weights: Weights
    """The weights that this is about."""
    judged: FeatureTable
    """The samples by which all are judged."""
    predicted: Mapping[str, Seconds]
    """What each model predicts of them, [samples]."""
    history: Sequence[Sequence[tuple[float, float]]] = field(default=())
    """How the loss fell, of each network."""

    @property
    def scores(self) -> dict[str, Scores]:
        """The scores of each model."""
        table = self.judged
        return {
            name: score(seconds, table.seconds, table.program_of_sample, table.programs)
            for name, seconds in self.predicted.items()
        }

    @property
    def is_better(self) -> bool:
        """Whether the weights order the schedules of unseen programs better than the analytical model."""
        scores = self.scores
        ours, plain = scores[_OURS], scores[_ANALYTICAL]
        return ours.rank_correlation > plain.rank_correlation and ours.regret <= plain.regret

    def notes(self) -> dict[str, Any]:
        """Return the scores as they stand in a file of weights."""
        return {
            name: {
                "programs": len(one.programs),
                "r2": round(one.r2, 4),
                "rank_correlation": round(one.rank_correlation, 4),
                "regret": round(one.regret, 4),
            }
            for name, one in self.scores.items()
        }

    def table(self) -> TextTable:
        """Return the scores of all models."""
        return score_table("Models", self.scores)

    def programs(self) -> TextTable:
        """Return the scores of the weights, program by program."""
        return program_table("Programs, by the weights", self.scores[_OURS])

    def yardstick(self) -> dict[float, float]:
        """Return rank correlations that predictions would have that are wrong by so much, as parts of the time."""
        table = self.judged
        return {
            error: rank_correlation_with_errors(table.seconds, table.program_of_sample, table.programs, error)
            for error in _ERRORS
        }

    def save_plots(self, folder: Path) -> list[Path]:
        """Draw predictions, and how the loss fell; return the files."""
        return save_plots(folder, self.judged.seconds, self.predicted, self.history)


def rows_per_second(weights: Weights, table: FeatureTable) -> float:
    """Return of how many rows of Stages the core makes coefficients in a second, on one core: the best of several."""
    network = weights.network()
    rows = np.ascontiguousarray(np.resize(table.rows, (_TIMED_ROWS, table.rows.shape[1])))
    analytical = np.ones((_TIMED_ROWS, len(table.terms)))
    seconds = []
    for _ in range(_GOES):
        started = time.perf_counter()
        network.coefficients(rows, table.operations[0].tolist(), analytical)
        seconds.append(time.perf_counter() - started)
    return _TIMED_ROWS / min(seconds)


def evaluate_weights(weights: Weights, table: FeatureTable, *, only_held_out: bool = False) -> Evaluation:
    """Judge weights by samples, or by those of the programs alone that no fit has seen.

    Raises:
        MetolError: none of the programs is held out.
        WeightsError: the weights are about other features.
    """
    table = _held_out(table) if only_held_out else table
    weights.require(table.features, table.terms)
    return Evaluation(weights, table, {_ANALYTICAL: table.analytical_seconds, _OURS: predict(weights, table)})


def evaluate_analytical(table: FeatureTable, *, only_held_out: bool = False) -> tuple[TextTable, TextTable]:
    """Judge the analytical model by samples: a table of the programs, and one of all of them.

    Raises:
        MetolError: none of the programs is held out.
    """
    table = _held_out(table) if only_held_out else table
    scores = score(table.analytical_seconds, table.seconds, table.program_of_sample, table.programs)
    return program_table("Programs, by the analytical model", scores), score_table("Models", {_ANALYTICAL: scores})


def _held_out(table: FeatureTable) -> FeatureTable:
    held_out = split_of(table.algorithms).held_out
    if not held_out:
        raise MetolError("None of these programs is held out: one in ten is, by the hash of its algorithm.")
    return table.select(held_out)


def score_models(
    table: FeatureTable,
    options: "FitOptions | None" = None,
    *,
    held_out: Sequence[str] = (),
    compare: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Fit the cost model, and judge it by the programs that were held out.

    Args:
        table: All samples.
        options: How to fit.
        held_out: Names of the programs to judge by, in place of those that are by the hash of their algorithm.
        compare: Whether the network without the analytical model, and trees, are fitted and judged, too.
        tell: Told how it goes.

    Raises:
        MetolError: there are too few programs.
    """
    from metol.train.fit import FitOptions, fit

    options = options or FitOptions()
    split = split_by_name(table.programs, table.algorithms, held_out) if held_out else split_of(table.algorithms)
    if held_out and not split.held_out:
        raise MetolError(f"There are no samples of {', '.join(held_out)} to judge by.")
    if not split.held_out:
        raise MetolError(f"{len(table.programs)} programs are too few: none of them is held out to judge by.")
    judged = table.select(split.held_out)
    fitted = fit(table, split, options, tell)
    predicted = {_ANALYTICAL: judged.analytical_seconds, _OURS: predict(fitted.weights, judged)}
    if compare:
        tell("the network alone")
        alone = fit(table, split, replace(options, mode="network"), tell)
        predicted["network alone"] = predict(alone.weights, judged)
        predicted["analytical and trees"] = fit_trees(
            table.select(split.training + split.stopping), judged, options.seed
        )
    return Evaluation(fitted.weights, judged, predicted, fitted.history)


def summary_of(programs: Sequence[ProgramSamples], table: FeatureTable) -> dict[str, Any]:
    """Return what weights tell of the data that they were fitted to."""
    machines = {str(program.machine.get("cpu", "")) for program in programs if program.samples}
    gpus = {program.device for program in programs if program.samples} - {""}
    return {
        "programs": len(table.programs),
        "samples": len(table.seconds),
        "machines": sorted(machines),
        "targets": sorted({program.target for program in programs if program.samples}),
        "threads": sorted({program.threads for program in programs}),
        "generations": sorted({program.generation for program in programs}),
        **({"gpus": sorted(gpus)} if gpus else {}),
    }
