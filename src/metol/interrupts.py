"""What Ctrl-C and SIGTERM do: the one ends a search with the best found so far, and neither leaves anything half done.

Signals are Python's to handle in the main thread alone; elsewhere these do nothing.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["TerminatedError", "first_interrupt", "orderly_termination", "uninterrupted"]


class TerminatedError(BaseException):
    """The process was asked to end by SIGTERM: like KeyboardInterrupt, not to be caught by who handles errors."""


@contextlib.contextmanager
def orderly_termination() -> Iterator[None]:
    """Let the first SIGTERM within the block raise `TerminatedError`, so that temporary files are removed.

    A second one ends the process at once.
    """

    def end(number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise TerminatedError

    with _handler(end, signal.SIGTERM):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interrupt back until the block has ended."""
    pending: list[int] = []
    with _handler(lambda number: pending.append(number)):
        yield
    if pending:
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def first_interrupt(tell: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Turn the first interrupt within the block into a wish, which the function yielded reports; a second one raises.

    Args:
        tell: called once, at the first interrupt.
    """
    seen: list[int] = []

    def note(number: int) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        tell()

    with _handler(note):
        yield lambda: bool(seen)


@contextlib.contextmanager
def _handler(handle: Callable[[int], None], number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """Handle a signal within the block, where that is ours to do: not in a thread, nor over a handler of C code."""
    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(number) if is_main else None
    if previous is None:
        yield
        return
    signal.signal(number, lambda received, _frame: handle(received))
    try:
        yield
    finally:
        signal.signal(number, previous)
