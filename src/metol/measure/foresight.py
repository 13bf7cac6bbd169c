"""Judges a schedule in a fork of this process, ahead of the question: the child's side of `Acceptance.foresee`.

Enters: a gate, and schedules as JSON. Leaves: what the gate says of the last of them. A fork has the pipeline, and the
reference that the gate compares with, at once, and takes what it spends with it when it is no longer wanted. Only for a
process of one thread: any other would be missing in the fork.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from metol.measure.serving import die_with_parent

__all__ = ["Foresight"]


@dataclass(frozen=True, slots=True)
class _Fork:
    """A process that judges one schedule."""

    schedule: str
    pid: int
    answer_fd: int


class Foresight:
    """What may be asked next, judged in a fork; one schedule at a time."""

    def __init__(self, judge: Callable[[str], str]) -> None:
        """Take what tells of a schedule, as JSON, why it is refused, or "" where it is not."""
        self._judge = judge
        self._fork: _Fork | None = None

    def begin(self, schedule: str) -> None:
        """Judge a schedule from now on, in place of the one before."""
        self.end()
        parent = os.getpid()
        answer_read, answer_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(answer_read)
                if die_with_parent(parent):
                    with os.fdopen(answer_write, "w") as answers:
                        answers.write(self._judge(schedule))
                    status = 0
            finally:
                os._exit(status)  # nothing of what the process would do at its end is the fork's to do
        os.close(answer_write)
        self._fork = _Fork(schedule, pid, answer_read)

    def take(self, schedule: str) -> str | None:
        """Return what became of a schedule, after waiting for it; None where it is to be judged anew.

        That is so where it was not the last to begin, or where the fork came to a bad end: what asks is to meet the
        same, and to tell of it.
        """
        fork = self._fork
        if fork is None or fork.schedule != schedule:
            self.end()
            return None
        with os.fdopen(fork.answer_fd, "r") as answers:
            refusal = answers.read()
        self._fork = None
        _, status = os.waitpid(fork.pid, 0)
        return refusal if status == 0 else None

    def end(self) -> None:
        """Forget what was begun."""
        if self._fork is None:
            return
        os.kill(self._fork.pid, signal.SIGKILL)
        os.waitpid(self._fork.pid, 0)
        os.close(self._fork.answer_fd)
        self._fork = None
