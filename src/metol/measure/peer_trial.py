"""What one of Halide's own autoschedulers would do with a pipeline.

In, for the parent: a pipeline source and a scheduler. Out: a `PeerAnswer`, whatever becomes of the child process that
the autoscheduler runs in: some abort it, some take minutes. In, for the child: the pipeline. Out: `PeerText`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metol.errors import MetolError
from metol.measure import messages as m
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError, physical_memory_bytes
from metol.measure.scheduler import PEERS, Scheduler
from metol.measure.source import PipelineSource
from metol.measure.trial import RunOptions

__all__ = ["PeerAnswer", "answer_of_peer", "ask_peer"]

# Enough for any pipeline that an autoscheduler finishes with in minutes.
_MEMORY_SHARE = 0.5
# How long a person who cancels waits at most.
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What an autoscheduler answered."""

    cpp: str = ""
    """The schedule in C++, as it prints it; empty where it failed."""
    failure: str = ""
    """Why there is none; empty where there is."""
    seconds: float = 0.0
    """How long it took, with starting the process and building the pipeline."""


def ask_peer(
    source: PipelineSource,
    peer: Scheduler,
    options: RunOptions,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> PeerAnswer:
    """Ask one of `PEERS` for a schedule, in a fresh child process.

    Args:
        source: what to schedule.
        peer: what schedules it.
        options: threads and target of the schedule, and how long everything may take.
        is_cancelled: asked ten times a second; True ends the child.

    Raises:
        MetolError: the scheduler is none of `PEERS`.
    """
    if peer.name not in PEERS:
        raise MetolError(f"`{peer}` does not print schedules in C++; ask one of {', '.join(PEERS)}.")
    started = time.monotonic()
    limit = started + options.timeout_seconds
    cpp, failure = "", ""
    with Child(threads=options.threads, memory_bytes=int(_MEMORY_SHARE * physical_memory_bytes())) as child:
        try:
            built = _ask(child, m.Build(str(source), options.target), limit, is_cancelled)
            answer = built if isinstance(built, m.Failure) else None
            answer = answer or _ask(child, m.AskPeer(str(peer), options.threads), limit, is_cancelled)
            if isinstance(answer, m.Failure):
                failure = f"{answer.error}: {answer.message}"
            else:
                cpp = answer.cpp
        except _CancelledError:
            failure = "cancelled"
        except ChildTimeoutError:
            failure = f"timeout: over {options.timeout_seconds:.3g} s"
        except ChildDiedError as death:
            failure = f"crash: {death}"
    return PeerAnswer(cpp, failure, time.monotonic() - started)


class _CancelledError(Exception):
    """Nobody waits for the answer any more."""


def _ask(child: Child, request: m.Request, limit: float, is_cancelled: Callable[[], bool]) -> Any:
    """Send a request and return the answer, unless it takes beyond a moment of the monotonic clock."""
    child.send(request)
    while not child.has_answer(min(_POLL_SECONDS, max(0.0, limit - time.monotonic()))):
        if is_cancelled():
            raise _CancelledError
        if time.monotonic() >= limit:
            break
    return child.receive(max(0.0, limit - time.monotonic()))


def answer_of_peer(scheduler: Scheduler, pipeline: Any, target: Any, threads: int) -> m.PeerText:
    """Let an autoscheduler schedule `pipeline`, which carries no schedule, in the child process."""
    start = time.perf_counter()
    cpp = scheduler.peer_schedule(pipeline, target, threads)
    return m.PeerText(cpp, time.perf_counter() - start)
