"""How tuning is going, for whoever watches.

In: steps. Out: a line on stderr that changes, on a terminal, and a line a step elsewhere.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from metol.console import say

__all__ = ["Progress", "TuningProgress", "shown_progress", "tell_how_to_stop"]


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """One pipeline's state, told after every step."""

    label: str
    """The pipeline."""
    step: str
    """What is being done, such as ``searching`` or ``final race``."""
    trials: int = 0
    """Schedules that were compiled so far."""
    failures: int = 0
    """Of these, those that failed."""
    best_ms: float | None = None
    """Milliseconds of the best so far."""
    speedup_over_safe: float | None = None
    """How many times as fast as the safe schedule that is."""
    seconds_left: float = math.inf
    """Until the budget ends."""
    trials_left: int | None = None
    """Until the budget ends, where trials are limited."""

    @property
    def text(self) -> str:
        """One line for a person."""
        parts = [f"{self.label}: {self.step}", f"{self.trials} trials"]
        if self.failures:
            parts.append(f"{self.failures} failed")
        if self.best_ms is not None:
            gain = "" if self.speedup_over_safe is None else f" ({self.speedup_over_safe:.2f}x safe)"
            parts.append(f"best {self.best_ms:.4g} ms{gain}")
        if self.trials_left is not None:
            parts.append(f"{self.trials_left} trials left")
        if math.isfinite(self.seconds_left):
            parts.append(f"{self.seconds_left:.0f} s left")
        return ", ".join(parts)


Progress = Callable[[TuningProgress], None]
"""Told after every step."""


@contextlib.contextmanager
def shown_progress(*, is_always: bool = False) -> Iterator[Progress]:
    """Yield what shows progress on stderr: on a terminal, and elsewhere only if `is_always` says so."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda progress: status.update(escape(progress.text))
    elif is_always:
        yield lambda progress: console.print(escape(progress.text))
    else:
        yield lambda _: None


def tell_how_to_stop() -> None:
    """Say what the first interrupt does, and what a second would."""
    say("finishing with the best schedule measured so far; Ctrl-C again gives up")
