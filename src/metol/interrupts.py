"""What Ctrl-C does: it ends a search with the best found so far, and it never leaves a pipeline half scheduled.

Signals are Python's to handle in the main thread alone; elsewhere these do nothing.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["first_interrupt", "uninterrupted"]


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
def _handler(handle: Callable[[int], None]) -> Iterator[None]:
    """Handle SIGINT within the block, where that is ours to do: not in a thread, nor over a handler of C code."""
    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(signal.SIGINT) if is_main else None
    if previous is None:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _frame: handle(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
