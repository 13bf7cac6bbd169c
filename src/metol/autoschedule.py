"""From a Halide pipeline to a schedule: the whole way, on one screen.

An hl.Pipeline enters; it leaves scheduled, with a `Result` that tells what was done and saves it.
"""

import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import halide as hl

from metol import _core
from metol.errors import MetolError, UnsupportedTargetError
from metol.lower import Estimate, Schedule, cpu_directives, describe_funcs
from metol.measure import RunOptions, verify_schedule
from metol.options import SearchOptions
from metol.pipeline import EstimateMap, PipelineDag, extract, strip_schedules
from metol.provenance import metol_version
from metol.search import Budget
from metol.targets.cpu import CpuMachine, cpu_parameters

__all__ = ["Result", "autoschedule"]


@dataclass(frozen=True, slots=True)
class Result:
    """A schedule and how it was found."""

    schedule: Schedule
    """The schedule; it has been applied."""
    predicted_seconds: float
    """Run time that the cost model predicts."""
    search_seconds: float
    """Wall-clock time of extraction, search and lowering together."""
    candidates: int
    """Loop nests that were generated and costed."""
    is_complete: bool
    """False where the time budget ended the search early."""
    pruned: tuple[tuple[str, int], ...]
    """Candidates that were illegal or hopeless, by reason."""
    verification: str = ""
    """What was compared with the reference schedule, and how closely; empty where nothing was verified."""

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
        how = "" if self.is_complete else " (stopped by the time budget)"
        return (
            f"{self.candidates} loop nests costed in {self.search_seconds:.2f} s{how}; "
            f"predicted run time {self.predicted_seconds * 1e3:.3g} ms"
        )


def autoschedule(
    pipeline: hl.Pipeline | hl.Func,
    *,
    target: str | hl.Target | None = None,
    estimates: EstimateMap | None = None,
    machine: CpuMachine | None = None,
    options: SearchOptions | None = None,
    threads: int | None = None,
    verify: bool = False,
) -> Result:
    """Find a schedule for a pipeline and apply it, in place of whatever schedule it carries.

    Args:
        pipeline: The pipeline, or the Func of its only output.
        target: A Halide target for a CPU, as text or as an hl.Target; this machine if None.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.
        machine: The CPU to schedule for; the calibrated description of this one if None.
        options: How to search; a beam of 32 and 15 seconds at most if None.
        threads: Threads that the schedule will run with, and that search; all of this process if None.
        verify: Run the schedule in a child process and compare with everything at root, before applying it.

    Returns:
        The schedule, already applied.

    Raises:
        UndefinedPipelineError: A Func has no definition.
        MissingEstimateError: An output, input or parameter has no estimate.
        UnsupportedTargetError: The target is not a CPU, or Halide does not know it.
        ExtractionError: The pipeline does something that the search cannot describe.
        SearchError: The options make no sense.
        MetolError: The schedule was to be verified and does not compile, run, or give the right result.
    """
    started = time.monotonic()
    options = options or SearchOptions()
    target_text = _cpu_target(target)
    dag = extract(pipeline, estimates, target=target_text)
    machine = machine or CpuMachine.detect(target_text, threads=threads)
    space = _core.Space(dag, cpu_parameters(machine, dag), _core.SpaceOptions(), machine.cores)
    found = options.make().search(space, _core.CostModel(), Budget.start(options.budget_seconds))

    strip_schedules(pipeline)
    funcs = describe_funcs(pipeline if isinstance(pipeline, hl.Pipeline) else hl.Pipeline(pipeline))
    schedule = Schedule(
        funcs=funcs,
        directives=cpu_directives(
            dag,
            found.state.describe(),
            fixed_sizes=options.fixed_sizes,
            specialize_estimate=options.specialize_estimate,
        ),
        target=target_text,
        estimates=_estimates(dag),
        algorithm_hash=f"{dag.algorithm_hash:016x}",
        halide_version=metadata.version("halide"),
        metol_version=metol_version(),
    )
    verification = _verified(pipeline, schedule, machine.cores) if verify else ""
    schedule.apply(pipeline)
    return Result(
        schedule=schedule,
        predicted_seconds=found.cost_seconds,
        search_seconds=time.monotonic() - started,
        candidates=found.candidates,
        is_complete=found.is_complete,
        pruned=tuple((reason, count) for reason, count in space.pruned_counts().items() if count),
        verification=verification,
    )


def _verified(pipeline: hl.Pipeline | hl.Func, schedule: Schedule, threads: int) -> str:
    """Verify a schedule on a pipeline that carries none yet, and tell what was compared."""
    whole = pipeline if isinstance(pipeline, hl.Pipeline) else hl.Pipeline(pipeline)
    row = verify_schedule(whole, schedule, options=RunOptions(threads=threads, target=schedule.target, timing=None))
    if not row.is_ok:
        raise MetolError(
            f"The schedule found is {row.status.value.replace('_', ' ')} and has not been applied: {row.detail}. "
            "Please report it, with the pipeline."
        )
    return row.detail


def _cpu_target(target: str | hl.Target | None) -> str:
    """Return the target as text, after checking that it is a CPU."""
    try:
        parsed: Any = hl.get_host_target() if target is None else hl.Target(str(target))
    except (hl.HalideError, RuntimeError) as error:
        raise UnsupportedTargetError(f"Halide does not know the target `{target}`: {error}") from error
    if parsed.has_gpu_feature():
        raise UnsupportedTargetError(
            f"The target `{parsed.to_string()}` has a GPU; this version of Metol schedules for CPUs. "
            "Leave the GPU feature out, as in `host`."
        )
    return str(parsed.to_string())


def _estimates(dag: PipelineDag) -> tuple[Estimate, ...]:
    regions = tuple(
        Estimate(func.name.split("$")[0], tuple((i.min, i.extent) for i in func.estimate))
        for func in dag.funcs
        if func.estimate
    )
    scalars = tuple(Estimate(p.name, value=p.estimate) for p in dag.parameters if p.estimate is not None)
    return regions + scalars
