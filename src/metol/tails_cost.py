"""What safe tails cost: each application's schedule beside the same loop nest with tails that are right at one size.

In: pipeline sources. Out: a `TailsRow` each, and the table of their run times. The unsafe tails are those of other
autoschedulers: they round up, or shift inwards, and refuse sizes that do not suit them.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metol.lower import LoweringOptions, Schedule
from metol.measure import LocalRunner, PipelineSource, Progress, RunOptions, Scheduler
from metol.row_file import RowFile
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell
from metol.variants import Variant, schedule_variant

__all__ = ["TailsFile", "TailsRow", "run_tails", "tails_notes", "tails_table"]

ROW_VERSION = 1
_UNSAFE = LoweringOptions(unsafe_tails=True)


@dataclass(frozen=True, slots=True)
class TailsRow:
    """Both lowerings of one loop nest, at the estimated size."""

    app: str
    """The pipeline, as tables name it."""
    circumstances: str
    """What it depends on beside."""
    safe_ms: float | None = None
    """Median run time with safe tails; None where there is no right result."""
    unsafe_ms: float | None = None
    """The same of the unsafe ones, on the same inputs."""
    note: str = ""
    """Why there is no run time, or which inputs had to grow for the unsafe tails."""

    @property
    def ratio(self) -> float | None:
        """How many times as long safe tails take."""
        return self.safe_ms / self.unsafe_ms if self.safe_ms and self.unsafe_ms else None

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self)


class TailsFile(RowFile[TailsRow]):
    """The rows of this measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, lambda row: TailsRow(**row), "costs of tails")


def run_tails(
    sources: Sequence[PipelineSource],
    options: RunOptions,
    *,
    circumstances: str,
    known: Iterable[TailsRow] = (),
    save: Callable[[TailsRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Iterator[TailsRow]:
    """Measure every source, both lowerings in turn; yield each row when it is there.

    Args:
        sources: what to schedule.
        options: how to measure.
        circumstances: for the rows.
        known: rows of an earlier run; those of the same circumstances are yielded again, not measured.
        save: called with each new row before it is yielded.
        progress: told about each step.
    """
    done = {row.app: row for row in known if row.circumstances == circumstances}
    runner = LocalRunner(options, progress)
    for source in sources:
        row = done.get(source.label)
        if row is None:
            progress(f"{source.label}: searching")
            variant = schedule_variant(source, None, options.threads)
            row = _measure(source, variant, runner, circumstances)
            save(row)
        yield row


def _measure(source: PipelineSource, variant: Variant, runner: LocalRunner, circumstances: str) -> TailsRow:
    result = variant.result
    if result is None or result.lower is None:
        return TailsRow(source.label, circumstances, note=variant.refusal or "no search found its schedule")
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        both = [_saved(result.schedule, Path(folder) / "safe.json")]
        both.append(_saved(result.lower(_UNSAFE), Path(folder) / "unsafe.json"))
        (safe, unsafe), (_, grown) = runner.run_grown(source, both)
    notes = [f"{kind}: {row.problem}" for kind, row in (("safe", safe), ("unsafe", unsafe)) if not row.verified]
    if grown:
        notes.append(f"inputs larger than the algorithm needs, for both: {grown}")
    return TailsRow(source.label, circumstances, safe.verified_ms, unsafe.verified_ms, "; ".join(notes))


def _saved(schedule: Schedule, file: Path) -> Scheduler:
    schedule.save(file)
    return Scheduler.of_file(file)


def tails_table(rows: Sequence[TailsRow]) -> TextTable:
    """Return run times with safe and with unsafe tails, and their ratios with the geometric mean."""
    lines = [(row.app, number_cell(row.safe_ms), number_cell(row.unsafe_ms), _ratio(row.ratio)) for row in rows]
    known = [row.ratio for row in rows if row.ratio is not None]
    mean = f"{_ratio(geometric_mean(known))} ({len(known)})" if known else NOTHING
    headers = ("app", "safe tails (ms)", "unsafe tails (ms)", "safe / unsafe")
    summary = (("geometric mean (apps)", "", "", mean),)
    return TextTable("Run time of one loop nest at the estimated size", headers, tuple(lines), summary)


def tails_notes(rows: Sequence[TailsRow]) -> tuple[str, ...]:
    """Return what a reader of the table must know."""
    return tuple(f"{row.app}: {row.note}" for row in rows if row.note)


def _ratio(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.3f}"
