"""Which programs are fitted to, which stop a fit early, and which judge it: by the hash of the algorithm.

So that what was once held out stays so, however many programs there are, on whatever machine.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Split", "split_by_name", "split_of", "split_without"]

# Of 20 programs, two judge and three stop early.
_PARTS = 20
_HELD_OUT = 2
_STOPPING = 3


@dataclass(frozen=True, slots=True)
class Split:
    """Programs by what they are for."""

    training: tuple[int, ...]
    """To fit to."""
    stopping: tuple[int, ...]
    """To stop early by."""
    held_out: tuple[int, ...]
    """To judge by, and for nothing else."""


def split_by_name(programs: Sequence[str], algorithms: Sequence[str], held_out: Collection[str]) -> Split:
    """Hold out the programs of these names and no others; of the rest those stop early that always do."""
    ruled = split_of(algorithms)
    judging = tuple(n for n in range(len(programs)) if programs[n] in held_out)
    stopping = tuple(n for n in ruled.stopping if n not in judging)
    rest = frozenset((*judging, *stopping))
    return Split(tuple(n for n in range(len(programs)) if n not in rest), stopping, judging)


def split_without(programs: Sequence[str], algorithms: Sequence[str], held_out: Collection[str] = ()) -> Split:
    """Hold out the programs of these names, and use all others, however few they are.

    Those stop early that always do; where none of them is there, those that come closest to it.
    """
    split = split_by_name(programs, algorithms, held_out)
    if split.stopping or len(split.training) < 2:
        return split
    ranked = sorted(split.training, key=lambda n: (int(algorithms[n], 16) % _PARTS, algorithms[n], n))
    count = max(1, len(ranked) * _STOPPING // _PARTS)
    return Split(tuple(sorted(ranked[count:])), tuple(sorted(ranked[:count])), split.held_out)


def split_of(algorithms: Sequence[str]) -> Split:
    """Set programs aside by the hexadecimal digits that name their algorithms."""
    places = [int(algorithm, 16) % _PARTS for algorithm in algorithms]
    numbers = range(len(places))
    return Split(
        tuple(n for n in numbers if places[n] >= _HELD_OUT + _STOPPING),
        tuple(n for n in numbers if _HELD_OUT <= places[n] < _HELD_OUT + _STOPPING),
        tuple(n for n in numbers if places[n] < _HELD_OUT),
    )
