"""Where the loops of a Stage come from, as its directives split, fuse, rename and reorder them.

In: the Stage, and its directives one by one. Out: of each loop, which loop of the algorithm it is a part of, whether it
is the whole of it, how many iterations it has where that is a constant, and which loops are around it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from metol import _core
from metol.lower.directive import Call, Directive, Loop, RVar, Var
from metol.lower.func_ref import FuncRef

__all__ = ["LoopOrigin", "LoopOrigins"]


@dataclass(frozen=True, slots=True)
class LoopOrigin:
    """Where one loop comes from."""

    loop: int
    """Position of the algorithm's loop in `Stage.loops`; -1 where several have been fused."""
    is_whole: bool = False
    """Whether the loop still covers all of it."""
    trips: int | None = None
    """Iterations, where that is a constant: of the inner part of a split, of what that is split into, and of reductions
    over a constant extent."""


class LoopOrigins:
    """The loops that a Stage has, while its directives are gone through in order."""

    def __init__(self, ref: FuncRef, stage: _core.Stage, directives: Iterable[Directive] = ()) -> None:
        """Start with the loops of the algorithm, under the names that directives use, and follow some directives."""
        rvars = iter(ref.rvars[stage.index - 1] if stage.index else ())
        names = [RVar(next(rvars)) if dim.is_rvar else Var(ref.args[dim.pure_dim]) for dim in stage.loops]
        self._origins: dict[Loop, LoopOrigin] = {}
        for position, (name, dim) in enumerate(zip(names, stage.loops, strict=True)):
            trips = dim.bounds.evaluate([]).extent if dim.is_rvar and dim.has_constant_extent else None
            self._origins[name] = LoopOrigin(position, is_whole=True, trips=trips)
        self._order: list[Loop] = list(names)  # innermost first
        for directive in directives:
            self.follow(directive)

    def __getitem__(self, loop: Loop) -> LoopOrigin:
        return self._origins[loop]

    def from_within(self, loop: Loop) -> tuple[Loop, ...]:
        """Return a loop and those around it, innermost first."""
        return tuple(self._order[self._order.index(loop) :])

    def follow(self, directive: Directive) -> None:
        """Do to the loops what the directive does."""
        match directive.call, directive.args:
            case Call.SPLIT, (Var() | RVar() as old, Var() | RVar() as outer, Var() | RVar() as inner, int(factor), _):
                self._split(old, outer, inner, factor)
            case Call.FUSE, (Var() | RVar() as inner, Var() | RVar() as outer, Var() | RVar() as fused):
                self._origins[fused] = LoopOrigin(-1)
                self._order[self._order.index(inner)] = fused
                self._order.remove(outer)
            case Call.RENAME, (Var() | RVar() as old, Var() | RVar() as new):
                self._origins[new] = self._origins[old]
                self._order[self._order.index(old)] = new
            case Call.REORDER, loops:
                places = sorted(self._order.index(loop) for loop in loops if isinstance(loop, Var | RVar))
                for place, loop in zip(places, loops, strict=True):
                    assert isinstance(loop, Var | RVar)
                    self._order[place] = loop

    def _split(self, old: Loop, outer: Loop, inner: Loop, factor: int) -> None:
        origin = self._origins[old]
        trips = None if origin.trips is None else -(-origin.trips // factor)
        self._origins[outer] = LoopOrigin(origin.loop, trips=trips)
        self._origins[inner] = LoopOrigin(origin.loop, trips=factor)
        place = self._order.index(old)
        self._order[place : place + 1] = [inner, outer]
