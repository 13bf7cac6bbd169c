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
from metol.errors import MetolError
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

    def save(self, path: Path) -> None:
        """Write the report as JSON, at once: a reader never sees half of it."""
        content: dict[str, Any] = {
            "version": REPORT_VERSION,
            "command": self.command,
            "threads": self.threads,
            "timeout_seconds": self.timeout_seconds,
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
        )


def parse_sources(texts: Sequence[str], suite: str = "core") -> tuple[PipelineSource, ...]:
    """Read what to measure; without any, a whole suite.

    Raises:
        UnknownAppError: no application or suite of that name, found before hours are spent on the others.
        MetolError: a text that names no pipeline.
    """
    sources = tuple(map(PipelineSource.parse, texts or metol_apps.names(suite)))
    for source in sources:
        if source.kind is SourceKind.APP:
            metol_apps.get(source.location)
    return sources


def run_bench(
    sources: Sequence[PipelineSource],
    schedulers: Sequence[Scheduler],
    *,
    options: RunOptions,
    command: str,
    progress: Progress | None = None,
    save: Callable[[BenchReport], None] = lambda _: None,
) -> BenchReport:
    """Measure every scheduler on every source.

    Args:
        sources: what to schedule.
        schedulers: the columns of the table.
        options: how to measure.
        command: the command line, for the report.
        progress: told about each step.
        save: called with the report so far after each application.
    """
    runner = LocalRunner(options, progress)
    report = BenchReport(command, options.threads, options.timeout_seconds, Provenance.collect())
    for source in sources:
        report = replace(report, rows=(*report.rows, *_measure(runner, source, schedulers)))
        save(report)
    return report


def _measure(runner: LocalRunner, source: PipelineSource, schedulers: Sequence[Scheduler]) -> Iterator[Measurement]:
    """Measure one source; a scheduler that has nothing for it is a row, too."""
    own: dict[int, Scheduler] = {}
    failures: dict[int, str] = {}
    for i, scheduler in enumerate(schedulers):
        try:
            own[i] = scheduler.of_pipeline(source.label)
        except MetolError as error:
            failures[i] = str(error)
    try:
        rows = dict(zip(own, runner.run(source, tuple(own.values())), strict=True))
    except MetolError as error:
        rows, failures = {}, dict.fromkeys(range(len(schedulers)), str(error))
    for i, scheduler in enumerate(schedulers):
        failed = Measurement(source.label, "", Status.SCHEDULE_FAILED, detail=failures.get(i, ""))
        yield replace(rows.get(i, failed), scheduler=_column(scheduler))


def _column(scheduler: Scheduler) -> str:
    """Return what tables call a scheduler: a file below the working directory by the path from there."""
    text, here = str(scheduler), Path.cwd()
    if scheduler.file and Path(scheduler.file).is_relative_to(here):
        return text.replace(scheduler.file, str(Path(scheduler.file).relative_to(here)))
    return text
