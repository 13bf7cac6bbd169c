"""What a pass teaches the next: structural hashes that led to good results, and those that proved bad.

A pass enters as the hashes of all that it costed and of the ancestors of its best results. Leaves: which states the
next pass considers, or what it makes them pay. Sources: Adams et al. 2019, §3.2; Anderson et al. 2021, §4.5.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metol.search.strategy import run_starts

__all__ = ["HashLessons", "Hashes", "distinct_hashes"]

Hashes = npt.NDArray[np.uint64]  # [B] uint64


@dataclass(frozen=True, slots=True)
class HashLessons:
    """Structural hashes of one depth, and what became of the states that have them."""

    promising: Hashes
    """Of states on the way to a good result, sorted."""
    seen: Hashes
    """Of all states that were costed, sorted; what is seen and not promising proved bad."""

    def factors(self, hashes: Hashes, penalty: float) -> npt.NDArray[np.float64]:
        """Return how many times its cost each state counts as.

        Args:
            hashes: Of the states, at the depth of these lessons.
            penalty: By how much a state whose hash proved bad costs more, as a share of its cost; one whose hash was
                not seen before costs what it costs. Infinity: whatever is not promising, seen or not, is out of
                question, unless nothing is left then.
        """
        is_promising = _is_in(hashes, self.promising)
        if math.isinf(penalty):
            return np.where(is_promising, 1.0, np.inf) if is_promising.any() else np.ones(len(hashes))
        return np.where(_is_in(hashes, self.seen) & ~is_promising, 1 + penalty, 1.0)


def distinct_hashes(batches: list[Hashes]) -> Hashes:
    """Return every hash of some batches once, sorted."""
    every = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *batches]))
    return every[run_starts(every)]


def _is_in(hashes: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    """Tell of each hash whether it is among the sorted ones."""
    if len(known) == 0:
        return np.zeros(len(hashes), dtype=np.bool_)
    place = np.searchsorted(known, hashes)
    return np.asarray(known[np.minimum(place, len(known) - 1)] == hashes)
