"""One pipeline on its way to a tuned schedule: search, first batch, one batch after the other, final race.

In: a problem and how to tune it. Out: a `TuningResult`. Whoever calls decides how often, and when it ends.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from metol.errors import MetolError, TuningError
from metol.measure import Outcome, RacePlan, RunOptions, Status, Workbench
from metol.planner import Found
from metol.tune.budget import Clock
from metol.tune.database import Records, best_of, median_ms
from metol.tune.final_race import FinalRace, wrong_size
from metol.tune.journal import Journal
from metol.tune.problem import Problem
from metol.tune.progress import Progress, TuningProgress
from metol.tune.proposals import Proposal, directives_text
from metol.tune.record import Record
from metol.tune.result import TuningResult
from metol.tune.standings import Standing, Standings
from metol.tune.tuner import Tuner, TunerOptions

__all__ = ["TuningRun", "TuningSettings"]

# A trial, before the first has told how long it takes.
_GUESSED_TRIAL_SECONDS = 2.0
# Of the budget, what the final race may have at most.
_MOST_FINAL_SHARE = 0.3
# Of earlier runs under the same key, how many are measured again.
_EARLIER = 3
_LEAST_TIMEOUT_SECONDS = 20.0
# What failed for want of time or memory may not fail with more of it.
_WORTH_ANOTHER_TRY = (Status.TIMEOUT, Status.OUT_OF_MEMORY)


# What each peer proposes, or why it proposes nothing.
_Answers: TypeAlias = Sequence[tuple[Proposal | None, str]]


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """How to tune, whatever the budget."""

    tuner: TunerOptions = field(default_factory=TunerOptions)
    """How schedules are chosen."""
    final: FinalRace = field(default_factory=FinalRace)
    """How the best few are measured at the end."""
    timeout_seconds: float = 60.0
    """For compiling and verifying one schedule; less where the budget is small."""
    memory_bytes: int | None = None
    """Address space that a schedule may take; three quarters of this machine's memory if None."""
    seed: int = 0
    """Seed of the random inputs."""
    plan: RacePlan = field(default_factory=RacePlan)
    """How races go."""
    open_workbench: Callable[[Problem, RunOptions, RacePlan], Workbench] = Problem.workbench
    """Opens what measures the schedules of one pipeline: here, or on other machines."""
    only_seeds: bool = False
    """Whether the search's own result is all that is measured, as in the modes `greedy` and `beam`."""


class TuningRun:
    """One pipeline's tuning. A context manager: leaving it ends its children."""

    def __init__(
        self,
        problem: Problem,
        settings: TuningSettings,
        records: Records | None,
        *,
        clock: Clock,
        parts: int = 1,
        progress: Progress = lambda _: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Get ready.

        Args:
            problem: What is tuned.
            settings: How.
            records: Where measurements go; None keeps them for the result alone.
            clock: Counts what is spent, by all who share the budget.
            parts: How many share it.
            progress: Told after every step.
            is_cancelled: Asked now and then; True ends it with the best so far.
        """
        self.problem = problem
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._is_cancelled = is_cancelled
        self._journal = Journal(problem, records)
        self._standings = Standings()
        self._tuner = Tuner(problem, settings.tuner, self._standings, lambda: is_cancelled() or clock.seconds_left <= 0)
        self._parts = parts
        self._part_seconds = math.inf if clock.budget.seconds is None else clock.budget.seconds / parts
        self._part_trials = None if clock.budget.trials is None else max(1, clock.budget.trials // parts)
        self._options = self._run_options()
        timing = replace(settings.plan.timing, is_cold=problem.is_cold)
        self._workbench = settings.open_workbench(problem, self._options, replace(settings.plan, timing=timing))
        self._waiting: list[Proposal] = []
        self._notes: list[str] = []
        self.spent_seconds = 0.0
        self.trials = 0
        self.gain_rate = math.inf
        """Logarithm of what the last steps gained, a second: by this, pipelines share their time."""
        self.is_exhausted = False

    def __enter__(self) -> "TuningRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._workbench.close()

    @property
    def history(self) -> tuple[Record, ...]:
        """All that was measured so far."""
        return self._journal.history

    @property
    def reserve_seconds(self) -> float:
        """What the final race will take."""
        if math.isinf(self._part_seconds) or self._settings.only_seeds:
            return 0.0
        times, count = self._workbench.times, max(1, self.trials)
        compile_seconds, race_seconds = times.compiling / count, times.racing / count
        estimated = self._settings.final.seconds(max(compile_seconds, 0.5), max(2 * race_seconds, 1.0))
        return min(_MOST_FINAL_SHARE * self._part_seconds, estimated)

    def start(self) -> None:
        """Search, and measure what the search found.

        Raises:
            MetolError: the pipeline cannot be built, or its reference fails.
        """
        with self._turn():
            self._tell("searching")
            self.problem.open_judges()
            with self._asking_peers() as answers:
                found = self.problem.planner.search(
                    self._is_cancelled, self._settings.tuner.search_share * self._part_seconds
                )
                seeds = self._seeds(found)
                self._notes += found.refusals
                self._tell("making the reference")
                self._workbench.prepare(self._is_cancelled)
                self._waiting = seeds
                if answers is not None and self._has_time():
                    self._tell("asking Halide's own autoschedulers")
                    self._add_peers(answers())
            if self._settings.only_seeds or not self._affordable():
                self._measure_one()
            else:
                self._measure(self._take_waiting(), self._is_cancelled)

    def step(self, share: float) -> None:
        """Measure one batch; `share` is how much of this pipeline's part of the budget is spent."""
        with self._turn() as seconds:
            before = self._standings.best
            batch = [] if self._settings.only_seeds else self._take_waiting()
            if not batch and not self._settings.only_seeds and (count := self._affordable()):
                batch = self._tuner.next_batch(count, share, self.history)
            if not batch:
                self.is_exhausted = True
                return
            self._measure(batch, lambda: self._is_cancelled() or self._clock.seconds_left <= 0)
            after = self._standings.best
        gain = math.log(before.score_ms / after.score_ms) if before is not None and after is not None else 0.0
        rate = max(0.0, gain) / max(1e-9, seconds())
        # Old gains tell less and less of those to come.
        self.gain_rate = rate if math.isinf(self.gain_rate) else 0.5 * (self.gain_rate + rate)

    def note(self, text: str) -> None:
        """Tell the reader of the result something."""
        self._notes.append(text)

    def finish(self, until_seconds: float) -> TuningResult:
        """Run the final race, and tell what came of it all.

        Args:
            until_seconds: When it should be over, by the clock; one process of each finalist runs in any case.

        Raises:
            TuningError: no schedule was right.
        """
        with self._turn():
            finals = self._final_race(until_seconds)
            best = best_of(finals) or self._best_without_race()
        if best is None:
            raise TuningError(f"No schedule of {self.problem.label} was right: {self._last_failure()}")
        return TuningResult(
            label=self.problem.label,
            best=best,
            history=self.history,
            speedup_over=self._speedups(best, finals),
            seconds=self.spent_seconds,
            overhead_seconds=max(0.0, self.spent_seconds - self._workbench.times.total),
            is_complete=bool(finals) or not self._is_cancelled(),
            drift=self._workbench.drift,
            notes=tuple(self._notes),
        )

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Callable[[], float]]:
        """Count what a turn takes, and end children that would only wait while others have theirs."""
        started = time.monotonic()
        try:
            yield lambda: time.monotonic() - started
        finally:
            if self._parts > 1:
                self.problem.rest()
            self.spent_seconds += time.monotonic() - started

    def _run_options(self) -> RunOptions:
        limit = max(_LEAST_TIMEOUT_SECONDS, self._part_seconds / 3)
        return RunOptions(
            threads=self.problem.threads,
            timeout_seconds=min(self._settings.timeout_seconds, limit),
            target=self.problem.planner.target,
            seed=self._settings.seed,
            memory_bytes=self._settings.memory_bytes,
            inputs=self.problem.inputs,
        )

    def _seeds(self, found: Found) -> list[Proposal]:
        """What is measured in any case; what earlier runs measured, but for their best few, counts as tried."""
        earlier = self._journal.earlier()
        seeds = self._tuner.seeds(found, _best_few(earlier), self._journal.seeds())
        again = {seed.text for seed in seeds if seed.origin != "alternative"}
        for record in earlier:
            if record.schedule and record.status not in _WORTH_ANOTHER_TRY:
                with contextlib.suppress(MetolError):  # written by a later Metol
                    if (text := directives_text(record.to_schedule())) not in again:
                        self._standings.note_tried(text)
        return [seed for seed in seeds if seed.text not in self._standings.tried]

    def _measure_one(self) -> None:
        """Measure the first seed that is right, and nothing else."""
        while self._waiting and not len(self._standings) and not self._is_cancelled():
            batch, self._waiting = self._waiting[:1], self._waiting[1:]
            self._measure(batch, self._is_cancelled)

    def _final_race(self, until_seconds: float) -> tuple[Record, ...]:
        """Measure the best few again; whoever fails then leaves the standings, and the next ones run."""
        if self._settings.only_seeds:
            return ()
        final = self._settings.final
        while len(self._standings) > 1 and not self._is_cancelled() and self._clock.seconds_left > 0:
            self._tell("final race")
            try:
                started = time.monotonic()
                chosen = final.chosen(self.problem, self._standings, self._journal, self._options)
                self._workbench.times.compiling += time.monotonic() - started
                finals = final.run(
                    self._workbench,
                    self._journal,
                    chosen,
                    has_time=lambda: self._clock.seconds < until_seconds,
                    is_cancelled=self._is_cancelled,
                )
            except MetolError as error:
                self.note(f"the final race failed: {error}")
                return ()
            failed = {record.schedule_digest for record in finals if record.status is not Status.OK}
            for standing in chosen:
                if standing.record.schedule_digest in failed:
                    self._standings.drop(standing.proposal)
            if best_of(finals) is not None or not failed:
                return finals
        return ()

    @contextlib.contextmanager
    def _asking_peers(self) -> Iterator[Callable[[], _Answers] | None]:
        """Ask Halide's own autoschedulers beside the search; yield what waits for their answers, None if nobody is."""
        options = self._settings.tuner
        if self._settings.only_seeds or not options.peers or not self._has_time():
            yield None
            return
        limit = min(len(options.peers) * self._settings.timeout_seconds, options.peer_share * self._part_seconds)
        is_over = threading.Event()
        # The children die with the thread that started them; it lives until the last has answered.
        with ThreadPoolExecutor(max_workers=1) as worker:
            asking = worker.submit(
                lambda: tuple(self._tuner.peers(limit, lambda: is_over.is_set() or self._is_cancelled()))
            )
            try:
                yield asking.result
            finally:
                is_over.set()

    def _add_peers(self, answers: _Answers) -> None:
        for proposal, failure in answers:
            if proposal is not None and proposal.text not in self._standings.tried:
                self._waiting.append(proposal)
            if failure:
                self.note(failure)

    def _take_waiting(self) -> list[Proposal]:
        """Take what is to be measured in any case, as much of it as there is budget for."""
        count = self._affordable()
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _affordable(self) -> int:
        """How many trials the budget allows now: a batch, or less."""
        count = self._settings.tuner.batch
        if self._clock.trials_left is not None and self._part_trials is not None:
            # Before its own part is spent, nobody takes what belongs to others.
            own = self._part_trials - self.trials
            count = min(count, self._clock.trials_left, own if own > 0 else count)
        if not math.isinf(self._clock.seconds_left):
            each = (
                (self._workbench.times.compiling + self._workbench.times.racing) / self.trials
                if self.trials
                else _GUESSED_TRIAL_SECONDS
            )
            count = min(count, int((self._clock.seconds_left - self._clock.reserve_seconds) / each))
        return max(0, count)

    def _has_time(self) -> bool:
        return self._affordable() > 0 and not self._is_cancelled()

    def _measure(self, batch: Sequence[Proposal], is_over: Callable[[], bool]) -> None:
        self._tell("measuring")
        outcomes = self._workbench.measure([proposal.schedule for proposal in batch], is_over)
        ran = [pair for pair in zip(batch, outcomes, strict=True) if not pair[1].is_cancelled]
        for (proposal, outcome), record in zip(ran, self._journal.note(ran), strict=True):
            self._count(outcome)
            self._standings.note_tried(proposal.text)
            if outcome.measurement.verified and outcome.score_ms is not None:
                self._standings.add(Standing(proposal, record, outcome.score_ms))
        for schedule, score_ms in self._workbench.rescored():
            self._standings.rescore(schedule, score_ms)
        for fallen in self._workbench.fallen():
            if (standing := self._standings.find(fallen.schedule)) is not None:
                self._standings.drop(standing.proposal)
                self._journal.note([(standing.proposal, Outcome(fallen.measurement))])
        self._tell("measured")

    def _count(self, outcome: Outcome) -> None:
        if outcome.measurement.status is not Status.REFUSED:
            self.trials += 1
            self._clock.trials += 1

    def _best_without_race(self) -> Record | None:
        """The best by score; of what somebody else wrote only what is right at every size."""
        for standing in self._standings.ranked():
            if not standing.proposal.is_foreign:
                return standing.record
            if not self._is_cancelled() and not wrong_size(self.problem, standing.proposal, self._options):
                return replace(standing.record, is_verified=True)
        return None

    def _speedups(self, best: Record, finals: Sequence[Record]) -> dict[str, float]:
        """How many times as fast as the best of each origin: by the final race where both ran in it, else by score."""
        final_ms = median_ms(finals)
        own = next((s for s in self._standings if s.record.schedule_digest == best.schedule_digest), None)
        if own is None:
            return {}
        gains: dict[str, float] = {}
        for origin, standing in self._standings.by_origin().items():
            ms, best_ms = (final_ms.get(record.schedule_digest) for record in (standing.record, best))
            gains[origin] = ms / best_ms if ms and best_ms else standing.score_ms / own.score_ms
        return gains

    def _last_failure(self) -> str:
        failed = [record for record in self.history if record.status is not Status.OK]
        return f"{failed[-1].status.value}: {failed[-1].detail}" if failed else "nothing could be measured"

    def _tell(self, step: str) -> None:
        best = self._standings.best
        safe = self._standings.by_origin().get("safe")
        gain = None if best is None or safe is None else safe.score_ms / best.score_ms
        failed = [r for r in self.history if r.status not in (Status.OK, Status.REFUSED)]
        self._progress(
            TuningProgress(
                self.problem.label,
                step,
                trials=self.trials,
                failures=len(failed),
                best_ms=None if best is None else best.score_ms,
                speedup_over_safe=gain,
                seconds_left=self._clock.seconds_left,
                trials_left=self._clock.trials_left,
            )
        )


def _best_few(earlier: Sequence[Record]) -> list[Record]:
    """The best of what earlier runs measured, each schedule once."""
    found: list[Record] = []
    rest = list(earlier)
    while len(found) < _EARLIER and (best := best_of(rest)) is not None:
        found.append(best)
        rest = [record for record in rest if record.schedule_digest != best.schedule_digest]
    return found
