"""Weights for the GPU of this machine: a budget enters; samples, weights and a report leave.

Applications and random programs are measured in turn for most of the budget; then weights are fitted to all of them,
and judged by applications that fits have not seen. Whatever interrupts, what was measured is used again.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from metol.cost import Weights
from metol.cost_choice import own_weights_path
from metol.measure import PipelineSource
from metol.provenance import Provenance
from metol.targets import choose_machine, parse_target
from metol.train.collect import Collector, CollectPlan
from metol.train.devices import samples_of
from metol.train.draw import DrawPlan
from metol.train.evaluation import summary_of
from metol.train.fit import FitOptions
from metol.train.hold_one_out import HoldOneOut, fit_all, hold_one_out
from metol.train.samples import ProgramSamples, SampleFiles
from metol.train.table import make_table
from metol.tune import TuningBudget, fingerprint, machine_identity

__all__ = ["GpuTraining", "GpuWeights"]

# Of the budget, what is spent on measuring; the rest is for fits, one for each application and one for all.
_MEASURING_SHARE = 0.8
# Of one program there are no more than so many schedules, and no more time for them, so that there are many programs.
_COUNT = 24
_PROGRAM_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class GpuWeights:
    """What came of a training."""

    weights: Weights
    """Fitted to everything."""
    judged: HoldOneOut
    """How good such weights are on applications that they were not fitted to."""
    summary: dict[str, Any]
    """The data."""
    is_used: bool
    """Whether they are better than the analytical model, and used from now on."""

    @property
    def why_not(self) -> str:
        """Why they are not used, for people."""
        if not self.judged.programs:
            return "no application could be held out to judge them by, so the analytical model stays in use"
        return "the analytical model is as good, and stays in use"

    def report(self, command: str) -> str:
        """Return a page of Markdown.

        Args:
            command: What was typed.
        """
        data, judged = self.summary, self.judged
        verdict = "They are better, and used from now on." if self.is_used else f"Not used: {self.why_not}."
        lines = [
            f"# Weights for {', '.join(data['gpus'])}",
            f"Made by `{command}`: {data['programs']} programs, {data['samples']} schedules; "
            f"{Provenance.collect().text}.",
            "Each application is predicted by the analytical model, and by weights fitted to all programs but itself. "
            "Regret is how much slower the schedule is that is predicted to be best than the one that is.",
            *([judged.table().to_markdown()] if judged.programs else []),
            verdict,
        ]
        return "\n\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class GpuTraining:
    """Training for a GPU that is here."""

    out: Path
    """File of weights; samples and the report lie beside it."""
    target: str = "cuda"
    """Its Halide target."""
    gpu: str | None = None
    """Its name, if the driver's own description is not to be used."""
    threads: int = 2
    """Threads of the CPU beside it."""
    seed: int = 0
    """Seed of the first random program."""
    applications: tuple[PipelineSource, ...] = ()
    """What is measured in turn with random programs, and judges the weights."""
    options: FitOptions = field(default_factory=FitOptions)
    """How to fit; each application is judged by a single network."""

    @property
    def folder(self) -> Path:
        """Where its samples lie."""
        return self.out.with_suffix(".samples")

    @property
    def report_path(self) -> Path:
        """Where its report goes."""
        return self.out.with_suffix(".md")

    @property
    def plan(self) -> CollectPlan:
        """What is measured, and how."""
        plan = CollectPlan(
            first_seed=self.seed, threads=self.threads, program_seconds=_PROGRAM_SECONDS, draw=DrawPlan(_COUNT)
        )
        return plan.for_target(self.target, self.gpu)

    def collect(
        self, budget: TuningBudget, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[ProgramSamples]:
        """Measure applications and random programs in turn; those that are there already are not measured again.

        Args:
            budget: For all, fits included; trials count programs.
            is_cancelled: Asked between programs.

        Raises:
            UnsupportedTargetError: the GPU that is named is not the one that is here.
        """
        seconds = None if budget.seconds is None else budget.seconds * _MEASURING_SHARE
        collector = Collector(SampleFiles(self.folder), self.plan)
        yield from collector.run(
            TuningBudget(seconds, budget.trials), self.applications, is_cancelled, with_random=True
        )

    def fit(self, seconds: float = math.inf, tell: Callable[[str], None] = lambda _: None) -> GpuWeights:
        """Fit to all samples of this device, write the weights, and judge them.

        Args:
            seconds: After which no more applications are judged by.
            tell: Told how it goes.

        Raises:
            MetolError: there are too few samples.
        """
        end = time.monotonic() + seconds
        files = SampleFiles(self.folder)
        here = machine_identity(choose_machine(parse_target(self.target), threads=self.threads))
        programs = samples_of([program for program in files.load() if program.machine == here], self.target)
        table = make_table(programs, files.machine_of, tell=tell)
        summary = summary_of(programs, table)
        machine = {**here, "fingerprint": fingerprint(here)}
        notes = {"data": summary, "machine": machine, "made_by": Provenance.collect().to_dict()}
        weights = fit_all(table, self.options, tell).with_notes(notes)
        # Whatever comes now, there are weights.
        weights.save(self.out)
        judged = hold_one_out(
            table,
            replace(self.options, members=1),  # there are many to judge by, and an ensemble is as good as one or better
            [str(source) for source in self.applications],
            workers=max(1, len(os.sched_getaffinity(0))),
            tell=tell,
            is_over=lambda: time.monotonic() >= end,
        )
        weights = weights.with_notes({**notes, "scores": judged.notes()})
        weights.save(self.out)
        path = own_weights_path(files.machine_of(next(program for program in programs if program.samples)))
        if judged.is_better:
            weights.save(path)
        elif judged.programs and path.exists():
            path.unlink()  # fitted to less, and better by fewer applications
        return GpuWeights(weights, judged, summary, judged.is_better)
