"""A table of text: for a terminal, and as Markdown between marks of a page, from one and the same content."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from metol.errors import MetolError

__all__ = ["NOTHING", "TextTable", "geometric_mean", "replace_between", "three_digits"]

NOTHING = "–"
"""What stands in a cell of which nothing is known."""


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


def replace_between(path: Path, marks: tuple[str, str], body: str) -> None:
    """Put text between two lines of a Markdown file; make the file where there is none."""
    text = path.read_text() if path.exists() else f"# Benchmarks\n\n{marks[0]}\n{marks[1]}\n"
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise MetolError(f"`{path}` has no place for the table; put the lines `{marks[0]}` and `{marks[1]}` into it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n{body}{end}{after}")


def three_digits(value: float) -> str:
    """Return a number with three significant digits, and no fewer decimals than that takes."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
