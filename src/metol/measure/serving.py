"""The child's end of a child process: it answers what its parent asks, until that has no more to ask.

Enters: what answers requests. Requests arrive on stdin, answers leave on a descriptor of their own, and whatever Halide
or the user's builder prints goes to stderr. It may crash, hang or be killed at any moment: the parent records that.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
from pathlib import Path
from typing import IO, Any, Protocol

from metol.errors import BuilderError, MetolError
from metol.measure.message import Failure, Message, decode, encode

__all__ = ["Session", "die_with_parent", "error_text", "serve_parent"]

# From <sys/prctl.h>: the signal that this process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


class Session(Protocol):
    """What a child does."""

    def answer(self, request: Any) -> Message:
        """Do what is asked; exceptions are the caller's to report."""

    def explain(self, error: Exception) -> str:
        """Return what an exception says."""

    def use_pause(self) -> None:
        """Do what the next request will need, while there is none; whatever is wrong shows again then."""


def serve_parent(session: Session, answer_fd: int, parent: int, threads: int, memory_bytes: int) -> None:
    """Answer requests until stdin ends.

    Args:
        session: what answers.
        answer_fd: where answers go.
        parent: the number of the process that asks; this one dies with it.
        threads: how many threads Halide uses.
        memory_bytes: how much address space there may be; 0 for no limit.
    """
    _confine(parent, threads, memory_bytes)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    gc.disable()  # a collection in the middle of a sample would count as the schedule's
    with open(answer_fd, "wb", buffering=0) as answers:
        _serve(session, sys.stdin.buffer, answers)


def die_with_parent(parent: int) -> bool:
    """Let this process be killed when its parent dies; False where that has happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def error_text(error: Exception) -> str:
    """Return what an error says, in one line."""
    # What a driver of OpenCL says may be no text of ours, and Halide hands it on as it is.
    text = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _serve(session: Session, requests: IO[bytes], answers: Any) -> None:
    for line in requests:
        try:
            answer = session.answer(decode(line))
        except Exception as error:  # noqa: BLE001, the boundary of the child process: whatever it is, it is an outcome
            # What the author's code raises in a child alone is what became of it here.
            raised = error.__cause__ if isinstance(error, BuilderError) else None
            outcome = raised if isinstance(raised, Exception) else error
            answer = Failure(type(outcome).__name__, session.explain(outcome), isinstance(outcome, MetolError))
        answers.write(encode(answer))
        with contextlib.suppress(Exception):
            session.use_pause()


def _confine(parent: int, threads: int, memory_bytes: int) -> None:
    """Bound the threads and the memory of this process, and let it die with its parent."""
    if not die_with_parent(parent):
        sys.exit("the parent is gone")
    # Halide's runtime reads this when it first needs its threads.
    os.environ["HL_NUM_THREADS"] = str(threads)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Where memory runs out nevertheless, the kernel is to choose this process and not the one that tunes.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
