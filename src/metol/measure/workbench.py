"""A workbench for one pipeline: batches of schedules are compiled on all cores, verified, and then raced alone.

In: schedules, batch by batch. Out: an `Outcome` for each: its measurement, and a score that can be compared with those
of all other batches, because two schedules that were measured before run in every race. Whatever a schedule does to its
process is its outcome, never the end of the workbench.
"""

import contextlib
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure.canary import Drift, save_schedule
from metol.measure.measurement import Measurement, Status
from metol.measure.messages import CasesMade
from metol.measure.race import Race, RacePlan
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource, SourceKind
from metol.measure.timing import TimingPlan
from metol.measure.trial import BusyTrials, RunOptions, Trial

__all__ = ["Fallen", "LocalWorkbench", "Outcome", "Workbench", "WorkbenchTimes"]

_CANARY_SOURCE = PipelineSource(SourceKind.MODULE, "metol.measure.canary", "build")
_CANARY_TIMING = TimingPlan(round_seconds=0.03)
# How often a batch that is being compiled looks whether somebody cancelled.
_POLL_SECONDS = 0.2
# Everything depends on the reference, which nobody can make faster: a short limit for schedules is none for it.
_LEAST_REFERENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one schedule."""

    measurement: Measurement
    """Its row; its times are those of the race that it ran in."""
    score_ms: float | None = None
    """Milliseconds of a run as they would have been in the first race: by this, schedules of all races compare. None
    for a failure, and for what was cancelled before it ran."""
    is_cancelled: bool = False
    """Whether somebody cancelled before it had run: it has not failed, and nothing is known of it."""


@dataclass(slots=True)
class WorkbenchTimes:
    """Where the wall-clock time of a workbench went, in seconds."""

    preparing: float = 0.0
    """The reference and its cases."""
    compiling: float = 0.0
    """Judging, compiling and verifying, on all cores."""
    racing: float = 0.0
    """Timed runs, alone on the machine."""

    @property
    def total(self) -> float:
        """All that was spent on compiling and running."""
        return self.preparing + self.compiling + self.racing


@dataclass(frozen=True, slots=True)
class Fallen:
    """A schedule that was right in an earlier batch, and died in a later race."""

    schedule: Schedule
    """What was measured."""
    measurement: Measurement
    """What became of it."""


class Workbench(Protocol):
    """Something that measures schedules of one pipeline: here, or on other machines."""

    times: WorkbenchTimes
    """Where the time went so far."""

    @property
    def drift(self) -> float:
        """How much slower the machine is than at the start: 1 for no change."""
        ...

    def prepare(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Compute what is right; raises MetolError where nothing can be compared."""
        ...

    def measure(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        """Measure a batch, in the order given."""
        ...

    def rescored(self) -> tuple[tuple[Schedule, float], ...]:
        """Return the scores, better known now, of schedules of earlier batches that ran in the last race again."""
        ...

    def fallen(self) -> tuple[Fallen, ...]:
        """Return the schedules of earlier batches that died in the last race."""
        ...

    def race_afresh(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        """Measure in processes of their own, all to the end, and beside nothing else."""
        ...

    def close(self) -> None:
        """End whatever it has started."""
        ...


@dataclass(slots=True)
class _Known:
    """A schedule that stays compiled, so that it can run in later races."""

    schedule: Schedule
    trial: Trial
    scores_ms: list[float]
    """One a race."""

    @property
    def score_ms(self) -> float:
        return statistics.median(self.scores_ms)


@dataclass(slots=True)
class _Field:
    """Those who run in one race: who stays from earlier ones, who then sets the pace, and what is new."""

    stayers: Sequence[_Known]
    new: Sequence[Trial]

    @property
    def trials(self) -> list[Trial]:
        return [*(known.trial for known in self.stayers), *self.new]


class LocalWorkbench:
    """Measures on this machine, with one child process for each schedule. A context manager: leaving it ends them all.

    Nothing else runs while a child is timed, if the caller leaves the machine alone.
    """

    def __init__(
        self,
        source: PipelineSource,
        options: RunOptions | None = None,
        *,
        refusal: Callable[[Schedule], str] = lambda _: "",
        plan: RacePlan | None = None,
    ) -> None:
        """Get ready; the first batch makes the reference.

        Args:
            source: the pipeline.
            options: how to run; the time limit is for compiling and verifying one schedule. The reference has a minute
                at least.
            refusal: tells why a schedule must not be used, or ""; called in several threads at once.
            plan: how to race.
        """
        self._source = source
        self._options = options or RunOptions()
        self._refusal = refusal
        self._plan = plan or RacePlan()
        self._folder = tempfile.TemporaryDirectory(prefix="metol-")
        # A child dies with the thread that started it, and these live as long as the workbench.
        self._workers = ThreadPoolExecutor(max_workers=max(1, len(os.sched_getaffinity(0))))
        self._numbers = itertools.count()
        self._cases: CasesMade | None = None
        self._drift = Drift()
        self._canary: Trial | None = None
        self._canary_case = ""
        self._anchor: _Known | None = None
        self._best: _Known | None = None
        self._batch: list[Trial] = []
        self._schedules: dict[int, Schedule] = {}
        """What each trial of the batch was compiled from, by the identity of the trial."""
        self._last: tuple[_Known, ...] = ()
        """Who stayed for the last race."""
        self._busy = BusyTrials()
        """Trials that a worker waits for."""
        self.times = WorkbenchTimes()

    @property
    def drift(self) -> float:
        """How much slower the machine is than at the start, by its canary: 1 for no change."""
        return self._drift.since_start

    def prepare(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Let the reference compute what is right, and compile the canary; `measure` does so where this was not.

        Raises:
            MetolError: the pipeline cannot be built, or its reference fails, so that nothing can be compared; or
                somebody cancelled.
        """
        if self._cases is not None:
            return
        started = time.monotonic()
        reference, canary = self._workers.submit(self._make_cases), self._workers.submit(self._start_canary)
        while not (reference.done() and canary.done()):
            wait([reference], _POLL_SECONDS) if canary.done() else wait([canary], _POLL_SECONDS)
            if is_cancelled():
                self._busy.kill()
        if is_cancelled():
            raise MetolError(f"Interrupted before anything of {self._source.label} was measured.")
        canary.result()  # first, so that it is known, and can be closed, where the reference fails
        self._cases = reference.result()
        self.times.preparing += time.monotonic() - started

    def measure(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        """Measure a batch beside the anchor and the best so far.

        Raises:
            MetolError: as `prepare`.
        """
        self.prepare()
        self._batch = []
        outcomes = self._compile(schedules, is_cancelled)
        runners = _Field([known for known in self._stayers() if known.trial.is_alive], self._batch)
        self._last = tuple(runners.stayers) if self._batch else ()
        scores = self._race(runners, self._plan, is_cancelled) if self._batch else {}
        self._keep(runners, scores)
        return self._outcomes(outcomes, scores)

    def rescored(self) -> tuple[tuple[Schedule, float], ...]:
        """Return the scores, better known now, of schedules of earlier batches that ran in the last race again."""
        return tuple((known.schedule, known.score_ms) for known in self._last if known.trial.measurement.is_ok)

    def fallen(self) -> tuple[Fallen, ...]:
        """Return the schedules of earlier batches that died in the last race."""
        fallen = [known for known in self._last if not known.trial.measurement.is_ok]
        return tuple(Fallen(known.schedule, known.trial.measurement) for known in fallen)

    def race_afresh(
        self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Outcome, ...]:
        """Measure in processes of their own, without eliminations, and keep none of them."""
        self.prepare()
        self._batch = []
        outcomes = self._compile(schedules, is_cancelled)
        endless = replace(self._plan, stages=(sum(self._plan.stages),))
        started = time.monotonic()
        for trial in self._batch:
            trial.start_over()
        race = Race(endless, self._case, self._drift, self._time_canary)
        race.run(self._batch, frozenset(), is_cancelled)
        self.times.racing += time.monotonic() - started
        scores = {id(trial): trial.measurement.run_ms for trial in self._batch if trial.measurement.run_ms is not None}
        found = self._outcomes(outcomes, scores)
        for trial in self._batch:
            trial.close()
        return found

    def close(self) -> None:
        """End all children, and remove the files."""
        self._busy.kill()
        self._workers.shutdown(wait=True, cancel_futures=True)
        for trial in [*self._batch, *(known.trial for known in self._stayers())]:
            trial.close()
        if self._canary is not None:
            self._canary.close()
        self._folder.cleanup()

    def __enter__(self) -> "LocalWorkbench":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _case(self) -> str:
        assert self._cases is not None
        return self._cases.cases[0]

    def _make_cases(self) -> CasesMade:
        folder = tempfile.mkdtemp(prefix="cases_", dir=self._folder.name)
        seconds = max(self._options.timeout_seconds, _LEAST_REFERENCE_SECONDS)
        options = replace(self._options, timeout_seconds=seconds)
        reference = Trial(self._source, Scheduler("reference"), options)
        with contextlib.closing(reference), self._busy.waiting_for(reference):
            reference.compile()
            cases = reference.make_cases(folder)
        if cases is None:
            raise MetolError(
                f"Nothing of {self._source.label} can be verified, for the reference, everything at root, fails: "
                f"{reference.measurement.problem}"
            )
        return cases

    def _start_canary(self) -> None:
        """Compile the canary; a machine on which that fails is measured without one."""
        if self._canary is not None:
            return
        folder = Path(tempfile.mkdtemp(prefix="canary_", dir=self._folder.name))
        options = RunOptions(threads=self._options.threads, timeout_seconds=self._options.timeout_seconds)
        canary = Trial(_CANARY_SOURCE, Scheduler.of_file(save_schedule(folder)), options)
        with self._busy.waiting_for(canary):
            canary.compile()
            cases = canary.make_cases(str(folder))
        if cases is not None:
            self._canary, self._canary_case = canary, cases.cases[0]

    def _time_canary(self) -> float | None:
        if self._canary is None:
            return None
        self._canary.start_over()
        return self._canary.time_round(self._canary_case, _CANARY_TIMING)

    def _stayers(self) -> list[_Known]:
        """The anchor and the best so far, each once."""
        distinct = {id(known.trial): known for known in (self._anchor, self._best) if known is not None}
        return list(distinct.values())

    def _compile(self, schedules: Sequence[Schedule], is_cancelled: Callable[[], bool]) -> list[Trial | Outcome | None]:
        """Judge, compile and verify on all cores; `_batch` has those that can run."""
        started = time.monotonic()
        is_over = threading.Event()

        def is_unwanted() -> bool:
            return is_over.is_set() or is_cancelled()

        futures = [self._workers.submit(self._compile_one, schedule, is_unwanted) for schedule in schedules]
        try:
            while wait(futures, _POLL_SECONDS).not_done:
                if is_cancelled():
                    self._busy.kill()
            found = [future.result() for future in futures]
        except BaseException:
            is_over.set()
            self._busy.kill()
            for future in futures:
                future.add_done_callback(_close_compiled)
            raise
        compiled = [
            (item, schedule) for item, schedule in zip(found, schedules, strict=True) if isinstance(item, Trial)
        ]
        self._batch = [trial for trial, _ in compiled if trial.is_alive]
        self._schedules = {id(trial): schedule for trial, schedule in compiled}
        self.times.compiling += time.monotonic() - started
        return found

    def _compile_one(self, schedule: Schedule, is_cancelled: Callable[[], bool]) -> Trial | Outcome | None:
        if is_cancelled():
            return None
        if refusal := self._refusal(schedule):
            return Outcome(Measurement(self._source.label, "schedule", Status.REFUSED, detail=refusal))
        file = Path(self._folder.name) / f"schedule_{next(self._numbers)}.json"
        schedule.save(file)
        if is_cancelled():
            return None
        trial = Trial(self._source, Scheduler.of_file(file), self._options)
        with self._busy.waiting_for(trial):
            assert self._cases is not None
            trial.compile()
            trial.verify(self._cases.cases, self._cases.note)
            trial.bind(self._cases.cases[0])
        if trial.was_killed:  # because somebody cancelled: it has not failed
            trial.close()
            return None
        return trial

    def _race(self, runners: _Field, plan: RacePlan, is_cancelled: Callable[[], bool]) -> dict[int, float]:
        """Race, and return the score of each trial by its identity."""
        started = time.monotonic()
        trials = runners.trials
        for trial in trials:
            trial.start_over()
        race = Race(plan, self._case, self._drift, self._time_canary)
        race.run(trials, frozenset(range(len(runners.stayers))), is_cancelled)
        self.times.racing += time.monotonic() - started
        place, unit_ms = self._reference(race, runners)
        if place is None:
            return {}
        return {id(trials[other]): unit_ms * ratio for other, ratio in race.ratios(place).items()}

    def _reference(self, race: Race, runners: _Field) -> tuple[int | None, float]:
        """Whom the others are compared with, by place, and the score that this one has."""
        for place, known in enumerate(runners.stayers):
            if known.trial.is_alive and race.ratios(place):
                return place, known.score_ms
        fastest = race.fastest()
        run_ms = None if fastest is None else runners.trials[fastest].measurement.run_ms
        return (None, 0.0) if fastest is None or run_ms is None else (fastest, run_ms)

    def _keep(self, runners: _Field, scores: dict[int, float]) -> None:
        """Choose who runs in the next races, and end the others."""
        known = {id(stayer.trial): stayer for stayer in runners.stayers}
        for trial in runners.new:
            known[id(trial)] = _Known(self._schedules[id(trial)], trial, [])
        for identity, score in scores.items():
            # The anchor is what all are measured by; of the others each race tells a little more.
            if self._anchor is None or known[identity] is not self._anchor:
                known[identity].scores_ms.append(score)
        usable = [one for one in known.values() if one.trial.is_alive and one.trial.measurement.verified]
        ranked = sorted((one for one in usable if one.scores_ms), key=lambda one: one.score_ms)
        if ranked:
            is_anchored = self._anchor is not None and self._anchor.trial.is_alive
            self._best, self._anchor = ranked[0], self._anchor if is_anchored else ranked[0]
        kept = {id(stayer.trial) for stayer in self._stayers()}
        for trial in runners.trials:
            if id(trial) not in kept:
                trial.close()

    def _outcomes(self, found: Sequence[Trial | Outcome | None], scores: dict[int, float]) -> tuple[Outcome, ...]:
        unknown = Outcome(Measurement(self._source.label, "schedule", detail="cancelled"), is_cancelled=True)
        return tuple(_outcome(item, scores) if isinstance(item, Trial) else item or unknown for item in found)


def _outcome(trial: Trial, scores: dict[int, float]) -> Outcome:
    row = trial.measurement
    score = scores.get(id(trial)) if row.is_ok else None
    return Outcome(row, score, is_cancelled=row.is_ok and score is None)


def _close_compiled(future: "Future[Trial | Outcome | None]") -> None:
    """End what a worker has compiled for nobody."""
    if not future.cancelled() and future.exception() is None and isinstance(trial := future.result(), Trial):
        trial.close()
