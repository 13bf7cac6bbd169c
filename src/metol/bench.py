"""The benchmark: every scheduler on every application, and a result file that says where it comes from.

In: pipeline sources and schedulers. Out: a `BenchReport`, saved after each application, so that an interrupted run
keeps what it has measured.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import metol_apps
from metol.bench_device import BenchDevice
from metol.errors import MetolError, UnknownAppError
from metol.measure import LocalRunner, Measurement, PipelineSource, Progress, RunOptions, Scheduler, SourceKind, Status
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
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(path)

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
        texts: what the user names.
        suite: the suite, where nothing is named.
        size: another size than the usual one; of a suite, those applications remain that have it.

    Raises:
        UnknownAppError: no application, suite or size of that name, found before hours are spent on the others.
        MetolError: a text that names no pipeline, or one that has no such size.
    """
    sources = tuple(map(PipelineSource.parse, texts or metol_apps.names(suite)))
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
    for source in sources:
        report = replace(report, rows=(*report.rows, *_measure(runner, source, schedulers, device)))
        save(report)
    return report


def _measure(
    runner: LocalRunner, source: PipelineSource, schedulers: Sequence[Scheduler], device: BenchDevice | None
) -> Iterator[Measurement]:
    """Measure one source; a scheduler that has nothing for it is a row, too."""
    own: dict[int, Scheduler] = {}
    failures: dict[int, str] = {}
    for i, scheduler in enumerate(schedulers):
        try:
            own[i] = (scheduler if device is None else device.tell(scheduler)).of_pipeline(source.label)
        except MetolError as error:
            failures[i] = str(error)
    try:
        rows = dict(zip(own, runner.run(source, tuple(own.values())), strict=True))
    except MetolError as error:
        rows, failures = {}, dict.fromkeys(range(len(schedulers)), str(error))
    for i, scheduler in enumerate(schedulers):
        failed = Measurement(source.label, "", Status.SCHEDULE_FAILED, detail=failures.get(i, ""))
        yield replace(rows.get(i, failed), scheduler=scheduler.column)
