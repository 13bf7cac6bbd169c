"""Tables of measurements: for a terminal, and as Markdown for the docs, from one and the same content.

In: rows. Out: run times per application and scheduler, the speed-up of one scheduler over each of the others with
their geometric means, search times, and what went wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from metol.bench import BenchReport
from metol.errors import MetolError
from metol.measure import Measurement, Status

__all__ = ["TextTable", "bench_tables", "geometric_mean", "notes", "update_markdown"]

BEGIN_MARK = "<!-- metol bench: begin (generated, do not edit) -->"
END_MARK = "<!-- metol bench: end -->"

_UNVERIFIED = "†"
_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text; the first column is left-aligned, the others hold numbers."""

    title: str
    """What it shows, with its unit."""
    headers: tuple[str, ...]
    """One for each column."""
    rows: tuple[tuple[str, ...], ...]
    """As wide as `headers`."""
    summary: tuple[tuple[str, ...], ...] = ()
    """Rows below a line."""

    def to_rich(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for place, header in enumerate(self.headers):
            table.add_column(header, justify="left" if place == 0 else "right")
        for place, row in enumerate(self.rows):
            table.add_row(*row, end_section=place == len(self.rows) - 1)
        for row in self.summary:
            table.add_row(*row, style="bold")
        return table

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.headers, ("---", *["---:"] * (len(self.headers) - 1)), *self.rows]
        lines += [tuple(f"**{cell}**" if cell else "" for cell in row) for row in self.summary]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def bench_tables(rows: Sequence[Measurement]) -> tuple[TextTable, TextTable]:
    """Return the table of run times and speed-ups, and that of search times.

    Speed-ups are those of ``metol`` or, where it was not measured, of the first scheduler, over each of the others.
    """
    schedulers = tuple(dict.fromkeys(row.scheduler for row in rows))
    by_app: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        by_app.setdefault(row.app, {})[row.scheduler] = row
    subject = next((s for s in schedulers if s.partition(":")[0] == "metol"), schedulers[0] if schedulers else "")
    others = tuple(s for s in schedulers if s != subject)
    lines = []
    speedups: dict[str, list[float]] = {other: [] for other in others}
    for app, cells in by_app.items():
        ratios = []
        for other in others:
            ratio = _speedup(cells.get(subject), cells.get(other))
            ratios.append(f"{ratio:.2f}×" if ratio else _NOTHING)
            speedups[other] += [ratio] if ratio else []
        lines.append((app, *(_run_cell(cells.get(s)) for s in schedulers), *ratios))
    means = (f"{geometric_mean(s):.2f}× ({len(s)})" if s else _NOTHING for s in speedups.values())
    run_times = TextTable(
        f"Run time (ms), and how many times faster {subject} is",
        ("app", *schedulers, *(f"vs {other}" for other in others)),
        tuple(lines),
        (("geometric mean (apps)", *[""] * len(schedulers), *means),) if others else (),
    )
    search_lines = ((app, *(_search_cell(cells.get(s)) for s in schedulers)) for app, cells in by_app.items())
    search_times = TextTable("Search time (s)", ("app", *schedulers), tuple(search_lines))
    return run_times, search_times


def notes(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what a reader of the tables must know: marks that occur, and the reason of every failure."""
    lines = []
    if any(row.is_ok and not row.verified for row in rows):
        lines.append(f"{_UNVERIFIED} right at the size it was made for, but it refuses to run at a smaller one.")
    failures = (row for row in rows if not row.is_ok)
    lines += [f"{row.app}, {row.scheduler}: {row.status.value}: {row.detail}" for row in failures]
    return tuple(lines)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, of which there must be one at least."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def update_markdown(path: Path, report: BenchReport) -> None:
    """Put the tables between the marks in a Markdown file; make the file where there is none.

    Raises:
        MetolError: the file exists and lacks the marks.
    """
    text = path.read_text() if path.exists() else f"# Benchmarks\n\n{BEGIN_MARK}\n{END_MARK}\n"
    before, begin, rest = text.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not (begin and end):
        raise MetolError(f"`{path}` has no place for the table; put the lines `{BEGIN_MARK}` and `{END_MARK}` into it.")
    tables = "\n".join(table.to_markdown() for table in bench_tables(report.rows))
    remarks = "".join(f"- {line.replace('|', '/')}\n" for line in notes(report.rows))
    origin = f"Made by `{report.command}` with {report.threads} threads on {report.provenance.text}.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN_MARK}\n{origin}\n{tables}\n{remarks}{END_MARK}{after}")


def _speedup(subject: Measurement | None, other: Measurement | None) -> float | None:
    """Return how many times faster `subject` is; only where both are right."""
    if subject is None or other is None or not (subject.is_ok and other.is_ok):
        return None
    return other.run_ms / subject.run_ms if subject.run_ms and other.run_ms else None


def _run_cell(row: Measurement | None) -> str:
    if row is None:
        return _NOTHING
    if not row.is_ok:
        return row.status.value
    if row.run_ms is None:
        return "verified" if row.verified else _NOTHING
    return _three_digits(row.run_ms) + ("" if row.verified else f" {_UNVERIFIED}")


def _search_cell(row: Measurement | None) -> str:
    if row is None or row.schedule_seconds is None:
        return "timeout" if row is not None and row.status is Status.TIMEOUT else _NOTHING
    return _three_digits(row.schedule_seconds)


def _three_digits(value: float) -> str:
    """Return a number with three significant digits, and no fewer decimals than that takes."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
