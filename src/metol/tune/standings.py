"""Who is ahead: the scores of all schedules that were measured, each once.

In: proposals and their outcomes. Out: the best few to go on from, and how much faster the best is than others.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from metol.lower import Schedule
from metol.tune.proposals import Proposal, directives_text
from metol.tune.record import Record

__all__ = ["Standing", "Standings"]


@dataclass(frozen=True, slots=True)
class Standing:
    """One schedule that was right."""

    proposal: Proposal
    """What was measured."""
    record: Record
    """Its record."""
    score_ms: float
    """Milliseconds that compare with those of all others, whenever they were measured."""


class Standings:
    """The schedules of one pipeline."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._tried: set[str] = set()

    @property
    def tried(self) -> Collection[str]:
        """The texts of all schedules that need not be measured again, those that failed included."""
        return self._tried

    def note_tried(self, text: str) -> None:
        """Remember that a schedule was measured, now or in an earlier run."""
        self._tried.add(text)

    def add(self, standing: Standing) -> None:
        """Take what was measured and right; of one schedule that was measured twice, the later."""
        self._standings[standing.proposal.text] = standing

    def drop(self, proposal: Proposal) -> None:
        """Forget one that turned out to be of no use."""
        self._standings.pop(proposal.text, None)

    def ranked(self) -> list[Standing]:
        """Return all, the fastest first."""
        return sorted(self._standings.values(), key=lambda standing: standing.score_ms)

    @property
    def best(self) -> Standing | None:
        """The fastest; None where none was right."""
        return min(self._standings.values(), key=lambda standing: standing.score_ms, default=None)

    def by_origin(self) -> dict[str, Standing]:
        """Return the best of each origin."""
        found: dict[str, Standing] = {}
        for standing in self.ranked():
            found.setdefault(standing.proposal.origin, standing)
        return found

    def find(self, schedule: Schedule) -> Standing | None:
        """Return the standing of a schedule; None where it has none."""
        return self._standings.get(directives_text(schedule))

    def rescore(self, schedule: Schedule, score_ms: float) -> None:
        """Take a score that is known better now than when it was added."""
        standing = self.find(schedule)
        if standing is not None:
            self._standings[standing.proposal.text] = replace(standing, score_ms=score_ms)

    def __len__(self) -> int:
        return len(self._standings)

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._standings.values())
