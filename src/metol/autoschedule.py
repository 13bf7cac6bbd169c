"""From a Halide pipeline to a schedule: the whole way, on one screen.

An hl.Pipeline enters; it leaves scheduled, with a `Result` that tells what was done and saves it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import halide as hl

from metol import _core
from metol.errors import ExtractionError, MetolError
from metol.lower import Estimate, Schedule, describe_funcs, rewritten_directives, target_directives
from metol.measure import RunOptions, verify_schedule
from metol.options import SearchOptions
from metol.pipeline import EstimateMap, PipelineDag, Rfactor, extract, strip_schedules
from metol.provenance import metol_version
from metol.search import BeamSearch, Budget, Form, Rewriting, search_forms
from metol.targets import Machine, choose_machine, machine_parameters, parse_target, propose_rfactors

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
    machine: Machine | None = None,
    options: SearchOptions | None = None,
    threads: int | None = None,
    verify: bool = False,
) -> Result:
    """Find a schedule for a pipeline and apply it, in place of whatever schedule it carries.

    Args:
        pipeline: The pipeline, or the Func of its only output.
        target: A Halide target, as text or as an hl.Target: a CPU, or a GPU by `cuda` or `opencl`; this CPU if None.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.
        machine: The machine to schedule for; the calibrated description of this CPU, or a common GPU, if None.
        options: How to search; a beam of 32 and 15 seconds at most if None.
        threads: Threads that the schedule will run with, and that search; all of this process if None.
        verify: Run the schedule in a child process and compare with everything at root, before applying it.

    Returns:
        The schedule, already applied.

    Raises:
        UndefinedPipelineError: A Func has no definition.
        MissingEstimateError: An output, input or parameter has no estimate.
        ContradictoryEstimateError: An estimate contradicts the pipeline.
        UnsupportedTargetError: Halide does not know the target, Metol does not, or the machine does not fit it.
        ExtractionError: The pipeline does something that the search cannot describe.
        SearchError: The options make no sense.
        MetolError: The schedule was to be verified and does not compile, run, or give the right result.
    """
    started = time.monotonic()
    options = options or SearchOptions()
    parsed_target = parse_target(target)
    target_text = str(parsed_target.to_string())
    dag = extract(pipeline, estimates, target=target_text)
    machine = choose_machine(parsed_target, machine, threads=threads)
    start = _form(dag, machine, ())
    budget = Budget.start(options.budget_seconds)
    rewriting = _rewriting(pipeline, estimates, machine) if options.rfactor else None
    form, found = search_forms(start, rewriting, options.make(), _core.CostModel(), budget)

    strip_schedules(pipeline)
    funcs = describe_funcs(pipeline if isinstance(pipeline, hl.Pipeline) else hl.Pipeline(pipeline))
    schedule = Schedule(
        funcs=funcs,
        directives=rewritten_directives(
            form.dag,
            form.rfactors,
            target_directives(machine, form.dag, found.state.describe(), options.lowering),
            len(funcs),
        ),
        target=target_text,
        estimates=_estimates(dag),
        algorithm_hash=f"{dag.algorithm_hash:016x}",
        halide_version=metadata.version("halide"),
        metol_version=metol_version(),
    )
    verification = _verified(pipeline, schedule, machine.host_threads) if verify else ""
    schedule.apply(pipeline)
    return Result(
        schedule=schedule,
        predicted_seconds=found.cost_seconds,
        search_seconds=time.monotonic() - started,
        candidates=found.candidates,
        is_complete=found.is_complete,
        pruned=tuple((reason, count) for reason, count in form.space.pruned_counts().items() if count),
        verification=verification,
    )


def _form(dag: PipelineDag, machine: Machine, rfactors: tuple[Rfactor, ...]) -> Form:
    return Form(
        dag, _core.Space(dag, machine_parameters(machine, dag), _core.SpaceOptions(), machine.host_threads), rfactors
    )


def _rewriting(pipeline: object, estimates: EstimateMap | None, machine: Machine) -> Rewriting:
    """Return how to read and what to propose of the pipelines that this one becomes by rfactor."""

    def read(rfactors: tuple[Rfactor, ...]) -> Form | None:
        try:
            return _form(extract(pipeline, estimates, rfactors=rfactors), machine, rfactors)
        except ExtractionError:  # Halide alone knows whether an update can be factored
            return None

    def propose(
        dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
    ) -> tuple[Rfactor, ...]:
        return propose_rfactors(machine, dag, schedules, stages)

    return Rewriting(read, propose, quick=BeamSearch(width=1))


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


def _estimates(dag: PipelineDag) -> tuple[Estimate, ...]:
    regions = tuple(
        Estimate(func.name.split("$")[0], tuple((i.min, i.extent) for i in func.estimate))
        for func in dag.funcs
        if func.estimate
    )
    scalars = tuple(Estimate(p.name, value=p.estimate) for p in dag.parameters if p.estimate is not None)
    return regions + scalars
