"""Weights for this machine: a budget enters; weights leave that predict it better than the analytical model, or none.

Random programs are measured for most of the budget; what is there from an earlier time is used again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from metol.cost_choice import own_weights_path
from metol.targets.cpu import CpuMachine
from metol.train.collect import Collector, CollectPlan
from metol.train.evaluation import Evaluation, score_models, summary_of
from metol.train.samples import ProgramSamples, SampleFiles
from metol.train.table import make_table
from metol.tune import TuningBudget

__all__ = ["OwnTraining"]

# Of the budget, what is spent on measuring; the rest is for fitting.
_MEASURING_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """Training for the machine at hand."""

    machine: CpuMachine
    """As it was calibrated."""
    seed: int = 0
    """Seed of the first program."""

    @property
    def folder(self) -> Path:
        """Where its samples lie."""
        return self.machine.cache_path().with_suffix(".samples")

    def collect(
        self, budget: TuningBudget, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[ProgramSamples]:
        """Measure random programs; those of an earlier time are not measured again."""
        seconds = None if budget.seconds is None else budget.seconds * _MEASURING_SHARE
        plan = CollectPlan(first_seed=self.seed, threads=self.machine.host_threads)
        collector = Collector(SampleFiles(self.folder), plan)
        yield from collector.run(TuningBudget(seconds, budget.trials), is_cancelled=is_cancelled)

    def fit(self, tell: Callable[[str], None] = lambda _: None) -> tuple[Evaluation, bool]:
        """Fit to all samples, and save the weights if they are better than the analytical model.

        Returns:
            The scores on programs that were held out, and whether the weights are used from now on.

        Raises:
            MetolError: there are too few samples.
        """
        files = SampleFiles(self.folder)
        programs = files.load()
        table = make_table(programs, files.machine_of, tell=tell)
        result = score_models(table, tell=tell)
        is_better = result.is_better
        path = own_weights_path(self.machine)
        if is_better:
            notes = {"data": summary_of(programs, table), "scores": result.notes()}
            result.weights.with_notes(notes).save(path)
        elif path.exists():
            path.unlink()
        return result, is_better
