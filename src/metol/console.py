"""What commands print beside their output: lines for a person, and tables that are wide enough.

In: text with rich's markup, which values must be escaped for. Out: stderr, or a console for stdout.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from metol.findings import Check

__all__ = ["print_checks", "say", "wide_console"]

_FILE_WIDTH = 400
_COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


def say(text: str) -> None:
    """Tell a person something, beside the output of the command."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(text)


def wide_console() -> "Console":
    """Return a console that is wide enough for every column where nobody looks at a terminal."""
    from rich.console import Console

    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def print_checks(checks: "Iterable[Check]") -> None:
    """Print a table of what was looked at, how it is and what to do."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("check", "", "found", "what to do", box=None)
    for check in checks:
        outcome = check.outcome.value
        table.add_row(check.name, f"[{_COLORS[outcome]}]{outcome}[/]", escape(check.found), escape(check.advice))
    wide_console().print(table)
