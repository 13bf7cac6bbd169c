"""Collect samples: random programs are drawn, scheduled in many ways, measured, and written down, one after the other.

In: seeds and a budget. Out: lines in a folder, each as soon as its program is done; whoever starts again goes on
where it ended. Source: Adams et al. 2019, §5.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metol.cost_choice import ANALYTICAL
from metol.errors import MetolError
from metol.measure import Measurement, PipelineSource, RunOptions, Status, TogetherPlan, measure_together
from metol.options import SearchOptions
from metol.planner import Planner
from metol.provenance import metol_version
from metol.targets.cpu import CpuMachine
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
        """
        self._files = files
        self._plan = plan
        self._machine = machine_identity()
        self._described = CpuMachine.detect(threads=plan.threads)

    def run(
        self,
        budget: TuningBudget,
        sources: Sequence[PipelineSource] = (),
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[ProgramSamples]:
        """Measure one program after the other until the budget is spent, and yield each; trials count programs.

        Args:
            budget: When to end.
            sources: What to measure, in place of random programs.
            is_cancelled: Asked between programs.
        """
        started = time.monotonic()
        known = self._files.programs()
        done = 0
        for seed, source in self._programs(sources):
            is_late = budget.seconds is not None and time.monotonic() - started >= budget.seconds
            if is_late or (budget.trials is not None and done >= budget.trials) or is_cancelled():
                return
            if (str(source), self._plan.generation) in known:
                continue
            program = self.measure(source, seed, is_any_time_right=bool(sources))
            self._files.append(program, self._described)
            done += bool(program.samples)
            yield program

    def _programs(self, sources: Sequence[PipelineSource]) -> Iterator[tuple[int, PipelineSource]]:
        if sources:
            yield from enumerate(sources)
            return
        for seed in itertools.count(self._plan.first_seed):
            yield seed, self._plan.source(seed)

    def measure(self, source: PipelineSource, seed: int, *, is_any_time_right: bool = False) -> ProgramSamples:
        """Draw and measure the schedules of one program; without samples where it is of no use, as the note says."""
        try:
            options = replace(_SEARCH, weights=self._plan.weights)
            planner = Planner(source.build(), options, threads=self._plan.threads)
            found = planner.search()
            if found.result is None:
                return self._program(source, planner, note="; ".join(found.refusals))
            predicted_ms = 1e3 * found.result.cost_seconds
            if not (is_any_time_right or self._plan.suits(predicted_ms)):
                return self._program(source, planner, note=f"predicted to take {predicted_ms:.3g} ms")
            drawn = draw_nests(planner, found, planner.model, self._plan.draw, seed)
            run = RunOptions(
                threads=self._plan.threads, timeout_seconds=self._plan.timeout_seconds, target=planner.target, seed=seed
            )
            rows = measure_together(source, [one.schedule for one in drawn], run, self._plan.timing)
        except MetolError as error:
            return self._program(source, None, note=str(error)[:_KEPT_DETAIL])
        key = planner.frame.algorithm_hash, planner.target
        samples = (_sample(key, one, row) for one, row in zip(drawn, rows, strict=True))
        return self._program(source, planner, tuple(samples))

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
