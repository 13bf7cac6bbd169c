"""What is tuned: one pipeline, how it will run, and what its measurements are filed under.

Enters: a pipeline, as an object or as text. Leaves: a `Problem`, which searches, judges, and opens workbenches.
"""

import contextlib
import os
import queue
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import halide as hl

from metol.errors import GivenInputError, TuningError
from metol.framing import buffer_sizes
from metol.lower import Schedule
from metol.measure import (
    Acceptance,
    Gate,
    GivenInputs,
    InputValue,
    LocalWorkbench,
    PipelineSource,
    RacePlan,
    RunOptions,
    SourceKind,
    Workbench,
    save_pipeline,
)
from metol.options import SearchOptions
from metol.pipeline import EstimateMap, base_name, copy_pipeline
from metol.planner import Planner
from metol.targets import Machine, parse_target
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.tune.record import RecordKey, SearchTerms
from metol.verification import require_device

__all__ = ["Problem"]


class Problem:
    """One pipeline to tune. A context manager: leaving it ends the children that judge schedules."""

    def __init__(
        self,
        pipeline: "hl.Pipeline | hl.Func | PipelineSource | str",
        *,
        options: SearchOptions | None = None,
        target: str | hl.Target | None = None,
        estimates: EstimateMap | None = None,
        machine: Machine | None = None,
        threads: int | None = None,
        inputs: Mapping[str, InputValue] | Sequence[str] = (),
        is_cold: bool = False,
    ) -> None:
        """Read a pipeline.

        Args:
            pipeline: A pipeline, the Func of its only output, or a source such as ``app:harris``.
            options: How to search.
            target: A Halide target; the CPU of this machine if None.
            estimates: Sizes and parameter values that the pipeline does not tell, by name.
            machine: The CPU or GPU to schedule for, which must be here; as `autoschedule` chooses it if None.
            threads: Threads that the schedule will run with; all of this process if None.
            inputs: What to run on in place of random inputs, by name, or as texts such as ``image=photo.png``.
            is_cold: Whether caches are emptied before each run that is timed.

        Raises:
            MissingDeviceError: the target has a GPU, and there is none here to measure on.
            TuningError: caches are to be emptied, and are those of a GPU.
            SearchError: the strategy is not one for the target.
            GivenInputError: an input is not one of the pipeline's, or of the wrong type or size.
            ExtractionError: the pipeline does something that the search cannot describe.
            MetolError: the pipeline cannot be built or saved.
        """
        self.is_cold = is_cold
        self.options = options or SearchOptions()
        require_device("host" if target is None else str(target))
        if is_cold and parse_target(target).has_gpu_feature():
            raise TuningError("The caches of a GPU cannot be emptied before each run; tune with warm ones.")
        named = PipelineSource.parse(pipeline) if isinstance(pipeline, str) else pipeline
        live = named.build() if isinstance(named, PipelineSource) else named
        self.planner = Planner(live, self.options, target=target, estimates=estimates, machine=machine, threads=threads)
        require_device(self.planner.target)
        _ = self.planner.dag  # raises where the search cannot describe the pipeline: there is nothing to tune then
        self.inputs = _given(inputs, self.planner.pipeline)
        self._require_enough()
        self.identity: Mapping[str, Any] = machine_identity(self.planner.machine)
        digest = "" if self.inputs is None else self.inputs.digest
        terms = SearchTerms(self.threads, self.options.fixed_sizes, self.options.may_alias, is_cold, digest)
        self.key = RecordKey.of(self.planner.frame, fingerprint(dict(self.identity)), terms)
        self._judges: queue.SimpleQueue[Acceptance] = queue.SimpleQueue()
        self._owned: list[Acceptance] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.source, self.label = self._source(named, estimates)

    @property
    def threads(self) -> int:
        """Threads that the schedule will run with."""
        return self.planner.machine.host_threads

    def workbench(self, options: RunOptions, plan: RacePlan) -> Workbench:
        """Return a workbench whose schedules are judged first; `options` are for this problem's threads and target."""
        return LocalWorkbench(self.source, options, refusal=self.refusal, plan=plan)

    def refusal(self, schedule: Schedule) -> str:
        """Tell why a schedule must not be used, or ""; several threads may ask at once."""
        with self._judge() as judge:
            return judge.refusal(schedule)

    def rest(self) -> None:
        """End the judges, while others have their turn; they start again when somebody asks."""
        while self._owned:
            self._owned.pop().close()
        self._judges = queue.SimpleQueue()

    def open_judges(self) -> None:
        """Start as many judges as there are cores; their children get ready while the caller searches."""
        for _ in range(0 if self._owned else max(1, len(os.sched_getaffinity(0)))):
            judge = self.planner.acceptance()
            self._owned.append(judge)
            self._judges.put(judge)

    def close(self) -> None:
        """End the judges and remove the files."""
        self.rest()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "Problem":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _judge(self) -> Iterator[Acceptance]:
        self.open_judges()
        judge = self._judges.get()
        try:
            yield judge
        finally:
            self._judges.put(judge)

    def _require_enough(self) -> None:
        """Raise GivenInputError where an input that was given has less than outputs of the estimated size need."""
        if self.inputs is None:
            return
        sizes, target = buffer_sizes(self.planner.read), str(self.planner.target)
        gate = Gate(lambda: copy_pipeline(self.planner.pipeline), sizes, target)
        regions, scalars = {}, {}
        for one in self.inputs.inputs:
            if one.array is not None:
                regions[one.name] = tuple(zip(one.mins, one.array.shape[::-1], strict=True))
            elif one.number is not None:
                scalars[one.name] = one.number
        if told := gate.shortage(regions, scalars):
            raise GivenInputError(f"{told}; give a larger one, or smaller estimates.")

    def _source(self, named: Any, estimates: EstimateMap | None) -> tuple[PipelineSource, str]:
        """Where children get the pipeline from, and what people call it."""
        if isinstance(named, PipelineSource) and not estimates:
            return named, str(named)
        folder = tempfile.TemporaryDirectory(prefix="metol-")
        file = Path(folder.name) / "pipeline.hlpipe"
        try:
            save_pipeline(self.planner.pipeline, file, estimates)
        except BaseException:
            folder.cleanup()
            raise
        self._folder = folder
        outputs = ", ".join(base_name(func.name()) for func in self.planner.pipeline.outputs())
        label = str(named) if isinstance(named, PipelineSource) else outputs
        return PipelineSource(SourceKind.SERIALIZED, str(file)), label


def _given(inputs: Mapping[str, InputValue] | Sequence[str], pipeline: hl.Pipeline) -> GivenInputs | None:
    if not inputs:
        return None
    arguments = pipeline.infer_arguments()
    return GivenInputs.read(inputs, arguments) if isinstance(inputs, Mapping) else GivenInputs.parse(inputs, arguments)
