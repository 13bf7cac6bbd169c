"""What commands print beside their output: lines for a person, and tables that are wide enough.

In: text with rich's markup, which values must be escaped for. Out: stderr, or a console for stdout.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["say", "wide_console"]

_FILE_WIDTH = 300


def say(text: str) -> None:
    """Tell a person something, beside the output of the command."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(text)


def wide_console() -> "Console":
    """Return a console that is wide enough for every column where nobody looks at a terminal."""
    from rich.console import Console

    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_FILE_WIDTH)
