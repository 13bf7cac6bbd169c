"""The parts that a loop is split into, and the calls that split it.

In: a loop of a Stage and its parts, outermost first. Out: calls of Halide's `split`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from metol.lower.directive import Argument, Call, Loop, Tail

__all__ = ["Piece", "StageCall", "splits_outside_in"]

StageCall = tuple[Call, tuple[Argument, ...]]
"""A call on a Stage, with its arguments."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a loop that runs at one level of the nest."""

    loop: Loop
    level: int
    trips: int
    """Iterations, or points for a piece of the innermost tile."""


def splits_outside_in(whole: Loop, pieces: Sequence[Piece], first: Tail, inner: Tail) -> list[StageCall]:
    """Splits of a loop into parts, outermost first: the first of them may leave a remainder, the others divide."""
    calls: list[StageCall] = []
    rest = whole
    for number in range(len(pieces) - 1):
        factor = prod(piece.trips for piece in pieces[number + 1 :])
        is_last = number == len(pieces) - 2
        part = pieces[-1].loop if is_last else type(whole)(f"{pieces[number + 1].loop.name}_in")
        calls.append((Call.SPLIT, (rest, pieces[number].loop, part, factor, first if number == 0 else inner)))
        rest = part
    return calls
