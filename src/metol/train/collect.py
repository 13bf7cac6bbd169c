"""Collect samples: random programs are drawn, scheduled in many ways, measured, and written down, one after the other.

In: seeds and a budget. Out: lines in a folder, each as soon as its program is done; whoever starts again goes on
where it ended. Source: Adams et al. 2019, §5.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metol.cost_choice import ANALYTICAL
from metol.destinations import hold_folder
from metol.errors import MetolError, UnsupportedTargetError, WeightsError
from metol.measure import Measurement, PipelineSource, RunOptions, Status, TogetherPlan, measure_together
from metol.options import SearchOptions
from metol.planner import Planner
from metol.provenance import metol_version
from metol.targets import Machine, choose_machine, parse_target
from metol.targets.gpu import GpuMachine
from metol.train.draw import Drawn, DrawPlan, draw_nests
from metol.train.samples import ProgramSamples, Sample, SampleFiles, sample_id
from metol.tune import TuningBudget, machine_identity

__all__ = ["CollectPlan", "Collector"]

# A short search: what matters is that its result is among the samples, not that it is the best.
# Sizes are fixed, for code for any size takes three to five times as long to compile, and runs as fast.
_SEARCH = SearchOptions(
    beam_width=8, passes=1, discrepancies=False, restarts=False, budget_seconds=1.0, fixed_sizes=True
)
_KEPT_DETAIL = 200
# With fewer schedules a program whose time ran out is left for another time.
_WORTH_KEEPING = 8
# A GPU is some 30 times as fast as two cores; what takes it less time than to launch a few kernels tells nothing else.
_GPU_SIZES = (4, 16, 32)
_GPU_RUN_MS = (0.02, 50.0)


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """What is collected."""

    first_seed: int = 0
    """Seed of the first program; the others follow."""
    least_funcs: int = 3
    """Funcs of a program, at least."""
    most_funcs: int = 40
    """Where programs stop growing."""
    sizes: tuple[int, ...] = (1, 4, 16, 32)
    """How large programs are, one after the other, as `random_program` has it: so that some fit into each cache, and
    some into none."""
    run_ms: tuple[float, float] = (0.1, 100.0)
    """How long the predicted best of a program may take: what is quicker tells about the clock, not about schedules,
    and what is slower takes time that many others could have. In milliseconds, with a margin of two for the model."""
    threads: int = 2
    """Threads that schedules run with."""
    target: str = "host"
    """The Halide target, such as ``cuda``."""
    gpu: str | None = None
    """The name of the GPU, if the drivers' own description of it is not to be used."""
    program_seconds: float = math.inf
    """After which no more schedules of a program are compiled."""
    timeout_seconds: float = 30.0
    """For compiling and running one schedule."""
    weights: str = ANALYTICAL
    """What guides the draws, as `SearchOptions.weights` has it."""
    generation: int = 0
    """Rounds of training before: programs that another generation has measured are measured again."""
    draw: DrawPlan = field(default_factory=DrawPlan)
    """How schedules are drawn."""
    timing: TogetherPlan = field(default_factory=TogetherPlan)
    """How they are timed."""

    def for_target(self, target: str, gpu: str | None = None) -> "CollectPlan":
        """Return the plan for a target, with programs that are large enough for a GPU where it has one."""
        if not parse_target(target).has_gpu_feature():
            return replace(self, target=target, gpu=gpu)
        return replace(self, target=target, gpu=gpu, sizes=_GPU_SIZES, run_ms=_GPU_RUN_MS)

    def source(self, seed: int) -> PipelineSource:
        """Return the program of a seed."""
        size = self.sizes[seed % len(self.sizes)]
        limits = f"least_funcs={self.least_funcs}/most_funcs={self.most_funcs}"
        return PipelineSource.parse(f"random:{seed}/{limits}/size={size}")

    def suits(self, predicted_ms: float) -> bool:
        """Tell whether a program's best may take so long."""
        low, high = self.run_ms
        return low / 2 <= predicted_ms <= high * 2


class Collector:
    """Collects samples into a folder."""

    def __init__(self, files: SampleFiles, plan: CollectPlan) -> None:
        """Get ready.

        Args:
            files: Where samples go; programs that are there are not measured again.
            plan: What to collect.

        Raises:
            MachineFormatError: the plan names a GPU that there is not.
            UnsupportedTargetError: the target is none of Metol's, or the GPU named is not the one that is here.
        """
        self._files = files
        self._plan = plan
        target = parse_target(plan.target)
        here = choose_machine(target, threads=plan.threads)
        self._machine = machine_identity(here)
        self._described = choose_machine(target, gpu=plan.gpu, threads=plan.threads)
        _require_alike(self._described, here)

    def run(
        self,
        budget: TuningBudget,
        sources: Sequence[PipelineSource] = (),
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        with_random: bool = False,
    ) -> Iterator[ProgramSamples]:
        """Measure one program after the other until the budget is spent, and yield each; trials count programs.

        Args:
            budget: When to end.
            sources: What to measure, in place of random programs.
            is_cancelled: Asked between programs.
            with_random: Whether random programs take turns with the sources, and go on after them.

        Raises:
            MetolError: another process collects into the same folder, or it cannot be written.
            WeightsError: the weights that are to guide the draws cannot be read, or are for another target.
        """
        with hold_folder(self._files.folder):
            yield from self._run(budget, sources, is_cancelled, with_random=with_random)

    def _run(
        self,
        budget: TuningBudget,
        sources: Sequence[PipelineSource],
        is_cancelled: Callable[[], bool],
        *,
        with_random: bool,
    ) -> Iterator[ProgramSamples]:
        end = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        known = self._files.programs(str(self._machine.get("gpu", "")))
        done = 0
        for seed, source in self._programs(sources, with_random=with_random):
            left_seconds = end - time.monotonic()
            if left_seconds <= 0 or (budget.trials is not None and done >= budget.trials) or is_cancelled():
                return
            if (str(source), self._plan.generation) in known:
                continue
            program = self.measure(source, seed, is_any_time_right=source in sources, limit_seconds=left_seconds)
            if program is None:
                return
            self._files.append(program, self._described)
            done += bool(program.samples)
            yield program

    def _programs(
        self, sources: Sequence[PipelineSource], *, with_random: bool
    ) -> Iterator[tuple[int, PipelineSource]]:
        drawn = ((seed, self._plan.source(seed)) for seed in itertools.count(self._plan.first_seed))
        for numbered in enumerate(sources):
            yield numbered
            if with_random:
                yield next(drawn)
        if with_random or not sources:
            yield from drawn

    def measure(
        self, source: PipelineSource, seed: int, *, is_any_time_right: bool = False, limit_seconds: float = math.inf
    ) -> ProgramSamples | None:
        """Draw and measure the schedules of one program; without samples where it is of no use, as the note says.

        Returns:
            The program; None where the limit ended it too early to be worth keeping.
        """
        plan = self._plan
        try:
            options = replace(_SEARCH, weights=plan.weights)
            planner = Planner(
                source.build(), options, target=plan.target, machine=self._described, threads=plan.threads
            )
            found = planner.search()
            if found.result is None:
                return self._program(source, planner, note="; ".join(found.refusals))
            predicted_ms = 1e3 * found.result.cost_seconds
            if not (is_any_time_right or plan.suits(predicted_ms)):
                return self._program(source, planner, note=f"predicted to take {predicted_ms:.3g} ms")
            drawn = draw_nests(planner, found, planner.model, plan.draw, seed)
            run = RunOptions(
                threads=plan.threads, timeout_seconds=plan.timeout_seconds, target=planner.target, seed=seed
            )
            seconds = min(plan.program_seconds, limit_seconds)
            rows = measure_together(
                source, [one.schedule for one in drawn], run, replace(plan.timing, compile_seconds=seconds)
            )
        except WeightsError:  # of no program, and the same for all
            raise
        except MetolError as error:
            return self._program(source, None, note=str(error)[:_KEPT_DETAIL])
        key = planner.frame.algorithm_hash, planner.target
        # Those that are refused are those that there was no time for.
        samples = tuple(
            _sample(key, one, row) for one, row in zip(drawn, rows, strict=True) if row.status is not Status.REFUSED
        )
        if len(samples) < min(len(drawn), _WORTH_KEEPING):
            note = f"{len(samples)} of its schedules were compiled in {seconds:.0f} s"
            return None if limit_seconds < plan.program_seconds else self._program(source, planner, note=note)
        return self._program(source, planner, samples)

    def _program(
        self, source: PipelineSource, planner: Planner | None, samples: tuple[Sample, ...] = (), note: str = ""
    ) -> ProgramSamples:
        versions: dict[str, Any] = {"metol": metol_version(), "halide": planner.frame.halide_version if planner else ""}
        return ProgramSamples(
            program=str(source),
            algorithm=planner.frame.algorithm_hash if planner else "",
            machine=self._machine,
            target=planner.target if planner else str(self._machine["target"]),
            threads=self._plan.threads,
            versions=versions,
            has_fixed_sizes=_SEARCH.fixed_sizes,
            generation=self._plan.generation,
            samples=samples,
            note=note,
        )


def _require_alike(described: Machine, here: Machine) -> None:
    """Raise UnsupportedTargetError where a GPU that was named cannot be the one that is here."""
    if not (isinstance(described, GpuMachine) and isinstance(here, GpuMachine)) or here.capability.version is None:
        return
    one, other = ((gpu.multiprocessors, str(gpu.capability)) for gpu in (described, here))
    if one != other:
        raise UnsupportedTargetError(
            f"`{described.name}` has {one[0]} multiprocessors of compute capability {one[1]}, and the GPU here, "
            f"`{here.name}`, has {other[0]} of {other[1]}: it is another one. Leave the name out."
        )


def _sample(key: tuple[str, str], drawn: Drawn, row: Measurement) -> Sample:
    text = drawn.nest.to_json()
    return Sample(
        id=sample_id(*key, text),
        origin=drawn.origin,
        nest=text,
        status=row.status,
        rounds_ms=tuple(round(ms, 6) for ms in row.run_ms_samples),
        compile_seconds=None if row.compile_seconds is None else round(row.compile_seconds, 3),
        detail="" if row.status is Status.OK else row.detail[:_KEPT_DETAIL],
    )
