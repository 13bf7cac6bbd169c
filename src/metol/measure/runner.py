"""Measuring schedulers on one pipeline: compile each, verify each, then time them in turn, one at a time.

In: a `PipelineSource` and `Scheduler`s. Out: one `Measurement` each, in the same order. Whatever a schedule does to its
process is part of its measurement.
"""

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from metol.measure.measurement import Measurement
from metol.measure.messages import CasesMade, GrowInputs
from metol.measure.profile import FuncTimes, read_profile
from metol.measure.scheduler import Scheduler
from metol.measure.second_opinion import SecondOpinion
from metol.measure.source import PipelineSource, stored_source
from metol.measure.timing import TimingPlan
from metol.measure.trial import BusyTrials, RunOptions, Trial
from metol.pipeline import EstimateMap

__all__ = ["LocalRunner", "PreparedTrials", "Progress", "Runner", "verify_schedule"]

Progress = Callable[[str], None]


class Runner(Protocol):
    """Something that measures schedulers on a pipeline: here, or on other machines."""

    def run(self, source: PipelineSource, schedulers: Sequence[Scheduler]) -> tuple[Measurement, ...]:
        """Measure every scheduler on one pipeline, in the order given."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedTrials:
    """One pipeline's schedules, compiled and verified, each in a child that waits to be timed. Close it."""

    failures: tuple[Measurement, ...]
    """The rows, where there is nothing to time."""
    stack: contextlib.ExitStack
    """Ends the children, and removes what they were compared with."""
    trials: Sequence[Trial] = ()
    """One for each scheduler."""
    race: Callable[[], None] = lambda: None
    """Times them in turn, if that is wanted."""

    def time(self) -> tuple[Measurement, ...]:
        """Time in turn, and return a row for each scheduler."""
        self.race()
        return self.failures or tuple(trial.measurement for trial in self.trials)

    def close(self) -> None:
        """End the children."""
        self.stack.close()


class LocalRunner:
    """Measures on this machine, with one child process for each scheduler, alive until its last timing round.

    Nothing else runs while a child is timed, if the caller leaves the machine alone: children that wait their turn are
    blocked on a pipe, and Halide's idle threads sleep.
    """

    def __init__(self, options: RunOptions | None = None, progress: Progress | None = None) -> None:
        self._options = options or RunOptions()
        self._progress = progress or (lambda _: None)
        self._busy = BusyTrials()

    def stop(self) -> None:
        """End what other threads prepare, and let them prepare nothing more."""
        self._busy.stop()

    def run(self, source: PipelineSource, schedulers: Sequence[Scheduler]) -> tuple[Measurement, ...]:
        """Measure every scheduler on one pipeline.

        Raises:
            MetolError: the pipeline itself cannot be built; a scheduler's failure is a row instead.
        """
        with contextlib.closing(self.prepare(source, schedulers)) as prepared:
            return prepared.time()

    def prepare(self, source: PipelineSource, schedulers: Sequence[Scheduler]) -> "PreparedTrials":
        """Schedule, compile and verify, and leave the timing for later.

        Several threads may prepare a pipeline each. Children die with the thread that started them, so that it must
        live until they are closed.

        Returns:
            What is to be timed, and then closed.

        Raises:
            MetolError: the pipeline itself cannot be built; a scheduler's failure is a row instead.
        """
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="metol-")))
            reference, cases = self._make_cases(source, folder)
            if cases is None:
                return PreparedTrials(_without_reference(reference, schedulers), stack.pop_all())
            trials = []
            second = SecondOpinion(source, self._options, folder)
            stack.callback(second.close)
            for scheduler in schedulers:
                self._progress(f"{source.label}: {scheduler}")
                trial = Trial(source, scheduler, self._options)
                stack.callback(trial.close)
                with self._busy.waiting_for(trial):
                    trial.compile()
                    trial.verify(cases.cases, cases.note, second.verdict)
                    if self._options.timing is not None:
                        trial.bind(cases.cases[0])
                trials.append(trial)
            return PreparedTrials((), stack.pop_all(), trials, partial(self._time, source, trials, cases.cases[0]))

    def run_grown(
        self, source: PipelineSource, schedulers: Sequence[Scheduler]
    ) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
        """Measure at the estimated size alone, with inputs as large as the greediest of the schedules demands.

        Schedules with tails that round up read beyond what the algorithm needs. What lies there must not matter to the
        result; where it does, because the algorithm mentions the size of an input, the result is wrong.

        Returns:
            One measurement for each scheduler, and for each the inputs that had to grow for it.

        Raises:
            MetolError: the pipeline itself cannot be built; a scheduler's failure is a row instead.
        """
        with tempfile.TemporaryDirectory(prefix="metol-") as folder, contextlib.ExitStack() as stack:
            reference, cases = self._make_cases(source, Path(folder))
            if cases is None:
                return _without_reference(reference, schedulers), ("",) * len(schedulers)
            trials, case, notes = [], cases.cases[0], []
            for number, scheduler in enumerate(schedulers):
                self._progress(f"{source.label}: {scheduler}")
                trial = Trial(source, scheduler, self._options)
                stack.callback(trial.close)
                trial.compile()
                trials.append(trial)
                grown = trial.grow_inputs(GrowInputs(case, str(Path(folder) / f"grown_{number}")))
                if grown is not None:
                    case = grown.cases[0]
                notes.append("" if grown is None else grown.note)
            for trial in trials:
                trial.verify([case], "")
            self._time(source, trials, case)
            return tuple(trial.measurement for trial in trials), tuple(notes)

    def profile(self, source: PipelineSource, scheduler: Scheduler, seconds: float) -> tuple[Measurement, FuncTimes]:
        """Run one schedule for a while at the estimated size, and ask Halide's profiler where the time goes.

        Args:
            source: The pipeline.
            scheduler: Its schedule.
            seconds: How long to run; Halide looks once a millisecond what is being computed.

        Returns:
            How it went, and the milliseconds of a run that each Func takes with what is inlined into it; none if it
            failed.

        Raises:
            MetolError: the pipeline itself cannot be built.
        """
        plan = TimingPlan(round_seconds=seconds, min_rounds=1, max_rounds=1)
        options = replace(self._options, target=f"{self._options.target}-profile", timing=plan)
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            reference, cases = self._make_cases(source, Path(folder))
            if cases is None:
                (failed,) = _without_reference(reference, [scheduler])
                return failed, {}
            self._progress(f"{source.label}: {scheduler}")
            with contextlib.closing(Trial(source, scheduler, options)) as trial:
                trial.compile()
                trial.verify(cases.cases[:1], cases.note)
                if trial.is_alive:
                    trial.time_round(cases.cases[0], plan)
                return trial.measurement, read_profile(trial.printed())

    def _time(self, source: PipelineSource, trials: Sequence[Trial], case: str) -> None:
        if self._options.timing is not None:
            self._progress(f"{source.label}: timing")
            _time_in_turn(trials, case, self._options.timing)

    def _make_cases(self, source: PipelineSource, folder: Path) -> tuple[Measurement, CasesMade | None]:
        """Let a child compute what is right; without cases, the measurement tells why there are none."""
        self._progress(f"{source.label}: reference")
        reference = Trial(source, Scheduler("reference"), self._options)
        with contextlib.closing(reference), self._busy.waiting_for(reference):
            reference.compile()
            cases = reference.make_cases(str(folder))
            return reference.measurement, cases


def verify_schedule(
    pipeline: Any,
    schedule: Any,
    *,
    options: RunOptions | None = None,
    progress: Progress | None = None,
    estimates: EstimateMap | None = None,
) -> Measurement:
    """Compile and run a schedule of a live pipeline in a child process, and compare with the reference schedule.

    Args:
        pipeline: an `hl.Pipeline`, or its `PipelineSource`. The schedule that it carries matters only for Funcs that
            are to keep it.
        schedule: a `metol.lower.Schedule` that fits it.
        options: how to run; nothing is timed unless they say so.
        progress: told about each step.
        estimates: sizes and values that the pipeline does not tell, by name.

    Returns:
        A measurement whose `verified` tells whether the results agree at both sizes, and whose `detail` says why not.
    """
    options = options or RunOptions(timing=None)
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        source = stored_source(pipeline, Path(folder), estimates)
        schedule_file = Path(folder) / "schedule.json"
        schedule.save(schedule_file)
        (row,) = LocalRunner(options, progress).run(source, [Scheduler.of_file(schedule_file)])
        return row


def _without_reference(reference: Measurement, schedulers: Sequence[Scheduler]) -> tuple[Measurement, ...]:
    """Return a row for each scheduler, none of which can be compared with anything."""
    failed = Measurement(
        reference.app, "", reference.status, detail=f"no reference to compare with: {reference.detail}"
    )
    return tuple(replace(failed, scheduler=str(scheduler)) for scheduler in schedulers)


def _time_in_turn(trials: Sequence[Trial], case: str, plan: TimingPlan) -> None:
    """Give every trial one round, again and again, until the medians of all are known.

    All go on until the last has settled, so that they share the same stretch of time, except those out of time.
    """
    while not all(trial.is_timed(plan) for trial in trials):
        for trial in trials:
            if trial.is_alive and not trial.is_out_of_time(plan):
                trial.time_round(case, plan)
