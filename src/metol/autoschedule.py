"""From a Halide pipeline to a schedule: the whole way, on one screen.

An hl.Pipeline enters; it leaves scheduled, with a `Result` that tells what was done and saves it. The pipeline is left
as it is until a schedule has been accepted, so that an error or an interruption costs nothing.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import halide as hl

from metol.candidates import ORIGINS, Choice, first_accepted
from metol.errors import ExtractionError, MetolError, MissingToolError
from metol.framing import buffer_sizes
from metol.heap import gives_back_memory
from metol.interrupts import uninterrupted
from metol.kernel_report import KernelReport
from metol.lower import LoweringOptions, Schedule
from metol.options import SearchOptions
from metol.pipeline import EstimateMap, strip_schedules
from metol.planner import Planner
from metol.targets import Machine
from metol.verification import Verification, missing_device, require_means, require_types, verify_for

__all__ = ["Result", "autoschedule"]

# Of `verify`: compile, and run nothing.
_KERNELS = "kernels"


@dataclass(frozen=True, slots=True)
class Result:
    """A schedule and how it was found."""

    schedule: Schedule
    """The schedule; it has been applied."""
    predicted_seconds: float
    """Run time that the cost model predicts; NaN for a schedule that no search found."""
    search_seconds: float
    """Wall-clock time of all that was done."""
    costing_seconds: float
    """Of that, the time in which candidates were generated and costed; the rest is reading the pipeline and having
    Halide lower schedules."""
    candidates: int
    """Loop nests that were generated and costed."""
    is_complete: bool
    """False where the time budget ended the search early."""
    pruned: tuple[tuple[str, int], ...]
    """Candidates that were illegal or hopeless, by reason."""
    verification: str = ""
    """What was compared with the reference schedule, and how closely, and which kernels were compiled; empty where
    nothing was verified."""
    is_compared: bool = False
    """Whether it was run, and found to agree with everything at root."""
    kernels: tuple[KernelReport, ...] = ()
    """What each kernel takes of the GPU, where a schedule for CUDA was verified."""
    origin: str = "search"
    """Where the schedule is from: ``search``, ``alternative`` (found by the search, not its best), ``narrower`` (by a
    search of a narrower space), ``safe``, ``root`` or ``none`` (no directives: everything is inline)."""
    fallbacks: tuple[str, ...] = ()
    """Why each schedule before this one was refused."""
    lower: Callable[[LoweringOptions], Schedule] | None = field(default=None, repr=False, compare=False)
    """Lowers the same loop nest by other rules, for measurements: what comes of it has been accepted by nobody. None
    where no search found the schedule, and in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        # What lowers again holds on to the pipeline, which stays where it is.
        return Result, tuple(None if each.name == "lower" else getattr(self, each.name) for each in fields(self))

    def to_python(self) -> str:
        """Return Python source that makes the same calls without Metol."""
        return self.schedule.to_python()

    def to_cpp(self) -> str:
        """Return a C++ header that makes the same calls without Metol."""
        return self.schedule.to_cpp()

    def save(self, path: str | Path) -> None:
        """Write the schedule, as `metol.load` reads it; as Python or C++ where the name ends so."""
        self.schedule.save(path)

    def summary(self) -> str:
        """Return one line for a person."""
        how = "" if self.is_complete else " (stopped early)"
        costed = f"{self.candidates} loop nests costed in {self.costing_seconds:.2f} s{how}"
        predicted = (
            "" if math.isnan(self.predicted_seconds) else f"predicted run time {self.predicted_seconds * 1e3:.3g} ms"
        )
        refused = len(self.fallbacks)
        fallback = f"{refused} schedule{'s' * (refused > 1)} refused, this is {ORIGINS[self.origin]}" if refused else ""
        return "; ".join(filter(None, (costed, predicted, fallback)))


@gives_back_memory
def autoschedule(
    pipeline: hl.Pipeline | hl.Func,
    *,
    target: str | hl.Target | None = None,
    estimates: EstimateMap | None = None,
    machine: Machine | None = None,
    gpu: str | None = None,
    options: SearchOptions | None = None,
    threads: int | None = None,
    verify: bool | Literal["kernels"] = False,
    keep: Sequence[hl.Func | str] | hl.Func | str = (),
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Result:
    """Find a schedule for a pipeline and apply it, in place of whatever schedule it carries.

    Args:
        pipeline: The pipeline, or the Func of its only output.
        target: A Halide target, as text or as an hl.Target; if None, the CPU of this machine, or CUDA where `gpu` names
            a GPU (OpenCL where that has no CUDA). ``cuda`` is short for ``host-cuda``, and ``opencl`` for
            ``host-opencl``.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.
        machine: The CPU or GPU to schedule for; if None, the calibrated description of this CPU, or this machine's GPU,
            and where a target has a GPU and this machine none, an RTX 2080 Ti or a later one.
        gpu: The name of the GPU to schedule for, such as ``h200``, in place of `machine`; docs/gpu_devices.md has all.
            Named by either, it gives a target with CUDA its compute capability, unless that states one.
        options: How to search; the defaults of SearchOptions if None.
        threads: Threads that the schedule will run with, and that search; all of this process if None.
        verify: Run the schedule in a child process and compare with everything at root, before applying it. Of one for
            CUDA, the kernels are compiled for the GPU to schedule for (extra `cuda`), and it is run where there is one;
            ``"kernels"`` leaves it at that, and runs nothing. One whose kernels spill registers gives way to the next
            best that does not.
        keep: Funcs, or their names, or a single one, that keep the schedule they have; all others are scheduled around
            them.
        is_cancelled: Asked now and then; True ends the search with the best found so far.

    Returns:
        The schedule, already applied.

    Raises:
        UndefinedPipelineError: A Func has no definition.
        MissingEstimateError: An output, input or parameter has no estimate.
        ContradictoryEstimateError: An estimate contradicts the pipeline.
        UnsupportedTargetError: Halide does not know the target, Metol does not, or the machine does not fit it: a GPU
            may not be of a lower compute capability than the target states, and a CPU is of its architecture and has no
            wider vectors.
        MachineFormatError: No GPU has the name given.
        ExtractionError: The pipeline does something that the search cannot describe, and Halide refuses it, too.
        SearchError: The options make no sense.
        MissingToolError: `verify` is asked for CUDA, and there is neither a GPU here nor NVIDIA's assembler.
        MissingDeviceError: `verify` is asked for OpenCL, and there is no device here.
        KeepError: A Func of `keep` is not in the pipeline, or its schedule names loops of one that is scheduled anew.
        MetolError: Halide refuses all there is to try, everything inline at last; the pipeline is as it was. Or
            `verify` is asked for what cannot be run from Python.
    """
    started = time.monotonic()
    planner = Planner(
        pipeline,
        options or SearchOptions(),
        target=target,
        estimates=estimates,
        machine=machine,
        gpu=gpu,
        threads=threads,
        keep=keep,
    )
    runs = verify != _KERNELS
    if isinstance(verify, str) and runs:
        raise MetolError(f"`verify` is True, False or `{_KERNELS}`, not `{verify}`.")
    if verify:
        require_means(planner.target, runs=runs)
        if runs:
            require_types(planner.frame)
    with planner.acceptance() as acceptance:
        found = planner.search(is_cancelled, foresee=acceptance.foresee)
        choice, refusals = first_accepted(
            planner.in_narrower_spaces(found.candidates, is_cancelled),
            planner.frame,
            acceptance.refusal,
            lambda schedule: _inspect(planner, schedule) if verify else Verification(),
            lambda schedule, found: _verify(planner, schedule, found) if verify and runs else found,
        )
    if choice is None:
        raise planner.read if isinstance(planner.read, ExtractionError) else _refused(planner.pipeline, refusals)

    with uninterrupted():
        strip_schedules(pipeline, [keep.func for keep in planner.kept])
        choice.schedule.apply(pipeline)
    return Result(
        schedule=choice.schedule,
        predicted_seconds=choice.candidate.cost_seconds,
        search_seconds=time.monotonic() - started,
        costing_seconds=found.seconds,
        candidates=found.count,
        is_complete=found.is_complete,
        pruned=found.pruned,
        verification=choice.verification.text,
        is_compared=choice.verification.is_compared,
        kernels=choice.verification.kernels,
        origin=choice.candidate.origin,
        fallbacks=found.refusals + refusals,
        lower=_lower_again(choice),
    )


def _lower_again(choice: Choice) -> Callable[[LoweringOptions], Schedule] | None:
    lower, schedule = choice.candidate.lower, choice.schedule
    return None if lower is None else lambda rules: replace(schedule, directives=lower(rules))


def _refused(pipeline: hl.Pipeline, refusals: Sequence[str]) -> MetolError:
    from metol.measure import promises_bounds, undefined_functions

    first, last = refusals[0], refusals[-1]
    advice = "See whether Halide compiles the pipeline with a schedule by hand, and report it if it does."
    if missing := undefined_functions(pipeline):
        advice = (
            f"Nothing here defines `{'` and `'.join(missing)}`: load the library that does with "
            "`ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)`, or schedule without `verify`."
        )
    elif ("wrong result" in last or "run failed" in last) and promises_bounds(pipeline):
        advice = (
            "The pipeline promises bounds with `unsafe_promise_clamped`, and inputs drawn at random may break them: "
            "schedule it without `verify`, and compare it on inputs of your own."
        )
    told = f"The last, {last}" if first == last else f"The first, {first}; the last, {last}"
    return MetolError(f"Every schedule of this pipeline is refused, and it is as it was. {told}. {advice}")


def _inspect(planner: Planner, schedule: Schedule) -> Verification:
    """What is known of a schedule that is not run; nothing where it is run for want of an assembler."""
    sizes = buffer_sizes(planner.read)
    try:
        return verify_for(
            planner.machine, planner.pipeline, schedule, sizes=sizes, estimates=planner.estimates, runs=False
        )
    except MissingToolError:
        if missing_device(planner.target):
            raise
        return Verification()


def _verify(planner: Planner, schedule: Schedule, inspected: Verification) -> Verification:
    return verify_for(
        planner.machine,
        planner.pipeline,
        schedule,
        sizes=buffer_sizes(planner.read),
        estimates=planner.estimates,
        kernels=inspected.kernels,
    )
