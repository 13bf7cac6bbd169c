"""What Halide's own autoschedulers would do, as schedules that are right at every size of the output.

In: a pipeline source, and a judge of schedules. Out: one `PeerSeed` for each autoscheduler, the quickest one first.
Their schedules keep their loops and places; tails are changed so that the judge accepts them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from metol.errors import ScheduleFormatError
from metol.lower import NO_PROMISES, LoweringOptions, Schedule, mend_schedule, read_cpp
from metol.measure import PEERS, PipelineSource, RunOptions, Scheduler, ask_peer
from metol.pipeline import PipelineDag

__all__ = ["PeerSeed", "peer_schedules"]

# From milliseconds to minutes: whoever waits has the first ones soon.
_QUICKEST_FIRST = ("mullapudi2016", "adams2019-greedy", "adams2019")


@dataclass(frozen=True, slots=True)
class PeerSeed:
    """What became of the schedule of one autoscheduler."""

    origin: str
    """Its name in `PEERS`, with its options."""
    schedule: Schedule | None = None
    """Its schedule, mended and accepted; None where there is none."""
    failure: str = ""
    """Why there is none; empty where there is."""
    printed: Schedule | None = None
    """Its schedule as it is, before its tails were mended."""


def peer_schedules(
    source: PipelineSource,
    frame: Schedule,
    dag: PipelineDag,
    peers: Sequence[str] = tuple(PEERS),
    *,
    refuse: Callable[[Schedule], str],
    threads: int,
    limit_seconds: float,
    options: LoweringOptions = NO_PROMISES,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[PeerSeed]:
    """Ask autoschedulers for schedules, one after the other, and mend what they answer.

    Args:
        source: what to schedule.
        frame: what the schedules are for, without directives.
        dag: the pipeline, as the frame has it.
        peers: names in `PEERS`, with options if need be, such as ``adams2019:beam_size=4``.
        refuse: tells why a schedule must not be used, or "".
        threads: threads that the schedules will run with.
        limit_seconds: how long all of them may take together; Adams2019 can need minutes.
        options: what the user promised about the outputs.
        is_cancelled: asked now and then; True ends the one at work, and no other is asked.
    """
    end = time.monotonic() + limit_seconds
    for peer in _in_order(peers):
        if is_cancelled():
            return
        left_seconds = end - time.monotonic()
        if left_seconds <= 0:
            yield PeerSeed(peer, failure=f"not asked: the others took {limit_seconds:.3g} s")
            continue
        run_options = RunOptions(threads=threads, timeout_seconds=left_seconds, target=frame.target, timing=None)
        answer = ask_peer(source, Scheduler.parse(peer), run_options, is_cancelled)
        if answer.failure:
            yield PeerSeed(peer, failure=answer.failure)
        else:
            yield _seed(peer, answer.cpp, frame, dag, refuse, options)


def _in_order(peers: Sequence[str]) -> list[str]:
    return sorted(peers, key=lambda peer: _QUICKEST_FIRST.index(Scheduler.parse(peer).name))


def _seed(
    peer: str,
    cpp: str,
    frame: Schedule,
    dag: PipelineDag,
    refuse: Callable[[Schedule], str],
    options: LoweringOptions,
) -> PeerSeed:
    try:
        printed = read_cpp(cpp, frame, dag)
        schedule, refusal = mend_schedule(printed, dag, refuse, options)
    except ScheduleFormatError as error:
        return PeerSeed(peer, failure=str(error))
    return PeerSeed(peer, schedule, refusal, printed)
