"""The child process: builds, schedules, compiles, verifies and times one schedule, as its parent asks over a pipe.

Run as ``python -m metol.measure.child ANSWER_FD PARENT_PID THREADS MEMORY_BYTES``; `serving` has how it is asked.
"""

import contextlib
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metol.emulated_cuda import last_fault, load_emulated_cuda
from metol.errors import GivenInputError, MetolError
from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.case_names import AWKWARD, ESTIMATED
from metol.measure.gate import BufferSizes
from metol.measure.holding import Holding
from metol.measure.peer_trial import answer_of_peer
from metol.measure.pinning import pin
from metol.measure.scheduler import Scheduler
from metol.measure.search_trial import search_and_count
from metol.measure.serving import error_text, serve_parent
from metol.measure.source import PipelineSource, SourceKind
from metol.measure.timing import take_cold_samples, take_samples
from metol.pipeline import reuse_device_allocations, strip_schedules

if TYPE_CHECKING:
    # What compiles and runs needs NumPy; a search does without, and its memory is measured.
    from metol.measure.case import Array, Case
    from metol.measure.compiled import CompiledPipeline
    from metol.measure.device_run import DeviceRun
    from metol.measure.given_inputs import GivenInputs

__all__ = ["main"]

# What Halide says of an input that begins elsewhere than its `set_host_alignment` asks for.
_MISALIGNED = "is not aligned to"
# A type in lowered code, with its bits.
_FLOAT_TYPE = re.compile(r"\bfloat(16|32|64)")


class Session:
    """The state of a child between requests: one pipeline, then its code, then the case being timed."""

    def __init__(self, threads: int | None = None) -> None:
        """Begin; code that runs is kept on as many cores as `threads` says, or on none in particular."""
        self._threads = threads
        self._is_emulated = False
        self._source: PipelineSource | None = None
        self._pipeline: Any = None
        self._target: Any = None
        self._compiled: CompiledPipeline | None = None
        self._timed: tuple[str, Callable[[], object]] | None = None
        self._on_device: tuple[str, DeviceRun] | None = None
        self._holding: Holding | None = None
        self._results: list[tuple[Array, ...]] = []  # of the last runs, as long as they agree with nothing
        self._accepted: dict[str, m.Verify] = {}  # by the case's folder: what its results were found to agree with

    def answer(self, request: m.Request) -> m.Answer:
        """Do what is asked; exceptions are the caller's to report."""
        match request:
            case m.Build():
                return self._build(request)
            case m.ApplyScheduler():
                return self._schedule(request)
            case m.Search():
                pin(self._threads)
                return search_and_count(
                    Scheduler.parse(request.scheduler), self._pipeline, self._target, request.threads
                )
            case m.AskPeer():
                strip_schedules(self._pipeline)
                return answer_of_peer(Scheduler.parse(request.scheduler), self._pipeline, self._target, request.threads)
            case m.Compile():
                return self._compile()
            case m.CompileObject():
                return self._compile_object(request)
            case m.MakeCases():
                return self._make_cases(request)
            case m.MakeCase():
                return self._make_case(request)
            case m.Recompute():
                return self._recompute(request)
            case m.GrowInputs():
                return self._grow_inputs(Path(request.case), Path(request.folder))
            case m.Verify():
                return self._verify(request)
            case m.Bind():
                return self._bind(request.case)
            case m.Time():
                return self._time(request)
            case m.Hold():
                return self._holds().hold(request)
            case m.TimeHeld():
                return self._holds().time(request)
            case m.InspectKernels():
                return _inspect_kernels(request)

    def _build(self, request: m.Build) -> m.Done:
        import halide as hl

        start = time.perf_counter()
        self._is_emulated = request.is_emulated
        if request.is_emulated:
            load_emulated_cuda()
        self._source = PipelineSource.parse(request.source)
        self._target = hl.get_host_target() if request.target == "host" else hl.Target(request.target)
        self._pipeline = self._source.build()
        if _runs_here(self._target):
            _compile_runtime(self._target)
        if request.is_emulated:
            # What is reused is larger than it must be, and full of what it was used for: no error would show.
            reuse_device_allocations(is_reused=False)
        return m.Done(time.perf_counter() - start)

    def explain(self, error: Exception) -> str:
        """Return what an exception says, with the fault of the emulated GPU that Halide knows the number of."""
        text = error_text(error)
        return f"{text} {last_fault()}".rstrip() if self._is_emulated else text

    def use_pause(self) -> None:
        """Wait: what is asked next depends on what the parent makes of the answer."""

    def _schedule(self, request: m.ApplyScheduler) -> m.Done:
        scheduler = Scheduler.parse(request.scheduler)
        strip_schedules(self._pipeline, scheduler.kept())
        start = time.perf_counter()
        scheduler.apply(self._pipeline, self._target, request.threads)
        return m.Done(time.perf_counter() - start)

    def _compile(self) -> m.Done:
        from metol.measure.compiled import CompiledPipeline

        start = time.perf_counter()
        self._compiled = CompiledPipeline.compile(self._pipeline, self._target)
        return m.Done(time.perf_counter() - start)

    def _compile_object(self, request: m.CompileObject) -> m.Done:
        start = time.perf_counter()
        arguments = self._pipeline.infer_arguments()
        self._pipeline.compile_to_object(request.file, arguments, "metol_pipeline", self._target)
        return m.Done(time.perf_counter() - start)

    def _code(self) -> "CompiledPipeline":
        """Return the code, on as many cores as it has threads; whatever compiles may have them all until then."""
        assert self._compiled is not None, "asked to run before compiling"
        pin(self._threads)
        return self._compiled

    def _make_cases(self, request: m.MakeCases) -> m.CasesMade:
        """Make, run and save the cases; only an application promises that its pipeline works at the awkward size."""
        import halide as hl

        from metol.measure.cases import app_cases, give_inputs

        assert self._source is not None
        folder, given = Path(request.folder), self._load_given(request.given)
        if self._source.kind is SourceKind.APP:
            app = self._source.app()
            estimated, awkward = app_cases(app, self._code().arguments, request.seed)
            with _blaming(given):
                cases = (
                    give_inputs(estimated, self._code(), given),
                    give_inputs(awkward, self._code(), given.numbers),
                )
                saved = [self._save_expected(case, folder / case.name.split()[0], app) for case in cases]
            return m.CasesMade(saved, "")
        with _blaming(given):
            case = self._case(ESTIMATED, request.seed, given)
            saved = [self._save_expected(case, folder / "estimated", None)]
        try:
            case = self._case(AWKWARD, request.seed + 1, given.numbers)
            saved.append(self._save_expected(case, folder / "awkward", None))
        except hl.HalideError as error:
            return m.CasesMade(
                saved, f"one size alone, for the reference fails at the awkward one: {error_text(error)}"
            )
        return m.CasesMade(saved, "")

    def _load_given(self, folder: str) -> "GivenInputs":
        from metol.measure.given_inputs import GivenInputs

        given = GivenInputs.load(Path(folder)) if folder else GivenInputs()
        given.check_names(self._code().arguments)
        return given

    def _make_case(self, request: m.MakeCase) -> m.CasesMade:
        from metol.measure.cases import app_case, pipeline_case

        assert self._source is not None
        app = self._source.app() if self._source.kind is SourceKind.APP else None
        if app is not None:
            (extents,) = request.extents
            case = app_case(app, self._code().arguments, request.name, tuple(reversed(extents)), request.seed)
        else:
            case = pipeline_case(self._pipeline, self._code(), request.name, request.seed, request.extents)
        if [list(shape.extents) for shape in case.outputs] != request.extents:
            return m.CasesMade([], f"its constraints make it {case.size_text}")
        return m.CasesMade([self._save_expected(case, Path(request.folder), app)], "")

    def _recompute(self, request: m.Recompute) -> m.CasesMade:
        from metol.measure.case import Case
        from metol.measure.cases import nudge_inputs

        assert self._source is not None
        # Kernels are no text in lowered code; who asks for a witness has asked for a more exact reference before.
        if request.needs_floats and not (self._target.has_gpu_feature() or self._narrowest_float()):
            return m.CasesMade([], "no floats")
        case = Case.load(Path(request.case))
        if request.nudge_seed:
            if not nudge_inputs(case, request.nudge_seed):
                return m.CasesMade([], "no floats among the inputs")
            expected, _ = self._code().run_once(case)
            replace(case, inputs=(), expected=expected).save(Path(request.folder))
            return m.CasesMade([request.folder], "")
        app = self._source.app() if self._source.kind is SourceKind.APP else None
        return m.CasesMade([self._save_expected(case, Path(request.folder), app)], "")

    def _grow_inputs(self, folder: Path, new_folder: Path) -> m.CasesMade:
        from metol.measure.case import Case
        from metol.measure.cases import grow_inputs

        case = Case.load(folder)
        grown, note = grow_inputs(case, self._code())
        if grown is not case:
            grown.save(new_folder)
        return m.CasesMade([str(folder if grown is case else new_folder)], note)

    def _case(self, name: str, seed: int, given: "GivenInputs") -> "Case":
        from metol.measure.cases import pipeline_case

        return pipeline_case(self._pipeline, self._code(), name, seed, given=given)

    def _save_expected(self, case: "Case", folder: Path, app: Any) -> str:
        from metol.measure.case import Case
        from metol.measure.cases import app_tolerance
        from metol.measure.tolerance import default_tolerance

        expected, _ = self._code().run_once(case)
        if app is None:
            bits = self._narrowest_float() if _is_as_precise_as_floats(expected) else 0
            tolerances = tuple(default_tolerance(array, narrowest_float=bits) for array in expected)
        else:
            tolerances = (app_tolerance(app),) * len(expected)
        Case(case.name, case.inputs, case.outputs, expected, tolerances).save(folder)
        return str(folder)

    def _narrowest_float(self) -> int:
        """Bits of the narrowest floats in the code, or 0."""
        import halide as hl

        # The lowered code shows floats inside Exprs, too.
        with tempfile.NamedTemporaryFile(suffix=".stmt") as file:
            arguments = list(self._code().arguments)
            self._pipeline.compile_to_lowered_stmt(file.name, arguments, hl.StmtOutputFormat.Text, self._target)
            bits = map(int, _FLOAT_TYPE.findall(Path(file.name).read_text()))
            return min(bits, default=0)

    def _verify(self, request: m.Verify) -> m.Verdict:
        """Run, and compare; with a more exact reference or a witness, what ran before: a race may end otherwise now."""
        from metol.measure.standard import Standard

        standard = Standard.load(request)
        where = f"{standard.case.name} {standard.case.size_text}"
        if not (request.exact or request.witnesses):
            self._results = self._run_fenced(standard.case)
        if not self._results:
            return m.Verdict(False, f"{where}: wrote outside of its output")
        verdict = min(map(standard.judge, self._results), key=lambda found: (found.is_equal, found.is_few))
        if verdict.is_equal:
            self._accepted[request.case] = request
            self._results = []
        return replace(verdict, text=f"{where}: {verdict.text}")

    def _run_fenced(self, case: "Case") -> "list[tuple[Array, ...]]":
        """Run with inputs before and behind what must not be touched; no results where it wrote outside of outputs."""
        import halide as hl

        from metol.measure.fence import fence_inputs

        found = []
        for at_end in (True, False):
            try:
                results, is_intact = self._code().run_once(fence_inputs(case, at_end=at_end))
            except hl.HalideError as error:
                if at_end and _MISALIGNED in str(error):
                    continue  # what must begin at a multiple of some bytes lies behind a page, and not before one
                raise
            if not is_intact:
                return []
            found.append(results)
        return found

    def _bind(self, case: str) -> m.Done:
        start = time.perf_counter()
        if self._target.has_gpu_feature():
            self._device_run(case)
        else:
            self._timed_run(case)
        return m.Done(time.perf_counter() - start)

    def _time(self, request: m.Time) -> m.Samples:
        if self._target.has_gpu_feature():
            return self._time_on_device(request)
        run = self._timed_run(request.case)
        if not request.is_cold:
            return m.Samples(take_samples(run, request.seconds, request.give_up_ms or math.inf))
        from metol.measure.cold_caches import CacheWalk

        # Made anew for each round, for the children that wait their turn are not to hold so much memory.
        walk = CacheWalk.of_machine(os.sched_getaffinity(0))
        return m.Samples(take_cold_samples(run, walk.walk, request.seconds))

    def _time_on_device(self, request: m.Time) -> m.Samples:
        """Time with inputs and outputs on the device."""
        if request.is_cold:
            raise MetolError("The caches of a GPU cannot be emptied; time with warm ones.")
        device = self._device_run(request.case)
        return m.Samples(take_samples(device.run, request.seconds, request.give_up_ms or math.inf, wait=device.wait))

    def _device_run(self, folder: str) -> "DeviceRun":
        """Return what runs with inputs and outputs on the device, which has been compared with what is expected."""
        from metol.measure.device_run import DeviceRun
        from metol.measure.standard import Standard

        pin(self._threads)
        if self._on_device is None or self._on_device[0] != folder:
            standard = Standard.load(self._accepted.get(folder, m.Verify(folder)))
            device = DeviceRun.bind(self._pipeline, self._target, standard.case)
            device.run()
            verdict = standard.judge(device.fetch())
            if not verdict.is_equal:
                raise MetolError(f"What is timed on the device is wrong: {verdict.text}")
            self._on_device = (folder, device)
        return self._on_device[1]

    def _holds(self) -> Holding:
        assert self._source is not None, "asked to hold a schedule before building"
        if self._holding is None:
            self._holding = Holding(self._source, self._target, self._threads)
        return self._holding

    def _timed_run(self, folder: str) -> Callable[[], object]:
        from metol.measure.case import Case

        if self._timed is None or self._timed[0] != folder:
            self._timed = (folder, self._code().bind(Case.load(Path(folder))))
        return self._timed[1]


def _is_as_precise_as_floats(outputs: "tuple[Array, ...]") -> bool:
    """Whether some output is no more precise than the floats that it may be made of: doubles, and small integers."""
    return any(array.dtype == "f8" or (array.dtype.kind in "iu" and array.dtype.itemsize <= 2) for array in outputs)


def _inspect_kernels(request: m.InspectKernels) -> m.KernelsInspected:
    from metol.measure.kernels import kernels_of

    pipeline = PipelineSource.parse(request.source).build()
    schedule = Schedule.from_json(request.schedule)
    strip_schedules(pipeline, [keep.func for keep in schedule.kept])
    kernels = kernels_of(
        pipeline,
        schedule,
        target=request.target,
        sizes=BufferSizes.from_json(request.sizes),
        architectures=request.architectures,
        ptxas=Path(request.ptxas),
    )
    return m.KernelsInspected([asdict(kernel) for kernel in kernels])


def main(arguments: list[str]) -> None:
    """Answer requests until stdin ends."""
    answer_fd, parent, threads, memory_bytes = map(int, arguments)
    serve_parent(Session(threads), answer_fd, parent, threads, memory_bytes)


def _runs_here(target: Any) -> bool:
    """Whether this machine is of the kind that a target describes."""
    import halide as hl

    here = hl.get_host_target()
    return (target.arch, target.bits, target.os) == (here.arch, here.bits, here.os)


def _compile_runtime(target: Any) -> None:
    """Compile something trivial: a process's first compilation brings Halide's runtime along, half a second of it."""
    import halide as hl

    nothing = hl.Func("nothing")
    nothing[()] = 0
    hl.Pipeline(nothing).compile_to_callable([], target)


@contextlib.contextmanager
def _blaming(given: "GivenInputs") -> Iterator[None]:
    """Call what Halide refuses a mistake in the inputs that were given, where there are any."""
    import halide as hl

    try:
        yield
    except hl.HalideError as error:
        if not given.inputs:
            raise
        raise GivenInputError(
            f"The pipeline does not run with the inputs that were given: {error_text(error)} Give others, or fewer."
        ) from error


if __name__ == "__main__":
    main(sys.argv[1:])
