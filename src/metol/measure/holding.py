"""Many schedules of one pipeline in one child process, to be timed in turn: what makes a data set.

Enter: schedules and a case, in the child. Leave: verdicts and samples. A child and its case are shared, so that a
schedule costs little more than its compilation; in exchange one that crashes takes the others with it.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.pinning import pinned
from metol.measure.source import PipelineSource
from metol.measure.timing import take_samples
from metol.pipeline import strip_schedules

if TYPE_CHECKING:
    from metol.measure.case import Array, Case

__all__ = ["Holding"]


class Holding:
    """The schedules that a child holds, by number."""

    def __init__(self, source: PipelineSource, target: Any, threads: int | None) -> None:
        self._source = source
        self._target = target
        self._threads = threads
        self._runs: list[Callable[[], object]] = []
        self._case: Case | None = None
        self._outputs: list[Array] = []

    def hold(self, request: m.Hold) -> m.Held:
        """Compile a schedule, run it once and compare; it is held if it is right."""
        from metol.measure.compiled import CompiledPipeline
        from metol.measure.tolerance import compare

        case = self._load(Path(request.case))
        start = time.perf_counter()
        pipeline = self._source.build()
        strip_schedules(pipeline)
        Schedule.from_json(request.schedule).apply(pipeline)
        code = CompiledPipeline.compile(pipeline, self._target)
        compile_seconds = time.perf_counter() - start
        with pinned(self._threads):
            start = time.perf_counter()
            results, is_intact = code.run_once(case)
            run_ms = 1e3 * (time.perf_counter() - start)
        if not is_intact:
            return m.Held(-1, compile_seconds, run_ms, "wrote outside of its output")
        comparisons = [compare(*triple) for triple in zip(results, case.expected, case.tolerances, strict=True)]
        if wrong := [comparison.text for comparison in comparisons if not comparison.is_equal]:
            return m.Held(-1, compile_seconds, run_ms, "; ".join(wrong))
        self._runs.append(code.bind(case, self._outputs))
        return m.Held(len(self._runs) - 1, compile_seconds, run_ms, "")

    def time(self, request: m.TimeHeld) -> m.Samples:
        """Take one round of samples."""
        with pinned(self._threads):
            return m.Samples(take_samples(self._runs[request.number], request.seconds, request.give_up_ms or math.inf))

    def _load(self, folder: Path) -> "Case":
        from metol.measure.case import Case, allocate_output

        if self._case is None:
            self._case = Case.load(folder)
            # One set for all: only one of them runs at a time.
            self._outputs = [allocate_output(shape, is_aligned=True)[0] for shape in self._case.outputs]
        return self._case
