"""Measure many schedules of one pipeline at once: a few children compile and verify them, and then time them in turn.

In: a pipeline source and schedules. Out: a `Measurement` each. Made for training data: a child is shared by many
schedules, and results are compared at the estimated size alone. Whatever a schedule does to its process is its outcome,
and the others are compiled anew.
"""

import contextlib
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.holding import DeviceFailedError
from metol.measure.measurement import Measurement, Status
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError, physical_memory_bytes
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource
from metol.measure.trial import RunOptions, Trial, may_limit_memory, status_of

__all__ = ["TogetherPlan", "measure_together"]

# All children together may have this share of the machine's memory.
_MEMORY_SHARE = 0.75
# Each has some hundreds of MB of the device's memory for itself, before it holds any schedule.
_MOST_ON_DEVICE = 8
_LATE = "there was no time left to compile it"


@dataclass(frozen=True, slots=True)
class TogetherPlan:
    """How long schedules are timed."""

    rounds: int = 3
    """Rounds of samples, all schedules in turn in each of them; a time is that of the quickest, by its median, for what
    disturbs only ever adds."""
    most_rounds: int = 10
    """Rounds after which a time is taken as it is; those beyond `rounds` are for schedules that were disturbed."""
    agreement: float = 0.02
    """The two quickest rounds are to differ by no more than this share."""
    round_seconds: float = 0.02
    """A round takes samples for this long, and at least one."""
    patience: float = 5.0
    """Whoever takes so many times as long as the fastest has two rounds: what one says may be a disturbance alone."""
    most_ms: float = 1000.0
    """Whoever takes longer than this is not timed any better than by its first run."""
    compile_seconds: float = math.inf
    """After which no further schedule is compiled."""

    def __post_init__(self) -> None:
        """Raise MetolError where nothing would be timed."""
        if self.most_rounds < self.rounds:
            raise MetolError(f"Schedules are timed in {self.rounds} rounds or more, not in {self.most_rounds} at most.")
        if self.rounds < 1:
            raise MetolError(f"Schedules are timed in at least 1 round, not {self.rounds}.")


def measure_together(
    source: PipelineSource, schedules: Sequence[Schedule], options: RunOptions, plan: TogetherPlan | None = None
) -> tuple[Measurement, ...]:
    """Measure schedules of one pipeline, which are verified at its estimated size.

    Args:
        source: the pipeline.
        schedules: what to measure.
        options: how to run; the time limit is for one schedule.
        plan: how long to time.

    Returns:
        A measurement each, in the order given; its samples are the medians of the rounds. What there was no time to
        compile was refused.

    Raises:
        MetolError: the pipeline cannot be built, or its reference fails.
    """
    with tempfile.TemporaryDirectory(prefix="metol-") as folder, contextlib.ExitStack() as stack:
        case = _reference(source, options, folder)
        team = stack.enter_context(_Team(source, options, case))
        rows: dict[int, Measurement] = {}
        plan = plan or TogetherPlan()
        end = time.monotonic() + plan.compile_seconds
        # A schedule that crashes while it is timed takes others along: these are compiled once more. It is settled
        # then, so that each turn settles at least one.
        while missing := [number for number in range(len(schedules)) if number not in rows]:
            team.compile({number: schedules[number] for number in missing}, rows, end)
            team.time(plan, rows)
        return tuple(rows[number] for number in range(len(schedules)))


def _reference(source: PipelineSource, options: RunOptions, folder: str) -> str:
    """Let the reference compute what is right; the folder of the case."""
    trial = Trial(source, Scheduler("reference"), options)
    with contextlib.closing(trial):
        trial.compile()
        cases = trial.make_cases(folder)
    if cases is None:
        raise MetolError(f"The reference of {source.label}, everything at root, fails: {trial.measurement.problem}")
    return cases.cases[0]


@dataclass(slots=True)
class _Held:
    """A schedule that waits in a child to be timed."""

    number: int
    slot: int
    row: Measurement
    first_ms: float
    rounds: tuple[float, ...] = ()


class _Member:
    """One child, and what it holds."""

    def __init__(self, source: PipelineSource, options: RunOptions, case: str, memory_bytes: int) -> None:
        self._source = source
        self._options = options
        self._case = case
        self._memory_bytes = memory_bytes
        self._child: Child | None = None
        self.held: list[_Held] = []

    def compile(self, number: int, schedule: Schedule) -> Measurement | None:
        """Hold a schedule; its row where that failed."""
        row = Measurement(self._source.label, f"#{number}")
        try:
            if self._child is None:
                self._start()
            answer = self._ask(m.Hold(schedule.to_json(), self._case), self._options.timeout_seconds)
        except ChildTimeoutError:
            self.close()
            return row.with_failure(Status.TIMEOUT, f"over {self._options.timeout_seconds:g} s")
        except ChildDiedError as death:
            self.close()
            return row.with_failure(status_of(str(death), Status.RUN_FAILED), str(death))
        if isinstance(answer, m.Failure):
            text = f"{answer.error}: {answer.message}"
            if answer.error == DeviceFailedError.__name__:
                self.close()  # what else it holds may fail for the same reason, and is compiled anew
                return row.with_failure(status_of(text, Status.RUN_FAILED), text)
            return row.with_failure(status_of(text, Status.COMPILE_FAILED), text)
        row = replace(row, compile_seconds=answer.compile_seconds)
        if answer.problem:
            return row.with_failure(Status.WRONG_RESULT, answer.problem)
        self.held.append(_Held(number, answer.number, row, answer.first_ms))
        return None

    def time(self, held: _Held, seconds: float, give_up_ms: float) -> bool:
        """Take a round; False where it failed: it is not held any more then, nor anyone else where the child died."""
        try:
            answer = self._ask(m.TimeHeld(held.slot, seconds, give_up_ms), self._options.timeout_seconds)
        except (ChildTimeoutError, ChildDiedError) as death:
            held.row = held.row.with_failure(Status.RUN_FAILED, f"timing: {death}")
            self.close()
            return False
        if isinstance(answer, m.Failure):
            held.row = held.row.with_failure(Status.RUN_FAILED, f"timing: {answer.error}: {answer.message}")
            self.held.remove(held)
            return False
        held.rounds += (statistics.median(answer.run_ms),)
        return True

    def close(self) -> None:
        """End the child; what it held must be compiled anew."""
        self.held = []
        if self._child is not None:
            self._child.close()
            self._child = None

    def _start(self) -> None:
        self._child = Child(threads=self._options.threads, memory_bytes=self._memory_bytes)
        built = self._ask(m.Build(str(self._source), self._options.target), self._options.timeout_seconds)
        if isinstance(built, m.Failure):
            raise MetolError(f"{self._source.label}: {built.message}")

    def _ask(self, request: m.Request, seconds: float) -> Any:
        assert self._child is not None
        return self._child.ask(request, seconds)


class _Team:
    """As many children as there are cores. A context manager: leaving it ends them."""

    def __init__(self, source: PipelineSource, options: RunOptions, case: str) -> None:
        count = max(1, len(os.sched_getaffinity(0)))
        if options.is_on_device:
            count = min(count, _MOST_ON_DEVICE)
        memory_bytes = int(_MEMORY_SHARE * physical_memory_bytes() / count) if may_limit_memory(options.target) else 0
        self._members = [_Member(source, options, case, memory_bytes) for _ in range(count)]
        self._label = source.label
        # A child dies with the thread that started it, and these live as long as the team.
        self._workers = ThreadPoolExecutor(max_workers=count)
        self._lock = threading.Lock()

    def __enter__(self) -> "_Team":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.close()
        self._workers.shutdown()

    def compile(self, schedules: dict[int, Schedule], rows: dict[int, Measurement], end: float = math.inf) -> None:
        """Compile and verify on all cores, until `end` by the clock; failures become rows, and so does who is late."""
        for member in self._members:
            # Those of an earlier turn that were timed are done.
            member.held = []
        waiting = list(reversed(schedules))

        def work(member: _Member) -> None:
            while True:
                with self._lock:
                    if not waiting:
                        return
                    number = waiting.pop()
                    if time.monotonic() >= end:
                        rows[number] = Measurement(self._label, f"#{number}").with_failure(Status.REFUSED, _LATE)
                        continue
                held = [one.number for one in member.held]
                try:
                    failed = member.compile(number, schedules[number])
                except MetolError:
                    with self._lock:
                        waiting.clear()
                    raise
                with self._lock:
                    if failed is not None:
                        rows[number] = failed
                    if failed is not None and not member.held:
                        waiting.extend(held)

        # All have ended before an error leaves, for whoever catches it closes their children.
        for future in wait([self._workers.submit(work, member) for member in self._members]).done:
            future.result()

    def time(self, plan: TogetherPlan, rows: dict[int, Measurement]) -> None:
        """Time what is held, one at a time; what is known in the end becomes rows."""
        fastest_ms = min((held.first_ms for _, held in self._pairs()), default=0.0)
        for _ in range(plan.most_rounds):
            for member, held in list(self._pairs()):
                if held.first_ms > plan.most_ms and not held.rounds:
                    held.rounds = (held.first_ms,)
                if self._is_known(held, plan, fastest_ms) or held not in member.held:  # or its child is dead
                    continue
                if not member.time(held, plan.round_seconds, plan.patience * fastest_ms):
                    rows[held.number] = held.row
                elif held.rounds:
                    fastest_ms = min(fastest_ms, *held.rounds)
        for _, held in self._pairs():
            if held.rounds and held.number not in rows:
                rows[held.number] = replace(held.row, run_ms=min(held.rounds), run_ms_samples=held.rounds)

    @staticmethod
    def _is_known(held: _Held, plan: TogetherPlan, fastest_ms: float) -> bool:
        """Tell whether another round would tell anything new."""
        if not held.rounds:
            return False
        if held.first_ms > plan.most_ms:
            return True
        if len(held.rounds) > 1 and min(held.rounds) > plan.patience * fastest_ms:
            return True
        if len(held.rounds) < max(2, plan.rounds):
            return len(held.rounds) >= plan.rounds
        quickest, second = sorted(held.rounds)[:2]
        return second <= (1 + plan.agreement) * quickest

    def _pairs(self) -> Iterator[tuple[_Member, _Held]]:
        for member in self._members:
            for held in member.held:
                yield member, held
