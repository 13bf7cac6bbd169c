"""How fast searches are: candidates a second, seconds and memory of each scheduler on each application.

In: pipeline sources and schedulers. Out: a `SearchSpeedReport`, saved after each application.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metol.bench_device import BenchDevice
from metol.destinations import write_text
from metol.measure import PipelineSource, Progress, Scheduler, SearchMeasurement, measure_search
from metol.provenance import Provenance

__all__ = ["SearchSpeedReport", "run_search_speed"]

REPORT_VERSION = 1

# What takes less than this is made anew, in turn with the others, and the median of so many counts.
_SHORT_SECONDS = 1.0
_SHORT_REPEATS = 3


@dataclass(frozen=True, slots=True)
class SearchSpeedReport:
    """All searches of one run, and its circumstances."""

    command: str
    """The command line that makes it again."""
    threads: int
    """Threads that every search and every schedule had."""
    provenance: Provenance
    """The machine, the versions and the commit."""
    rows: tuple[SearchMeasurement, ...] = ()
    """Application by application, schedulers in the order asked for."""
    target: str = "host"
    """The Halide target that was scheduled for."""
    device: str = ""
    """The GPU that was scheduled for; empty for the CPU alone."""

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        content = {
            "version": REPORT_VERSION,
            "command": self.command,
            "threads": self.threads,
            "target": self.target,
            "device": self.device,
            "machine": self.provenance.to_dict(),
            "rows": [row.to_row() for row in self.rows],
        }
        write_text(path, json.dumps(content, indent=1) + "\n")


def run_search_speed(
    sources: Sequence[PipelineSource],
    schedulers: Sequence[Scheduler],
    *,
    threads: int,
    timeout_seconds: float,
    command: str,
    progress: Progress | None = None,
    save: Callable[[SearchSpeedReport], None] = lambda _: None,
    device: BenchDevice | None = None,
) -> SearchSpeedReport:
    """Let every scheduler search on every source, one after the other, each in a process of its own.

    Searches of less than a second are made three times, in turn, and the one of median time counts.

    Args:
        sources: what to schedule.
        schedulers: the columns of the table.
        threads: threads of each search.
        timeout_seconds: for one search.
        command: the command line, for the report.
        progress: told about each step.
        save: called with the report so far after each application.
        device: the GPU to schedule for, which need not be here; None for the CPU of this machine.
    """
    target = "host" if device is None else device.target
    name = "" if device is None else device.machine.name
    report = SearchSpeedReport(command, threads, Provenance.collect(), target=target, device=name)

    def search(source: PipelineSource, scheduler: Scheduler) -> SearchMeasurement:
        if progress is not None:
            progress(f"{source.label}: searching with {scheduler}")
        told = scheduler if device is None else device.tell(scheduler)
        row = measure_search(source, told, threads=threads, timeout_seconds=timeout_seconds, target=target)
        return replace(row, scheduler=str(scheduler))

    for source in sources:
        found = [[search(source, scheduler)] for scheduler in schedulers]
        for _ in range(_SHORT_REPEATS - 1):
            for scheduler, rows in zip(schedulers, found, strict=True):
                if _seconds(rows[0]) < _SHORT_SECONDS:
                    rows.append(search(source, scheduler))
        medians = (sorted(rows, key=_seconds)[len(rows) // 2] for rows in found)
        report = replace(report, rows=(*report.rows, *medians))
        save(report)
    return report


def _seconds(row: SearchMeasurement) -> float:
    return math.inf if row.seconds is None else row.seconds
