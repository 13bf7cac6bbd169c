"""Measured descent around a schedule that no search of ours made: the same calls with one number or flag changed.

Enters: a schedule as its autoscheduler printed it, and what mending made of it. Leave: proposals with one factor twice
or half as large, or one loop no longer unrolled, mended the same way. There is no loop nest, so the cost model cannot
rank them: they come in random order.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from metol.errors import ScheduleFormatError
from metol.lower import Call, Directive, Schedule, mended_versions
from metol.planner import Planner
from metol.tune.proposals import Proposal

__all__ = ["ForeignNeighbours"]

_MOST_FACTOR = 4096


class ForeignNeighbours:
    """What lies around one measured schedule of somebody else's."""

    def __init__(self, planner: Planner, start: Proposal, seed: int) -> None:
        """Take a proposal whose `printed` schedule is known."""
        assert start.printed is not None
        self._planner = planner
        self._care = self._care_of(start.printed, start.schedule)
        changed = list(_changed(start.printed.directives))
        order = np.random.default_rng(seed).permutation(len(changed))
        self._waiting = [replace(start.printed, directives=changed[place]) for place in order]

    def draw(self, count: int, tried: Collection[str]) -> list[Proposal]:
        """Return up to `count` proposals that were not tried; fewer, or none, where all around has been."""
        chosen: dict[str, Proposal] = {}
        while self._waiting and len(chosen) < count:
            printed = self._waiting.pop()
            schedule = self._mended(printed)
            if schedule is None:
                continue
            proposal = Proposal("neighbour", schedule, is_foreign=True, printed=printed)
            if proposal.text not in tried:
                chosen.setdefault(proposal.text, proposal)
        return list(chosen.values())

    def _care_of(self, printed: Schedule, mended: Schedule) -> int:
        """Which of the versions that mending makes was accepted."""
        versions = mended_versions(printed, self._planner.dag, self._planner.lowering)
        return next((place for place, one in enumerate(versions) if one.directives == mended.directives), 0)

    def _mended(self, printed: Schedule) -> Schedule | None:
        """The version that is as careful as that of the start, or the most careful; None where there is none."""
        last = None
        try:
            for place, one in enumerate(mended_versions(printed, self._planner.dag, self._planner.lowering)):
                last = one
                if place == self._care:
                    break
        except ScheduleFormatError:
            return None
        return last


def _changed(directives: tuple[Directive, ...]) -> Iterator[tuple[Directive, ...]]:
    """Yield the directives with one of them changed."""
    for place, directive in enumerate(directives):
        before, after = directives[:place], directives[place + 1 :]
        if directive.call is Call.UNROLL:
            yield before + after
        if directive.call is Call.SPLIT:
            old, outer, inner, factor, tail = directive.args
            assert isinstance(factor, int)
            for other in (factor * 2, factor // 2):
                if 2 <= other <= _MOST_FACTOR:
                    changed = replace(directive, args=(old, outer, inner, other, tail))
                    yield (*before, changed, *after)
