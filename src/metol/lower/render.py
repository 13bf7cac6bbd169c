"""From the arguments of a directive to the arguments of Halide's call, in whatever form a backend needs them.

Enters: a directive. Leaves: what the call takes, in order, as Halide objects (`apply`) or as source text
(`emit_python`, `emit_cpp`). The order and the meaning of arguments are decided here alone, from `SIGNATURES`.
"""

from typing import Protocol, TypeVar

from metol.lower.directive import Call, Directive, Kind, Loop, RVar, Site, Tail, Var, arguments

__all__ = ["Backend", "render_arguments"]

T = TypeVar("T")


class Backend(Protocol[T]):
    """How each kind of argument is expressed."""

    def loop(self, func: int, stage: int, loop: Loop) -> T:
        """Return a loop of a Stage."""

    def loops(self, loops: tuple[T, ...]) -> T:
        """Return several loops where Halide takes a list of them."""

    def root(self) -> T:
        """Return the level outside all loops."""

    def stage_level(self, site: Site) -> T:
        """Return a loop of exactly one Stage."""

    def func(self, func: int) -> T:
        """Return a Func."""

    def number(self, value: int) -> T:
        """Return an integer constant."""

    def tail(self, tail: Tail) -> T:
        """Return a tail strategy."""

    def memory(self, name: str) -> T:
        """Return a memory type."""

    def minimum_extents(self, func: int, extents: tuple[tuple[int, int], ...]) -> T:
        """Return the condition that the output has at least these (dimension, extent)."""

    def exact_sides(self, func: int, sides: tuple[tuple[int, int, int], ...]) -> T:
        """Return the condition that the output has exactly these (dimension, min, extent)."""

    def preserved(self, pairs: tuple[tuple[T, T], ...]) -> T:
        """Return the list of RVars that rfactor keeps, each with its Var."""


def render_arguments(directive: Directive, backend: Backend[T]) -> list[T]:
    """Return what Halide's method takes for this directive."""
    rendered: list[T] = []
    extents: list[tuple[int, int]] = []
    sides: list[tuple[int, int, int]] = []
    pairs: list[tuple[T, T]] = []
    listed: list[T] = []
    func, stage = directive.func, directive.stage
    for kind, values in arguments(directive):
        match kind, values:
            case Kind.LOOP | Kind.NEW_LOOP | Kind.DIMENSION, (Var() | RVar() as loop,):
                rendered.append(backend.loop(func, stage, loop))
            case Kind.LISTED_LOOP, (Var() | RVar() as loop,):
                listed.append(backend.loop(func, stage, loop))
            case Kind.SITE, (Site(loop=None),):
                rendered.append(backend.root())
            case Kind.SITE, (Site(loop=Var() | RVar() as loop) as site,):
                rendered += [backend.func(site.func), backend.loop(site.func, site.stage, loop)]
            case Kind.STAGE_LOOP, (Site() as site,):
                rendered.append(backend.stage_level(site))
            case Kind.FUNC, (int(index),):
                rendered.append(backend.func(index))
            case Kind.FACTOR | Kind.INTEGER, (int(value),):
                rendered.append(backend.number(value))
            case Kind.TAIL, (Tail() as tail,):
                rendered.append(backend.tail(tail))
            case Kind.MEMORY, (str(name),):
                rendered.append(backend.memory(name))
            case Kind.MINIMUM_EXTENT, (int(dimension), int(extent)):
                extents.append((dimension, extent))
            case Kind.EXACT_SIDE, (int(dimension), int(low), int(extent)):
                sides.append((dimension, low, extent))
            case Kind.PRESERVED, (RVar() as rvar, Var() as var):
                pairs.append((backend.loop(func, stage, rvar), backend.loop(func, stage, var)))
            case _:
                # Not arguments of the method: what it makes, and what it is called on.
                assert kind in (Kind.NEW_FUNC, Kind.BUFFER_DIMENSION), (kind, values)
    if listed:
        rendered.append(backend.loops(tuple(listed)))
    if extents:
        rendered.append(backend.minimum_extents(func, tuple(extents)))
    if sides:
        rendered.append(backend.exact_sides(func, tuple(sides)))
    if pairs or directive.call is Call.RFACTOR:
        rendered.append(backend.preserved(tuple(pairs)))
    return rendered
