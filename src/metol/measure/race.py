"""A race: compiled schedules are timed in turn, round after round, and the slower half falls out every few rounds.

In: trials that have been verified, and which of them stay to the end. Out: their measurements, and how fast each is
beside the others in the rounds that they share. Source of the elimination: Jamieson and Talwalkar 2016, Non-stochastic
best arm identification (successive halving).
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from metol.measure.canary import Drift
from metol.measure.timing import TimingPlan, has_settled

__all__ = ["Canary", "Contestant", "Race", "RacePlan"]


class Contestant(Protocol):
    """What a race times: a `Trial`, or a test's stand-in."""

    @property
    def is_alive(self) -> bool:
        """Whether it can still be timed."""
        ...

    def time_round(self, case: str, plan: TimingPlan, give_up_ms: float = 0.0) -> float | None:
        """Take one round of samples, and return its median; None where the code died of it."""
        ...

    def forget_round(self) -> None:
        """Take the last round back."""
        ...


Canary = Callable[[], float | None]
"""Times the canary once: its milliseconds, or None where it cannot be had."""


@dataclass(frozen=True, slots=True)
class RacePlan:
    """How long a race goes on, and who falls out of it."""

    stages: tuple[int, ...] = (1, 1, 2, 5)
    """Rounds between two eliminations; the last stage ends when all medians are known (`timing`)."""
    clear_loss: float = 1.3
    """Whoever takes this many times as long as the best falls out after the first round."""
    photo_finish: float = 1.03
    """Whoever is this close to the best never falls out."""
    give_up: float = 4.0
    """A first run that takes this many times as long as the best so far, and longer than the round, is all of it."""
    most_retakes: int = 3
    """Rounds that may be taken again because the canary told of a disturbance."""
    timing: TimingPlan = field(default_factory=lambda: TimingPlan(round_seconds=0.1, spread=0.01))
    """How long one round of one contestant is, and when a median is known."""


class Race:
    """One race on one case."""

    def __init__(self, plan: RacePlan, case: str, drift: Drift, canary: Canary = lambda: None) -> None:
        self._plan = plan
        self._case = case
        self._drift = drift
        self._canary = canary
        self._retakes = 0
        self._rounds: list[dict[int, float]] = []
        """Of each round, the milliseconds of each contestant by its place."""

    def run(self, contestants: Sequence[Contestant], stayers: frozenset[int], is_cancelled: Callable[[], bool]) -> None:
        """Time all, and fewer and fewer of them; `stayers`, by place, never fall out."""
        live = [place for place, contestant in enumerate(contestants) if contestant.is_alive]
        for stage, count in enumerate(self._plan.stages):
            is_last = stage == len(self._plan.stages) - 1
            for _ in range(count):
                if not live or (is_cancelled() and self._rounds) or (is_last and self._is_settled(live)):
                    return
                self._round(contestants, live)
                live = [place for place in live if contestants[place].is_alive]
            if stage < len(self._plan.stages) - 1:
                live = self._survivors(live, stayers, is_first=stage == 0)

    def ratios(self, reference: int) -> Mapping[int, float]:
        """Return by place how many times as long as the reference each takes.

        That is the median of the ratios in the rounds that both ran in. Of whoever ran in one or two, it is their
        median against the reference's of the whole race: a round in which the reference was disturbed would else make
        all that fell out after it look fast.
        """
        pairs: dict[int, list[float]] = {}
        for taken in self._rounds:
            if reference in taken:
                for place, ms in taken.items():
                    pairs.setdefault(place, []).append(ms / taken[reference])
        medians = self._medians({place for taken in self._rounds for place in taken})
        return {
            place: statistics.median(found) if len(found) > 2 else medians[place] / medians[reference]
            for place, found in pairs.items()
        }

    def _is_settled(self, live: Sequence[int]) -> bool:
        """Whether nothing more can be learned: all medians are known well, or one alone is left."""
        rounds = {place: [[taken[place]] for taken in self._rounds if place in taken] for place in live}
        return all(has_settled(taken, self._plan.timing) for taken in rounds.values())

    def fastest(self) -> int | None:
        """Return the place of the fastest that ran in the last round; None where nobody did."""
        lasting = self._medians(self._rounds[-1]) if self._rounds else {}
        return min(lasting, key=lambda place: lasting[place], default=None)

    def _round(self, contestants: Sequence[Contestant], live: Sequence[int]) -> None:
        """Give everybody a turn, once more where the machine was disturbed meanwhile."""
        while True:
            taken = self._turns(contestants, live)
            canary_ms = self._canary()
            is_disturbed = canary_ms is not None and self._drift.is_disturbed(canary_ms)
            if not is_disturbed or self._retakes == self._plan.most_retakes or not taken:
                break
            self._retakes += 1
            for place in taken:
                if contestants[place].is_alive:
                    contestants[place].forget_round()
        if taken:
            self._rounds.append(taken)

    def _turns(self, contestants: Sequence[Contestant], live: Sequence[int]) -> dict[int, float]:
        best = min(self._medians(live).values(), default=math.inf)
        taken: dict[int, float] = {}
        # Each round begins with another, for whoever follows a slow one may find other caches and clocks.
        first = len(self._rounds) % max(1, len(live))
        for place in [*live[first:], *live[:first]]:
            if not contestants[place].is_alive:
                continue
            best = min([best, *taken.values()])
            give_up_ms = 0.0 if math.isinf(best) else best * self._plan.give_up
            ms = contestants[place].time_round(self._case, self._plan.timing, give_up_ms)
            if ms is not None:
                taken[place] = ms
        return taken

    def _survivors(self, live: Sequence[int], stayers: frozenset[int], *, is_first: bool) -> list[int]:
        """The better half, whoever is as good as the best, and those who stay."""
        medians = self._medians(live)
        ranked = sorted((place for place in live if place in medians), key=lambda place: medians[place])
        if not ranked:
            return list(live)
        best = medians[ranked[0]]
        limit = self._plan.clear_loss if is_first else math.inf
        half = {place for place in ranked[: (len(ranked) + 1) // 2] if medians[place] <= best * limit}
        close = {place for place in ranked if medians[place] <= best * self._plan.photo_finish}
        return [place for place in live if place in half | close | stayers]

    def _medians(self, live: Iterable[int]) -> dict[int, float]:
        """The median of the rounds so far of those who have had one."""
        found = {place: [taken[place] for taken in self._rounds if place in taken] for place in live}
        return {place: statistics.median(times) for place, times in found.items() if times}
