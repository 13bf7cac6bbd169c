"""Many schedules of one pipeline in one child process, to be timed in turn: what makes a data set.

Enter: schedules and a case, in the child. Leave: verdicts and samples. A child and its case are shared, so that a
schedule costs little more than its compilation; in exchange one that crashes takes the others with it.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.pinning import pinned
from metol.measure.source import PipelineSource
from metol.measure.timing import take_samples
from metol.pipeline import strip_schedules

if TYPE_CHECKING:
    from metol.measure.case import Array, Case

__all__ = ["DeviceFailedError", "Holding"]


class DeviceFailedError(MetolError):
    """A device refused to run something; whatever its process runs there from now on may fail for the same reason."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A schedule that was compiled, run once, and can be run again."""

    run: Callable[[], object]
    """Runs it; on a device, what is returned before it is done."""
    wait: Callable[[], object] | None
    """Waits for the device; None on the host."""
    results: "Sequence[Array]"
    """What the first run computed."""
    compile_seconds: float
    """From building the pipeline to machine code."""
    first_ms: float
    """A run, about."""
    is_intact: bool = True
    """Whether the memory around the outputs was left alone."""


class Holding:
    """The schedules that a child holds, by number."""

    def __init__(self, source: PipelineSource, target: Any, threads: int | None) -> None:
        self._source = source
        self._target = target
        self._threads = threads
        self._runs: list[tuple[Callable[[], object], Callable[[], object] | None]] = []
        self._case: Case | None = None
        self._outputs: list[Array] = []
        self._inputs: dict[str, Any] = {}

    def hold(self, request: m.Hold) -> m.Held:
        """Compile a schedule, run it once and compare; it is held if it is right.

        Raises:
            DeviceFailedError: it could not be run on the device that it is for.
        """
        from metol.measure.tolerance import compare

        case = self._load(Path(request.case))
        start = time.perf_counter()
        pipeline = self._source.build()
        strip_schedules(pipeline)
        Schedule.from_json(request.schedule).apply(pipeline)
        with_device = self._target.has_gpu_feature()
        ready = (self._on_device if with_device else self._on_host)(pipeline, case, start)
        if not ready.is_intact:
            return m.Held(-1, ready.compile_seconds, ready.first_ms, "wrote outside of its output")
        comparisons = [compare(*triple) for triple in zip(ready.results, case.expected, case.tolerances, strict=True)]
        if wrong := [comparison.text for comparison in comparisons if not comparison.is_equal]:
            return m.Held(-1, ready.compile_seconds, ready.first_ms, "; ".join(wrong))
        self._runs.append((ready.run, ready.wait))
        return m.Held(len(self._runs) - 1, ready.compile_seconds, ready.first_ms, "")

    def _on_host(self, pipeline: Any, case: "Case", start: float) -> _Ready:
        from metol.measure.compiled import CompiledPipeline

        code = CompiledPipeline.compile(pipeline, self._target)
        compile_seconds = time.perf_counter() - start
        with pinned(self._threads):
            start = time.perf_counter()
            results, is_intact = code.run_once(case)
            run_ms = 1e3 * (time.perf_counter() - start)
        return _Ready(code.bind(case, self._outputs), None, results, compile_seconds, run_ms, is_intact)

    def _on_device(self, pipeline: Any, case: "Case", start: float) -> _Ready:
        """Compile and run with inputs and outputs on the device; the second run tells how long one takes."""
        import halide as hl

        from metol.measure.device_run import DeviceRun, inputs_of

        self._inputs = self._inputs or inputs_of(case)
        device = DeviceRun.bind(pipeline, self._target, case, self._inputs)
        device.pipeline.compile_jit(self._target)
        compile_seconds = time.perf_counter() - start
        try:
            with pinned(self._threads):
                device.run()  # the driver compiles the kernels, and copies the inputs
                results = device.fetch()
                start = time.perf_counter()
                device.run()
                device.wait()
                run_ms = 1e3 * (time.perf_counter() - start)
        except (hl.HalideError, RuntimeError) as error:
            raise DeviceFailedError(" ".join(str(error).split())) from error
        return _Ready(device.run, device.wait, results, compile_seconds, run_ms)

    def time(self, request: m.TimeHeld) -> m.Samples:
        """Take one round of samples."""
        with pinned(self._threads):
            run, wait = self._runs[request.number]
            return m.Samples(take_samples(run, request.seconds, request.give_up_ms or math.inf, wait=wait))

    def _load(self, folder: Path) -> "Case":
        from metol.measure.case import Case, allocate_output

        if self._case is None:
            self._case = Case.load(folder)
            # One set for all: only one of them runs at a time.
            self._outputs = [allocate_output(shape, is_aligned=True)[0] for shape in self._case.outputs]
        return self._case
