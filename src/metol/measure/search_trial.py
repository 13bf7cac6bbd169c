"""How fast a scheduler searches: candidates costed, seconds and memory, of one scheduler on one pipeline.

In, for the parent: a pipeline source and a scheduler. Out: a `SearchMeasurement`, whatever becomes of the child process
that does it. In, for the child: the pipeline. Out: the message `Searched`. Adams2019 and Anderson2021 tell
their counts in their debug logs.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from metol.measure import messages as m
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource

__all__ = ["SearchMeasurement", "measure_search", "search_and_count"]

# Halide's autoschedulers write their log to stderr at this level of this variable; they read it once, when first used.
_LOG_VARIABLE = "HL_DEBUG_AUTOSCHEDULE"
_COUNT_IN_LOG = re.compile(r"(?:Cost evaluated this many times|Number of schedules evaluated by cost model): (\d+)")


@dataclass(frozen=True, slots=True)
class SearchMeasurement:
    """What one search did."""

    app: str
    """The pipeline, as tables name it."""
    scheduler: str
    """The scheduler, as text."""
    seconds: float | None = None
    """From the built pipeline to the scheduled one; None where it failed."""
    candidates: int = 0
    """Schedules that were generated, featurized and costed; 0 where the scheduler does not say."""
    peak_mib: float | None = None
    """The most memory that the process held, what it had imported included; None where it failed."""
    costing_seconds: float | None = None
    """Of the seconds, those in which candidates were generated and costed; None where the scheduler does not say."""
    detail: str = ""
    """Why it failed."""

    @property
    def candidates_per_second(self) -> float | None:
        """Candidates over the time of the whole search; None where either is not known."""
        return self.candidates / self.seconds if self.seconds and self.candidates else None

    @property
    def candidates_per_costing_second(self) -> float | None:
        """Candidates over the time in which they were costed; over that of the whole search where only this is known.

        What is left out of Metol's is Halide's lowering of what is returned, which no other scheduler does.
        """
        seconds = self.costing_seconds or self.seconds
        return self.candidates / seconds if seconds and self.candidates else None

    def to_row(self) -> dict[str, Any]:
        """Return the fields for a result file."""
        return asdict(self)


def measure_search(
    source: PipelineSource, scheduler: Scheduler, *, threads: int, timeout_seconds: float, target: str = "host"
) -> SearchMeasurement:
    """Let a scheduler search in a fresh child process.

    Args:
        source: what to schedule.
        scheduler: what schedules it.
        threads: cores that the child is pinned to, and threads that the schedule is made for.
        timeout_seconds: for the search, and as much again for building the pipeline.
        target: the Halide target to schedule for; nothing is compiled, so that its GPU need not be here.
    """
    row = SearchMeasurement(source.label, str(scheduler))
    with Child(threads=threads) as child:
        for request in (m.Build(str(source), target), m.Search(str(scheduler), threads)):
            try:
                answer = child.ask(request, timeout_seconds)
            except ChildTimeoutError:
                return SearchMeasurement(row.app, row.scheduler, detail=f"timeout: over {timeout_seconds:g} s")
            except ChildDiedError as error:
                return SearchMeasurement(row.app, row.scheduler, detail=f"crash: {error}")
            if isinstance(answer, m.Failure):
                return SearchMeasurement(row.app, row.scheduler, detail=f"{answer.error}: {answer.message}")
    return SearchMeasurement(
        row.app, row.scheduler, answer.seconds, answer.candidates, answer.peak_mib, answer.costing_seconds or None
    )


def search_and_count(scheduler: Scheduler, pipeline: Any, target: Any, threads: int) -> m.Searched:
    """Schedule `pipeline` in place, in the child process."""
    scheduler.load()
    if scheduler.is_peer:
        os.environ[_LOG_VARIABLE] = "1"
    # What the process held before this search is not its peak.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    with _stderr_in_file() as log:
        start = time.perf_counter()
        candidates, costing_seconds = scheduler.apply(pipeline, target, threads)
        seconds = time.perf_counter() - start
    if scheduler.is_peer:
        counts = _COUNT_IN_LOG.findall(log.read())
        candidates = sum(map(int, counts))
    log.close()
    return m.Searched(seconds, candidates, costing_seconds, _peak_mib())


@contextmanager
def _stderr_in_file() -> Iterator[IO[str]]:
    """Redirect what this process writes to stderr, libraries included, to a file that is rewound at the end."""
    log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115, whoever reads it closes it
    saved = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield log
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        log.seek(0)


def _peak_mib() -> float:
    """Return the high-water mark of the resident set since it was last cleared."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None, "Linux tells the high-water mark"
    return int(found[1]) / 1024
