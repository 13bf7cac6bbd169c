"""One scheduler on one pipeline: a child process, and the measurement that grows with each step it survives.

In: the steps, in order. Out: a `Measurement`, whose status is that of the first step that failed. The child stays alive
after compiling, blocked on its pipe, so that several trials can be timed in turn.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import metol.errors
from metol.errors import GivenInputError, MetolError
from metol.measure import messages as m
from metol.measure.measurement import Measurement, Status
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError, physical_memory_bytes
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource
from metol.measure.timing import TimingPlan, has_settled, interval_of, median_of

if TYPE_CHECKING:
    from metol.measure.given_inputs import GivenInputs

__all__ = ["BusyTrials", "RunOptions", "Trial", "may_limit_memory", "status_of"]

# A child may take this share of the machine's memory: enough for any honest schedule, and the machine stays usable.
_MEMORY_SHARE = 0.75
# There where the driver of NVIDIA is.
_NVIDIA = Path("/proc/driver/nvidia")
# What Python, the C++ library, Halide's runtime, LLVM and the kernel (`Child`) say when there is none left, and what
# Halide says of an allocation that is larger than it can address.
_SIGNS_OF_MEMORY = ("MemoryError", "std::bad_alloc", "Out of memory", "out of memory", "want of memory", "maximum size")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How measurements are made."""

    threads: int = 2
    """Cores that a child is pinned to, and threads that its schedule has."""
    timeout_seconds: float = 300.0
    """For building, scheduling, compiling and verifying; timing has limits of its own."""
    target: str = "host"
    """The Halide target to schedule and compile for."""
    seed: int = 0
    """Seed of the random inputs."""
    timing: TimingPlan | None = field(default_factory=TimingPlan)
    """How long to time, with warm or cold caches, or None to verify only."""
    inputs: "GivenInputs | None" = None
    """What the user gives in place of random inputs: arrays at the estimated size, where they are timed, too; numbers
    at the awkward one as well. A `SizeChecker` has random inputs at every size."""
    memory_bytes: int | None = None
    """Address space that a child may take; three quarters of this machine's memory if None."""
    is_emulated: bool = False
    """Whether code for CUDA runs on the emulated GPU (`run_emulated`); nothing is timed there."""

    @property
    def is_on_device(self) -> bool:
        """Whether schedules run on a GPU, or an OpenCL device."""
        return bool({"cuda", "opencl"} & set(self.target.split("-")))

    def __post_init__(self) -> None:
        """Raise MetolError on a number that makes no sense."""
        if self.threads < 1:
            raise MetolError(f"Measuring needs at least 1 thread, not {self.threads}.")
        if not self.timeout_seconds > 0:  # nor NaN
            raise MetolError(f"The timeout must be positive, not {self.timeout_seconds:g} seconds.")


class Trial:
    """One scheduler on one pipeline, on its way to a measurement. Close it."""

    def __init__(self, source: PipelineSource, scheduler: Scheduler, options: RunOptions) -> None:
        self.measurement = Measurement(source.label, str(scheduler))
        self._source = source
        self._scheduler = scheduler
        self._options = options
        self._rounds: list[list[float]] = []
        self._timed_seconds = 0.0
        self.was_killed = False
        memory_bytes = options.memory_bytes or int(_MEMORY_SHARE * physical_memory_bytes())
        memory_bytes = memory_bytes if options.is_emulated or may_limit_memory(options.target) else 0
        self._child: Child | None = Child(threads=options.threads, memory_bytes=memory_bytes)

    @property
    def is_alive(self) -> bool:
        """Whether the child can still be asked."""
        return self._child is not None

    def printed(self) -> str:
        """Return all that the child has printed; nothing where it has died."""
        return "" if self._child is None else self._child.printed()

    def close(self) -> None:
        """Kill the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def kill(self) -> None:
        """Kill the child while another thread waits for it: what it was doing fails, and `was_killed` says why."""
        self.was_killed = True
        child = self._child
        if child is not None:
            child.kill()

    def compile(self, object_file: str = "") -> None:
        """Build, schedule and compile, to code that can run here or to an object file, which may be for any machine.

        Args:
            object_file: where it goes; empty for none.

        Raises:
            MetolError: the source names nothing that can be built; that is no outcome of the scheduler.
        """
        build = m.Build(str(self._source), self._options.target, self._options.is_emulated)
        built = self._ask(build, Status.SCHEDULE_FAILED, "building the pipeline", may_refuse=True)
        if isinstance(built, m.Failure):
            if built.is_users:
                self.close()
                raise getattr(metol.errors, built.error, MetolError)(built.message)
            self._fail(Status.SCHEDULE_FAILED, f"building the pipeline: {built.error}: {built.message}")
        schedule = m.ApplyScheduler(str(self._scheduler), self._options.threads)
        if (done := self._ask(schedule, Status.SCHEDULE_FAILED, "scheduling")) is not None:
            self.measurement = replace(self.measurement, schedule_seconds=done.seconds)
        request = m.CompileObject(object_file) if object_file else m.Compile()
        if (done := self._ask(request, Status.COMPILE_FAILED, "compiling")) is not None:
            self.measurement = replace(self.measurement, compile_seconds=done.seconds)

    def make_cases(self, folder: str) -> m.CasesMade | None:
        """Run the (reference) schedule on fresh cases and save them with its results; None where that failed.

        Args:
            folder: an existing one; each case becomes a folder in it, and what the user gives another.

        Raises:
            GivenInputError: what the user gives does not suit the pipeline; that is no outcome of the schedule.
        """
        given = ""
        if self._options.inputs is not None:
            given = str(Path(folder) / "given")
            self._options.inputs.save(Path(given))
        request, step = m.MakeCases(folder, self._options.seed, given), "running the reference"
        answer: m.CasesMade | m.Failure | None = self._ask(request, Status.RUN_FAILED, step, may_refuse=True)
        if isinstance(answer, m.Failure):
            if answer.error == GivenInputError.__name__:
                self.close()
                raise GivenInputError(answer.message)
            self._fail_of(answer, Status.RUN_FAILED, step)
            return None
        return answer

    def make_case(self, request: m.MakeCase) -> m.CasesMade | m.Failure | None:
        """Run the (reference) schedule at one size and save the case; None where that took too long, or died of it."""
        answer: m.CasesMade | m.Failure | None = self._ask(
            request, Status.RUN_FAILED, "running the reference", may_refuse=True
        )
        return answer

    def grow_inputs(self, request: m.GrowInputs) -> m.CasesMade | None:
        """Copy a case with inputs as large as this schedule's code demands; None where that failed."""
        answer: m.CasesMade | None = self._ask(request, Status.RUN_FAILED, "asking for its bounds")
        return answer

    def check(self, case: str) -> m.Verdict | m.Failure | None:
        """Run on one case and compare; None where that took too long, or died of it, as `measurement` tells."""
        answer: m.Verdict | m.Failure | None = self._ask(m.Verify(case), Status.RUN_FAILED, "running", may_refuse=True)
        return answer

    def judge(self, request: m.Verify) -> m.Verdict | None:
        """Compare what ran last on a case with something else than it expects; None where that cannot be done."""
        answer: m.Verdict | m.Failure | None = self._ask(request, Status.RUN_FAILED, "comparing again", may_refuse=True)
        return answer if isinstance(answer, m.Verdict) else None

    def recompute(self, request: m.Recompute) -> str:
        """Run on a case, and return the folder of a copy that expects the results; "" where there is none."""
        answer: m.CasesMade | m.Failure | None = self._ask(request, Status.RUN_FAILED, "running", may_refuse=True)
        return answer.cases[0] if isinstance(answer, m.CasesMade) and answer.cases else ""

    def renew_time(self) -> None:
        """Give it the whole time limit once more."""
        if self._child is not None:
            self._child.spent_seconds = self._timed_seconds

    def verify(
        self,
        cases: Sequence[str],
        note: str,
        judge_again: "Callable[[Trial, str, m.Verdict], m.Verdict] | None" = None,
    ) -> None:
        """Run on every case: `verified` if all are right.

        A wrong result or a crash at any size is a failure. That the code refuses the awkward size, with an error of
        Halide's, is not: it is right for the size it was made for, is timed, and stays unverified, unless one size is
        all that was asked for.

        Args:
            cases: The estimated size first.
            note: Told with what came of it.
            judge_again: Gives the verdict that counts where a result is not what a case expects.
        """
        texts = [note] if note else []
        is_verified = True
        must_refuse = self._scheduler.has_fixed_sizes
        for place, case in enumerate(cases):
            step = f"running at the {'awkward' if place else 'estimated'} size"
            verdict = self._ask(m.Verify(case), Status.RUN_FAILED, step, may_refuse=place > 0)
            if verdict is None:
                return
            if judge_again is not None and isinstance(verdict, m.Verdict) and not verdict.is_equal:
                verdict = judge_again(self, case, verdict)
                if not self.is_alive:
                    return
            if isinstance(verdict, m.Failure):
                is_verified = is_verified and must_refuse
                texts.append(f"{step}: {verdict.message}")
            elif not verdict.is_equal:
                self._fail(Status.WRONG_RESULT, verdict.text)
                return
            else:
                texts.append(verdict.text)
        self.measurement = replace(self.measurement, verified=is_verified, detail="; ".join(texts))

    def bind(self, case: str) -> None:
        """Get ready to be timed on a case, which several may do at once."""
        self._ask(m.Bind(case), Status.RUN_FAILED, "getting ready to be timed")

    def time_round(self, case: str, plan: TimingPlan, give_up_ms: float = 0.0) -> float | None:
        """Take one round of samples, and return its median; None where the code died of it.

        Args:
            case: what to run on.
            plan: how long.
            give_up_ms: a first run that takes longer, and longer than the round, is the only sample; 0 for none.
        """
        start = time.monotonic()
        request = m.Time(case, plan.round_seconds, plan.is_cold, give_up_ms)
        answer: m.Samples | None = self._ask(request, Status.RUN_FAILED, "timing")
        self._timed_seconds += time.monotonic() - start
        if answer is None:
            return None
        self._rounds.append(answer.run_ms)
        self._tell_rounds()
        return statistics.median(answer.run_ms)

    def forget_round(self) -> None:
        """Take the last round back."""
        self._rounds.pop()
        self._tell_rounds()

    def start_over(self) -> None:
        """Forget all rounds, and give back the time that was spent, for a race of its own."""
        self._rounds.clear()
        self._timed_seconds = 0.0
        if self._child is not None:
            self._child.spent_seconds = 0.0

    def _tell_rounds(self) -> None:
        """Make the measurement tell what the rounds are."""
        if not self._rounds:
            self.measurement = replace(self.measurement, run_ms=None, run_ms_samples=(), interval_ms=None)
            return
        samples = tuple(sample for samples in self._rounds for sample in samples)
        self.measurement = replace(
            self.measurement,
            run_ms=median_of(self._rounds).ms,
            run_ms_samples=samples,
            interval_ms=interval_of(self._rounds),
        )

    def is_timed(self, plan: TimingPlan) -> bool:
        """Whether the median is known, or will not become known any better."""
        return not self.is_alive or self.is_out_of_time(plan) or has_settled(self._rounds, plan)

    def is_out_of_time(self, plan: TimingPlan) -> bool:
        """Whether this trial has had all the timing that it may have."""
        count = len(self._rounds)
        return count >= plan.max_rounds or (count > 0 and self._timed_seconds >= plan.limit_seconds)

    def _ask(self, request: m.Request, status: Status, step: str, *, may_refuse: bool = False) -> Any:
        """Ask the child and return its answer; on any failure record it and return None.

        Args:
            request: what to do.
            status: what this row becomes if it cannot be done.
            step: the same for a person.
            may_refuse: return a `Failure` as an answer instead.
        """
        if self._child is None:
            return None
        try:
            spent_seconds = self._child.spent_seconds - self._timed_seconds
            answer = self._child.ask(request, self._options.timeout_seconds - spent_seconds)
        except ChildTimeoutError as error:
            limit = f"over {self._options.timeout_seconds:g} s, while {step}"
            self._fail(Status.TIMEOUT, ": ".join(filter(None, (limit, str(error)))))
            return None
        except ChildDiedError as error:
            hint = ": it touched memory outside of its buffers" if "SIGSEGV" in str(error) else ""
            self._fail(status_of(str(error), status), f"{step}: {error}{hint}")
            return None
        if isinstance(answer, m.Failure) and not may_refuse:
            self._fail_of(answer, status, step)
            return None
        return answer

    def _fail_of(self, answer: m.Failure, status: Status, step: str) -> None:
        """Record what the child answered as a failure, and end the child."""
        text = f"{answer.error}: {answer.message}"
        self._fail(status_of(text, status), f"{step}: {text}")

    def _fail(self, status: Status, detail: str) -> None:
        """Record a failure and end the child."""
        self.measurement = self.measurement.with_failure(status, detail)
        self.close()


class BusyTrials:
    """Trials that threads wait for, and that any other thread may end."""

    def __init__(self) -> None:
        self._trials: list[Trial] = []
        self._is_stopped = False

    @contextlib.contextmanager
    def waiting_for(self, trial: Trial) -> Iterator[None]:
        """Let `kill` end a trial while this thread waits for it; an exception ends it, too."""
        self._trials.append(trial)
        if self._is_stopped:
            trial.kill()
        try:
            yield
        except BaseException:
            trial.close()
            raise
        finally:
            self._trials.remove(trial)

    def kill(self) -> None:
        """End those that are waited for; who waits for one hears that it died."""
        for trial in tuple(self._trials):
            trial.kill()

    def stop(self) -> None:
        """End those that are waited for, and whatever will be."""
        self._is_stopped = True
        self.kill()


def may_limit_memory(target: str) -> bool:
    """Whether a child that runs code for a target can do with limited address space.

    The driver of CUDA reserves more addresses than there is memory, for that of the host and of all GPUs at once.
    """
    features = target.split("-")
    return not ("cuda" in features or ("opencl" in features and _NVIDIA.exists()))


def status_of(reason: str, status: Status) -> Status:
    """Return what became of a child: `status`, unless the reason is that memory ran out."""
    return Status.OUT_OF_MEMORY if any(sign in reason for sign in _SIGNS_OF_MEMORY) else status
