"""Schedules of other autoschedulers, made right at every output size: their loops, with tails of our own.

In: a schedule whose tails suit the estimated size, and a judge of schedules. Out: one that the judge accepts. Loops,
factors, orders and places stay. What costs time is given up only as far as the judge wants it: outputs with two
versions, unrolled loops without a constant extent, windows that slide, remainders that are computed as a whole.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from metol import _core
from metol.errors import ScheduleFormatError
from metol.lower.directive import SIGNATURES, Call, Directive, Loop, Owner, RVar, Tail, Var
from metol.lower.func_ref import FuncRef
from metol.lower.guard_names import with_guards_named
from metol.lower.loop_origins import LoopOrigins
from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
from metol.lower.nest_facts import facts_of_directives, stage_loops
from metol.lower.schedule import Schedule
from metol.lower.sliding import narrow_stores
from metol.lower.tails import OutputSize, TailRule
from metol.pipeline import PipelineDag

__all__ = ["mend_schedule", "mended_versions"]

# Tails that leave a condition on every iteration, or on every lane.
_GUARDS = frozenset({Tail.GUARD_WITH_IF, Tail.PREDICATE_LOADS})


class _Sliding(enum.Enum):
    """Which windows slide."""

    ANY = enum.auto()
    NARROW = enum.auto()  # `narrow_stores`
    NONE = enum.auto()


@dataclass(frozen=True, slots=True)
class _Care:
    """What is given up of a schedule so that it is right."""

    has_two_versions: bool = True
    """Outputs keep a version without guards, for sizes of at least a tile."""
    unrolls_all: bool = True
    """Loops are unrolled whose extent is no constant of the schedule; Halide finds a bound, or refuses."""
    sliding: _Sliding = _Sliding.ANY
    """Which Funcs are stored outside of the loops in which they are computed."""
    guards_all: bool = False
    """What leaves a remainder is guarded, where our rules would have a little more computed than is asked for."""


_CARES = (
    _Care(),
    _Care(sliding=_Sliding.NARROW),
    _Care(unrolls_all=False),
    _Care(unrolls_all=False, sliding=_Sliding.NARROW),
    _Care(unrolls_all=False, sliding=_Sliding.NARROW, guards_all=True),
    _Care(unrolls_all=False, sliding=_Sliding.NONE, guards_all=True),
    _Care(unrolls_all=False, sliding=_Sliding.NONE, guards_all=True, has_two_versions=False),
)


def mend_schedule(
    schedule: Schedule,
    dag: PipelineDag,
    refuse: Callable[[Schedule], str],
    options: LoweringOptions = NO_PROMISES,
) -> tuple[Schedule | None, str]:
    """Return the fastest version of a schedule that is right at every size of its outputs.

    Args:
        schedule: The schedule; each of its loops is split from the outside in.
        dag: The pipeline.
        refuse: Tells why a schedule must not be used, or "".
        options: What the user promised about the outputs.

    Returns:
        The schedule and "", or None and why the fastest version was refused.
    """
    first_refusal = ""
    for mended in mended_versions(schedule, dag, options):
        refusal = refuse(mended)
        if not refusal:
            return mended, ""
        first_refusal = first_refusal or refusal
    return None, first_refusal


def mended_versions(schedule: Schedule, dag: PipelineDag, options: LoweringOptions = NO_PROMISES) -> Iterator[Schedule]:
    """Yield versions of a schedule that should be right at every size of its outputs, each one once, fastest first."""
    tried: set[tuple[Directive, ...]] = set()
    for care in _CARES:
        directives = tuple(with_guards_named(dag, _mended(schedule, dag, options, care)))
        if directives not in tried:
            tried.add(directives)
            yield replace(schedule, directives=directives)


def _mended(schedule: Schedule, dag: PipelineDag, options: LoweringOptions, care: _Care) -> Iterator[Directive]:
    directives = schedule.directives
    if care.sliding is _Sliding.NONE:
        directives = tuple(d for d in directives if d.call not in (Call.STORE_AT, Call.STORE_ROOT))
    tails = TailRule(dag, facts_of_directives(schedule.funcs, directives, dag), options)
    if care.sliding is _Sliding.NARROW:
        loops = stage_loops(schedule.funcs, directives, dag)
        directives = tuple(narrow_stores(dag, directives, loops, tails.readers))
        tails = TailRule(dag, facts_of_directives(schedule.funcs, directives, dag), options)
    for func in dict.fromkeys(directive.func for directive in directives):
        own = [directive for directive in directives if directive.func == func]
        yield from (directive for directive in own if _is_of_func(directive))
        for index, stage in enumerate(dag.funcs[func].stages):
            calls = [directive for directive in own if directive.stage == index and not _is_of_func(directive)]
            yield from _StageMender(schedule.funcs[func], dag.stages[stage], calls, tails, care).versions()


def _is_of_func(directive: Directive) -> bool:
    """Is it about the whole Func, and not about the loops of a Stage?"""
    return SIGNATURES[directive.call].owner is Owner.FUNC


class _StageMender:
    """Gives the loops of one Stage other tails."""

    def __init__(
        self, ref: FuncRef, stage: _core.Stage, directives: Sequence[Directive], tails: TailRule, care: _Care
    ) -> None:
        self._ref = ref
        self._stage = stage
        self._directives = directives
        self._tails = tails
        self._care = care
        self._is_split = {d.args[0] for d in directives if d.call is Call.SPLIT}
        self._is_tile = {d.args[0] for d in directives if d.call in (Call.VECTORIZE, Call.UNROLL)}

    def versions(self) -> Iterator[Directive]:
        """Yield the directives: one version, or of an output one for sizes of at least a tile before one for any."""
        factors = self._first_factors()
        if not factors or not self._care.has_two_versions or not self._tails.has_two_versions(self._stage):
            yield from self._version(OutputSize.ANY)
            return
        condition = tuple(number for pair in factors for number in pair)
        yield Directive(self._ref.index, self._stage.index, Call.SPECIALIZE, condition)
        yield from (replace(directive, branch=(0,)) for directive in self._version(OutputSize.TILE))
        yield from self._version(OutputSize.ANY, is_plain=True)

    def _first_factors(self) -> list[tuple[int, int]]:
        """Dimension and factor of the first split of each pure loop that is split."""
        loops, factors = LoopOrigins(self._ref, self._stage), []
        for directive in self._directives:
            match directive.call, directive.args:
                case Call.SPLIT, (Var() as old, _, _, int(factor), _) if loops[old].is_whole:
                    factors.append((self._stage.loops[loops[old].loop].pure_dim, factor))
            loops.follow(directive)
        return factors

    def _version(self, size: OutputSize, *, is_plain: bool = False) -> list[Directive]:
        """Return the directives for outputs of some sizes; a plain version unrolls nothing."""
        loops = LoopOrigins(self._ref, self._stage)
        calls: list[Directive] = []
        for directive in self._directives:
            calls.append(self._with_tail(directive, loops, size))
            loops.follow(directive)
        return self._kept(calls, loops, is_plain=is_plain)

    def _kept(self, calls: list[Directive], loops: LoopOrigins, *, is_plain: bool) -> list[Directive]:
        """Return what stays of the directives: all but vectors and unrolled loops that these tails make slow, or wrong.

        As in the schedules that we lower. An update that keeps nothing says so.
        """
        lanes = self._tails.vector_loop(self._stage)
        guarded = [call.args[0] for call in calls if _GUARDS.intersection(call.args)]
        has_guarded_lanes = any(isinstance(loop, Var | RVar) and loops[loop].loop == lanes for loop in guarded)
        is_scalar = bool(guarded) and not self._tails.stores_densely(self._stage)
        may_unroll = not guarded or self._tails.may_unroll_guarded(self._stage, has_guarded_lanes=has_guarded_lanes)
        is_unrolled = not is_plain and not is_scalar and may_unroll
        has_vectors = not is_scalar and not self._tails.reads_as_aligned(self._stage)

        def stays(call: Directive) -> bool:
            match call.call, call.args:
                case Call.VECTORIZE, (Var() | RVar() as loop,):
                    return has_vectors and loops[loop].trips is not None
                case Call.UNROLL, (Var() | RVar() as loop,):
                    return is_unrolled and (self._care.unrolls_all or loops[loop].trips is not None)
            return True

        kept = list(filter(stays, calls))
        if calls and not kept and self._stage.index > 0:
            return [Directive(self._ref.index, self._stage.index, Call.UNSCHEDULED)]
        return kept

    def _with_tail(self, directive: Directive, loops: LoopOrigins, size: OutputSize) -> Directive:
        """Return a directive, with the tail that is right if it is a split."""
        match directive.call, directive.args:
            case Call.SPLIT, (Var() | RVar() as old, outer, Var() | RVar() as inner, int(factor), _):
                tail = self._tail(old, inner, factor, loops, size)
                return replace(directive, args=(old, outer, inner, factor, tail))
        return directive

    def _tail(self, old: Loop, inner: Loop, factor: int, loops: LoopOrigins, size: OutputSize) -> Tail:
        origin = loops[old]
        if self._tails.splits_inside_out(self._stage) and not origin.is_whole:
            raise ScheduleFormatError(
                f"Output `{self._ref.name}` is read by another Func, and its loop {old.name} is split twice, which "
                "Halide 21 miscompiles. Split each of its loops once."
            )
        if origin.is_whole and (not self._care.guards_all or size is OutputSize.TILE):
            is_tile, is_only = inner in self._is_tile, inner not in self._is_split
            return self._tails.first_split(
                self._stage, origin.loop, factor, is_tile=is_tile, is_only=is_only, size=size
            )
        if origin.is_whole or origin.trips is None or self._stage.index > 0 or origin.trips < factor:
            return Tail.GUARD_WITH_IF
        # Within a part that is all there, or guarded: what is shifted there stays there.
        return Tail.SHIFT_INWARDS if origin.trips % factor else self._tails.inner_split(self._stage)
