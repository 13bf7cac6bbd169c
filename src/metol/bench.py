"""The benchmark: every scheduler on every application, and a result file that says where it comes from.

In: pipeline sources and schedulers. Out: a `BenchReport`, saved after each application, so that an interrupted run
keeps what it has measured.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import metol_apps
from metol.bench_device import BenchDevice
from metol.destinations import write_text
from metol.errors import MetolError, UnknownAppError
from metol.measure import (
    LocalRunner,
    Measurement,
    PipelineSource,
    PreparedTrials,
    Progress,
    RunOptions,
    Scheduler,
    SourceKind,
    Status,
)
from metol.provenance import Provenance

__all__ = ["BenchReport", "parse_sources", "run_bench"]

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All rows of one run, and its circumstances."""

    command: str
    """The command line that makes it again."""
    threads: int
    """Threads that every schedule had."""
    timeout_seconds: float
    """For everything that one scheduler does to one application."""
    provenance: Provenance
    """The machine, the versions and the commit."""
    rows: tuple[Measurement, ...] = ()
    """Application by application, schedulers in the order asked for."""
    target: str = "host"
    """The Halide target that was scheduled for and run on."""
    device: str = ""
    """The GPU that was run on; empty for the CPU alone."""

    def save(self, path: Path) -> None:
        """Write the report as JSON, at once: a reader never sees half of it."""
        content: dict[str, Any] = {
            "version": REPORT_VERSION,
            "command": self.command,
            "threads": self.threads,
            "timeout_seconds": self.timeout_seconds,
            "target": self.target,
            "device": self.device,
            "machine": self.provenance.to_dict(),
            "rows": [row.to_row() for row in self.rows],
        }
        write_text(path, json.dumps(content, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> "BenchReport":
        """Read a result file.

        Raises:
            MetolError: the file is not a result file of this version.
        """
        content = json.loads(path.read_text())
        if content.get("version") != REPORT_VERSION:
            raise MetolError(
                f"`{path}` has version {content.get('version')}; this Metol reads version {REPORT_VERSION}."
            )
        machine = content["machine"]
        return BenchReport(
            content["command"],
            content["threads"],
            content["timeout_seconds"],
            Provenance(**{**machine, "cache_bytes": tuple(machine["cache_bytes"])}),
            tuple(map(Measurement.from_row, content["rows"])),
            # Files of this version from before GPUs were measured lack these.
            content.get("target", "host"),
            content.get("device", ""),
        )


def parse_sources(texts: Sequence[str], suite: str = "core", size: str | None = None) -> tuple[PipelineSource, ...]:
    """Read what to measure; without any, a whole suite.

    Args:
        texts: what the user names; of a Python file without a function all its pipelines.
        suite: the suite, where nothing is named.
        size: another size than the usual one; of a suite, those applications remain that have it.

    Raises:
        UnknownAppError: no application, suite or size of that name, found before hours are spent on the others.
        MetolError: a text that names no pipeline, or one that has no such size.
    """
    sources = tuple(itertools.chain.from_iterable(map(PipelineSource.parse_all, texts or metol_apps.names(suite))))
    if size is not None:
        if size not in metol_apps.SIZES:
            raise UnknownAppError(f"There is no size `{size}`; there are {', '.join(metol_apps.SIZES)}.")
        sources = tuple(_at_size(source, size) for source in sources)
        if not texts:
            sources = tuple(filter(_is_known, sources))
    for source in sources:
        if source.kind is SourceKind.APP:
            source.app()
    return sources


def _at_size(source: PipelineSource, size: str) -> PipelineSource:
    if source.kind is not SourceKind.APP:
        raise MetolError(f"Sizes are those of applications, and `{source}` is none; leave `--size {size}` out.")
    return source.with_parameters([f"size={size}"])


def _is_known(source: PipelineSource) -> bool:
    """Whether there is such an application at such a size."""
    try:
        source.app()
    except UnknownAppError:
        return False
    return True


def run_bench(
    sources: Sequence[PipelineSource],
    schedulers: Sequence[Scheduler],
    *,
    options: RunOptions,
    command: str,
    progress: Progress | None = None,
    save: Callable[[BenchReport], None] = lambda _: None,
    device: BenchDevice | None = None,
    jobs: int = 1,
) -> BenchReport:
    """Measure every scheduler on every source.

    Args:
        sources: what to schedule.
        schedulers: the columns of the table.
        options: how to measure.
        command: the command line, for the report.
        progress: told about each step.
        save: called with the report so far after each application.
        device: the GPU to schedule for and to run on; None for the CPU alone.
        jobs: sources that are scheduled, compiled and verified at once; then each is timed alone.
    """
    if device is not None:
        options = replace(options, target=device.target)
    runner = LocalRunner(options, progress)
    report = BenchReport(
        command,
        options.threads,
        options.timeout_seconds,
        Provenance.collect(),
        target=options.target,
        device="" if device is None else device.machine.name,
    )
    with contextlib.closing(_Preparation(runner, schedulers, device, jobs)) as preparation:
        for ready in preparation.run(sources):
            report = replace(report, rows=(*report.rows, *ready.rows()))
            save(report)
    return report


@dataclass(frozen=True, slots=True)
class _Ready:
    """One source, all of whose schedules wait to be timed; a scheduler that has nothing for it is a row, too."""

    source: PipelineSource
    schedulers: Sequence[Scheduler]
    failures: dict[int, str]
    """What went wrong, by the place of the scheduler."""
    trials: PreparedTrials | None = None
    """Those of all others."""

    def rows(self) -> Iterator[Measurement]:
        """Time them, end them, and return a row for each scheduler."""
        timed: Iterator[Measurement] = iter(())
        if self.trials is not None:
            with contextlib.closing(self.trials) as trials:
                timed = iter(trials.time())
        for i, scheduler in enumerate(self.schedulers):
            failed = Measurement(self.source.label, "", Status.SCHEDULE_FAILED, detail=self.failures.get(i, ""))
            yield replace(failed if i in self.failures else next(timed), scheduler=scheduler.column)

    def close(self) -> None:
        """End the children, timed or not."""
        if self.trials is not None:
            self.trials.close()


class _Preparation:
    """Schedules, compiles and verifies sources, several at once if that is wanted. Close it."""

    def __init__(
        self, runner: LocalRunner, schedulers: Sequence[Scheduler], device: BenchDevice | None, jobs: int
    ) -> None:
        self._runner = runner
        self._schedulers = schedulers
        self._device = device
        self._jobs = jobs
        # Children die with the thread that started them, so that threads live until all is timed.
        self._threads = ThreadPoolExecutor(jobs)
        self._ready: list[Future[_Ready]] = []

    def run(self, sources: Sequence[PipelineSource]) -> Iterator[_Ready]:
        """Yield source by source what is to be timed, while nothing else runs."""
        if self._jobs == 1:
            # In this thread: a signal interrupts it.
            yield from map(self._prepare, sources)
            return
        for first in range(0, len(sources), self._jobs):
            self._ready = [self._threads.submit(self._prepare, source) for source in sources[first:][: self._jobs]]
            wait(self._ready)
            yield from (ready.result() for ready in self._ready)

    def close(self) -> None:
        """End whatever is still being prepared, or was not timed."""
        self._runner.stop()
        self._threads.shutdown(cancel_futures=True)
        for ready in self._ready:
            if not ready.cancelled() and ready.exception() is None:
                ready.result().close()

    def _prepare(self, source: PipelineSource) -> _Ready:
        own: list[Scheduler] = []
        failures: dict[int, str] = {}
        for i, scheduler in enumerate(self._schedulers):
            try:
                told = scheduler if self._device is None else self._device.tell(scheduler)
                own.append(told.of_pipeline(source))
            except MetolError as error:
                failures[i] = str(error)
        try:
            return _Ready(source, self._schedulers, failures, self._runner.prepare(source, own))
        except MetolError as error:
            return _Ready(source, self._schedulers, dict.fromkeys(range(len(self._schedulers)), str(error)))
