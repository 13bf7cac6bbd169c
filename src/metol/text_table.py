"""A table of text: for a terminal, and as Markdown between marks of a page, from one and the same content."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from metol.destinations import write_text
from metol.errors import MetolError

__all__ = [
    "NOTHING",
    "UNVERIFIED",
    "UNVERIFIED_NOTE",
    "TextTable",
    "geometric_mean",
    "marks_of",
    "number_cell",
    "put_tables",
    "require_marks",
    "three_digits",
]

NOTHING = "–"
"""What stands in a cell of which nothing is known."""

UNVERIFIED = "†"
"""What stands after the run time of a schedule that is right at the size it was made for alone."""

UNVERIFIED_NOTE = f"{UNVERIFIED} right at the size it was made for, but it refuses to run at a smaller one."
"""What a reader of the mark must know."""


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


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, of which there must be one at least."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def marks_of(command: str) -> tuple[str, str]:
    """Return the lines of a Markdown file between which the tables of a command stand."""
    return f"<!-- {command}: begin (generated, do not edit) -->", f"<!-- {command}: end -->"


def require_marks(path: Path, marks: tuple[str, str]) -> None:
    """Raise MetolError where a Markdown file exists and lacks the marks."""
    if path.exists():
        _parts(path, marks)


def put_tables(
    path: Path, marks: tuple[str, str], origin: str, tables: Sequence[TextTable], remarks: Sequence[str]
) -> None:
    """Put tables between two lines of a Markdown file; make the file where there is none.

    Args:
        path: the file.
        marks: the lines.
        origin: how the tables were made.
        tables: in their order.
        remarks: what a reader must know of them.

    Raises:
        MetolError: the file exists and lacks the marks.
    """
    if not path.exists():
        write_text(path, f"# Benchmarks\n\n{marks[0]}\n{marks[1]}\n")
    before, after = _parts(path, marks)
    text = "\n".join(table.to_markdown() for table in tables)
    lines = "".join(f"- {line.replace('|', '/')}\n" for line in remarks)
    write_text(path, f"{before}{marks[0]}\n{origin}\n\n{text}\n{lines}{marks[1]}{after}")


def _parts(path: Path, marks: tuple[str, str]) -> tuple[str, str]:
    """What stands before and after the marks."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetolError(f"`{path}` cannot be read as Markdown: {error}.") from error
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise MetolError(f"`{path}` has no place for the table; put the lines `{marks[0]}` and `{marks[1]}` into it.")
    return before, after


def three_digits(value: float) -> str:
    """Return a number with three significant digits, and no fewer decimals than that takes."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number_cell(value: float | None) -> str:
    """Return a number as a table has it: with three digits, or NOTHING where it is unknown."""
    return NOTHING if value is None else three_digits(value)
