"""The loops of one Stage on a CPU: how each is split, in which order they nest, which are parallel, vectors, unrolled.

Enters: the nest of a Stage, and what is computed inside it. Leaves: the directives of the Stage, in each version of it.
"""

from collections.abc import Mapping, Sequence, Set
from math import prod

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Loop, RVar, Site, Tail, Var
from metol.lower.loop_names import free_base, loop_bases, whole_loop
from metol.lower.pieces import Piece, StageCall, splits_outside_in
from metol.lower.tails import OutputSize, TailRule
from metol.pipeline import PipelineDag

__all__ = ["StageLoops"]

# Tails that leave a condition on every iteration, or on every lane.
_GUARDS = frozenset({Tail.GUARD_WITH_IF, Tail.PREDICATE_LOADS})


class StageLoops:
    """The loops of one Stage: how each is split, in which order they nest, which are parallel, vectors, unrolled."""

    def __init__(
        self,
        dag: PipelineDag,
        stage_id: int,
        nest: _core.StageNest,
        *,
        tile_order: Sequence[int],
        whole_levels: Sequence[int],
        shares_loops: bool,
    ) -> None:
        self.tile_order = tile_order
        """Loops whose parts in the tile nest in this order, innermost first; empty where they nest as the others do."""
        self.whole_levels = whole_levels
        """Levels whose loop along the lanes Halide is not to split: what is inside has the borders for itself."""
        self.shares_loops = shares_loops
        self.stage = dag.stages[stage_id]
        self.is_joint = bool(dag.funcs[self.stage.func].joint)
        """Whether these are the loops of several outputs."""
        self.nest = nest
        self.levels = [list(level) for level in nest.levels]
        self.tile_level = len(self.levels) - 1
        self._bases = loop_bases(self.stage)
        self.pieces = [self._pieces_of(loop) for loop in range(len(self.stage.loops))]
        self.fused: Loop | None = None
        """The one loop that several parallel loops become; None where they stay apart, or there is but one."""
        self.fused = self._fused_name()
        self.estimate = dag.funcs[self.stage.func].estimate
        self.window_loops: set[int] = set()
        """Loops whose turns, each of them a tile, a window slides over."""
        self.guest_levels: set[int] = set()
        """Levels in whose bodies others are computed or stored that are to have constant sizes."""
        self.picking_loops: Set[int] = frozenset()
        """Loops that pick among values: unrolled, nothing is left of that where they begin at a constant."""
        self.panels: Mapping[int, int] = {}
        """How wide the parts are that lie side by side along a loop, each made in its own way."""
        self.loop_in_lanes = -1
        """The reduction loop whose steps in the tile are lanes, which Halide adds up; -1 for none."""
        self.is_inside = False
        """Whether the Func is computed inside the loops of another."""
        self.is_host = False
        """Whether another Func is computed inside these loops."""

    def _pieces_of(self, loop: int) -> list[Piece]:
        """The parts of a loop, outermost first. The outermost one takes whatever extent there is at run time."""
        turning = [level for level in range(self.tile_level) if self.levels[level][loop] > 1]
        has_tile = self.levels[self.tile_level][loop] > 1
        if has_tile and not turning:
            turning = [self.tile_level - 1]
        if not has_tile:
            turning = turning or [self.tile_level - 1]
        parts = [(level, self.levels[level][loop]) for level in turning]
        if has_tile:
            points = self.levels[self.tile_level][loop]
            width = self.nest.vector_width if loop == self.nest.vector_loop else points
            if points > width:
                parts.append((self.tile_level, points // width))
            parts.append((self.tile_level, width))
        elif self.is_joint:
            # Halide puts a guard just inside the loops that it depends on: inside of those that outputs share, it would
            # be one for all of them. A whole loop gets one as well: what is inside is asked for no more than an output
            # needs in turns that are another's alone.
            parts.append((self.tile_level, 1))
        names = self._names(loop, len(parts))
        return [Piece(name, level, trips) for name, (level, trips) in zip(names, parts, strict=True)]

    def _names(self, loop: int, count: int) -> list[Loop]:
        """Names for the parts of a loop; the loop's own where it is whole. Updates get names of their own.

        Halide wants shared loops to have one name in all that share them, whatever each splits them into further in.
        """
        dim = self.stage.loops[loop]
        whole = whole_loop(dim)
        if count == 1:
            return [whole]
        base = self._bases[loop]
        is_plain = count == 2 and not self.shares_loops
        suffixes = ("o", "i") if is_plain else tuple(str(number) for number in range(count))
        return [type(whole)(f"{base}_{suffix}") for suffix in suffixes]

    def _order(self) -> list[int]:
        """Loops from outermost to innermost: as the core nests them."""
        pure = [i for i, loop in enumerate(self.stage.loops) if not loop.is_reduction and i != self.nest.vector_loop]
        vector = [self.nest.vector_loop] if self.nest.vector_loop >= 0 else []
        reductions = [i for i, loop in enumerate(self.stage.loops) if loop.is_reduction]
        return [*reversed(pure), *vector, *reversed(reductions)]

    def _at_level(self, level: int) -> list[Piece]:
        """The pieces of one level, outermost first. In the tile, unrolled reductions go outside the rest."""
        order = self._order()
        if level == self.tile_level:
            order.sort(key=self._place_in_tile)
        pieces = [piece for loop in order for piece in self.pieces[loop] if piece.level == level]
        if level == self.tile_level and (self.tile_order or self.loop_in_lanes >= 0):
            pieces.sort(key=self._is_of_lanes)
        if level == 0 and self.nest.is_parallel and self.fused is None:
            # Of loops that stay apart, that of most iterations goes outermost: its guarded ones are the smallest part.
            pieces.sort(key=lambda piece: -piece.trips)
        return pieces

    def _is_of_lanes(self, piece: Piece) -> int:
        """1 for what is the lanes of a vector, 2 for steps that are inside of these, 0 for all else."""
        if self.loop_in_lanes >= 0 and piece is self.pieces[self.loop_in_lanes][-1]:
            return 2
        return int(self.nest.vector_loop >= 0 and piece is self.pieces[self.nest.vector_loop][-1])

    def _place_in_tile(self, loop: int) -> int:
        """Where a loop goes in the tile: reductions outside, then those that have an order, in it."""
        if self.stage.loops[loop].is_reduction:
            return -len(self.stage.loops)
        return -self.tile_order.index(loop) if loop in self.tile_order else 1

    def _parallel(self) -> list[Piece]:
        """The parallel loops, outermost first."""
        return self._at_level(0) if self.nest.is_parallel else []

    def keep_guarded_tasks_apart(self, tails: TailRule, size: OutputSize) -> None:
        """Let parallel loops stay one inside the other, instead of one loop of all tasks, where each is a guarded tile.

        Halide splits the guarded iterations of a loop off the others. Where tiles are unrolled directly inside of a
        parallel loop, it has none but that, and cannot do it where several have become one: then every vector of every
        task is guarded.
        """
        if self.fused is None or self.stage.func in tails.share_loops:
            return
        if size is OutputSize.ANY and tails.has_two_versions(self.stage):
            return
        guarded = {args[0] for call, args in self._splits(tails, size, frozenset()) if _GUARDS.intersection(args)}
        has_guarded_tiles = any(
            len(pieces) > 1 and pieces[0].level == 0 and pieces[1].level == self.tile_level and loop in guarded
            for loop, pieces in zip(self._whole_loops(), self.pieces, strict=True)
        )
        if has_guarded_tiles:
            self.fused = None

    def _whole_loops(self) -> list[Loop]:
        return [whole_loop(dim) for dim in self.stage.loops]

    def _fused_name(self) -> Loop | None:
        parallel = self._parallel()
        # Of outputs of other sizes each turn of one loop of all tasks would be at another place.
        if len(parallel) < 2 or self.is_joint:
            return None
        # Halide lets what an RVar goes into be nothing but an RVar.
        kind = RVar if any(isinstance(piece.loop, RVar) for piece in parallel) else Var
        return kind(free_base(self.stage, "tasks"))

    def body(self, level: int) -> Loop:
        """The innermost loop of a level, in whose body others can be computed."""
        if level == 0 and self.fused is not None:
            return self.fused
        return self._at_level(level)[-1].loop

    def with_itself(self) -> Directive:
        """What says of outputs that are one Func down to which loop they share those of the first."""
        site = Site(self.stage.func, self.stage.index, self.body(self._innermost_level()))
        return Directive(self.stage.func, self.stage.index, Call.COMPUTE_WITH, (site,))

    def _innermost_level(self) -> int:
        """The innermost level with loops, but for the tile."""
        return max(piece.level for pieces in self.pieces for piece in pieces if piece.level < self.tile_level)

    def versions(self, tails: TailRule) -> list[Directive]:
        """All versions of the Stage: one, or of an output one for sizes of at least a tile before a plain one for any.

        What is computed inside a loop that is whole there has the size of the output: the first of them then has a
        version within it in which those sides are as estimated, and all sizes inside are constants. So it has where one
        tile is all of a loop: compilers move what does not change out of a loop around others that turns once, but not
        for all they know. And where such a loop picks among values: at a constant, nothing is left of that; nor of
        what tells parts that lie side by side apart.
        """
        factors = self._first_factors()
        if not factors or not tails.has_two_versions(self.stage):
            return self.version(tails)

        def branch(call: Call, args: Sequence[int], path: tuple[int, ...]) -> Directive:
            return Directive(self.stage.func, self.stage.index, call, tuple(args), path)

        made = [branch(Call.SPECIALIZE, [n for pair in factors for n in pair], ())]
        # With all sizes constant, compilers spread gathers out, which takes longer.
        sides = set() if tails.indexes_by_value(self.stage) else self._sides_inside()
        sides |= self._picked_sides() | {self.stage.loops[loop].pure_dim for loop in self._panels_possible()}
        if sides:
            exact = [n for d in sorted(sides) for n in (d, self.estimate[d].min, self.estimate[d].extent)]
            made.append(branch(Call.SPECIALIZE_SIZE, exact, (0,)))
            made += self.version(tails, OutputSize.TILE, estimated=sides, branch=(0, 0))
        made += self.version(tails, OutputSize.TILE, branch=(0,))
        return made + self.version(tails, is_plain=True)

    def hold_window(self, level: int) -> None:
        """Note that a window slides over the turns of the one loop that turns at a level."""
        (loop,) = (loop for loop, trips in enumerate(self.levels[level]) if trips > 1)
        if [piece.level for piece in self.pieces[loop]][:2] == [level, self.tile_level]:
            self.window_loops.add(loop)

    def split_whole_loops(self, level: int) -> None:
        """Split the pure loops that are whole in the body of a level, each into one turn of all.

        Where all tasks are one loop, Halide forgets at a guard of it how far what is computed inside goes, and asks for
        whole tasks of whatever is in the body of such loops; not so where these have a guard of their own.
        """
        for loop, pieces in enumerate(self.pieces):
            piece = pieces[0]
            is_whole = len(pieces) == 1 and piece.level > level and piece.trips > 1
            if is_whole and not self.stage.loops[loop].is_rvar:
                outer, inner = self._names(loop, 2)
                self.pieces[loop] = [Piece(outer, piece.level, 1), Piece(inner, piece.level, piece.trips)]

    def _loops_around_guests(self, tasks: list[Loop]) -> tuple[Loop, ...]:
        """The loops in which others are computed, innermost first.

        Halide writes what is in a loop with guards up to three times, for its start, its middle and its end. With
        others in it that is most of the code, and in the version for outputs smaller than a tile most never runs.
        """
        if not self.guest_levels:
            return ()
        below_tasks = range(1 if self.nest.is_parallel else 0, max(self.guest_levels) + 1)
        serial = [piece.loop for level in below_tasks for piece in self._at_level(level)]
        return tuple(reversed([*tasks, *serial]))

    def _loops_outside_the_innermost(self, calls: Sequence[StageCall], order: Sequence[Loop]) -> tuple[Loop, ...]:
        """The loops of a Func inside another that turn around its innermost one, innermost first.

        What is in them would be written up to three times as well, and again in each copy of what is around. Only in
        the innermost is a condition asked so often that a copy without it is worth its code.
        """
        if not self.is_inside or self.shares_loops:
            return ()
        laid_out = {args[0] for call, args in calls if call in (Call.VECTORIZE, Call.UNROLL)}
        # The few turns within a tile that is not unrolled are no better a place for that than an unrolled tile.
        in_tile = {piece.loop for pieces in self.pieces for piece in pieces if piece.level == self.tile_level}
        return tuple(loop for loop in reversed(order) if loop not in laid_out | in_tile)[1:]

    def _loops_outside_the_innermost_shared(self) -> tuple[Loop, ...]:
        """The loops of a joint around others but for the innermost, innermost first.

        What Halide 21 takes for the start of a loop of several outputs is all of it, by their ends: in that copy the
        loops further in would keep all their conditions.
        """
        if not (self.is_joint and self.is_host):
            return ()
        shared = [loop for level in range(self._innermost_level() + 1) for loop in self._loops_at(level)]
        return tuple(reversed(shared[:-1]))

    def _loops_at_borders(self, tails: TailRule, guarded: Set[Argument]) -> tuple[Loop, ...]:
        """The loops at root that Halide is not to split where something reads at a border, innermost first.

        Halide splits the turns near a border off a loop, and no loop within those: of the rows at the upper and lower
        border, it would clamp all lanes one by one. What is clamped along other loops than the lanes is a scalar or two
        a row. So is a guard, where a Func is nothing but such a border; others have more to do without one. Of the
        loops along the lanes, those stay whole in which Funcs are computed that have the borders for themselves.
        """
        lanes = self.nest.vector_loop
        is_alone = not (self.is_inside or self.shares_loops or self.is_joint)
        turns = lanes >= 0 and any(piece.level < self.tile_level and piece.trips > 1 for piece in self.pieces[lanes])
        if not (is_alone and turns and tails.reads_borders(self.stage)):
            return ()
        kept = set() if tails.dag.funcs[self.stage.func].is_boundary_condition else guarded
        whole_ones = {
            piece.loop
            for loop, whole in enumerate(self._whole_loops())
            if whole not in kept and not self.stage.loops[loop].is_reduction
            for piece in self.pieces[loop]
            if (piece.level in self.whole_levels if loop == lanes else piece.level < self.tile_level)
        }
        return tuple(loop for loop in reversed(self._nesting()) if loop in whole_ones)

    def _sides_inside(self) -> set[int]:
        """Dimensions of the output that are whole inside a level in which another Func is computed or stored.

        So are those that are whole in the tile and have a loop around it, which turns once.
        """
        return {
            dim.pure_dim
            for loop, (dim, pieces) in enumerate(zip(self.stage.loops, self.pieces, strict=True))
            if not dim.is_rvar
            for level in self.guest_levels
            if level < pieces[0].level or (len(pieces) > 1 and self._is_whole_in_tile(loop))
        }

    def _is_whole_in_tile(self, loop: int) -> bool:
        return self.levels[self.tile_level][loop] >= self.estimate[self.stage.loops[loop].pure_dim].extent

    def _picked_sides(self) -> set[int]:
        """Dimensions of the output whose loop picks among values, and is whole in the tile."""
        return {
            self.stage.loops[loop].pure_dim
            for loop in self.picking_loops
            if loop != self.nest.vector_loop and self._is_whole_in_tile(loop)
        }

    def _loops_in_panels(self, size: OutputSize, estimated: Set[int]) -> list[int]:
        """Loops with a turn for each part, in a version in which some sides, or all, are as estimated."""
        is_whole = size is OutputSize.ESTIMATED
        return [n for n in sorted(self._panels_possible()) if is_whole or self.stage.loops[n].pure_dim in estimated]

    def _panels_possible(self) -> set[int]:
        """Loops that may have a turn for each part: serial ones, of which a part has a whole turn, with no guests."""
        return {
            loop
            for loop, width in self.panels.items()
            if len(self.pieces[loop]) > 1
            and prod(piece.trips for piece in self.pieces[loop][1:]) <= width
            and not self.is_host
            and self.pieces[loop][0] not in self._parallel()
        }

    def _panel_of(self, loop: int) -> Loop:
        return Var(f"{self._bases[loop]}_panel")

    def _first_factors(self) -> list[tuple[int, int]]:
        """Dimension and factor of the first split of each pure loop that is split."""
        factors = []
        for dim, pieces in zip(self.stage.loops, self.pieces, strict=True):
            if len(pieces) > 1 and not dim.is_rvar:
                factors.append((dim.pure_dim, prod(piece.trips for piece in pieces[1:])))
        return factors

    def version(
        self,
        tails: TailRule,
        size: OutputSize = OutputSize.ANY,
        *,
        estimated: Set[int] = frozenset(),
        branch: tuple[int, ...] = (),
        is_plain: bool = False,
    ) -> list[Directive]:
        """Splits, fusion of the parallel loops, order, and what runs in parallel, in vectors, unrolled.

        Of the Stage, or of one of its specializations; a plain version unrolls nothing. `estimated` names the sides of
        an output that have their estimated extent in this one.
        """
        panels = self._loops_in_panels(size, estimated)
        calls = self._splits(tails, size, estimated, panels)
        lanes = self._whole_loops()[self.nest.vector_loop] if self.nest.vector_loop >= 0 else None
        has_whole_vectors = lanes is not None and tails.rounds_vectors_up(self.stage, self.nest.vector_loop)
        guarded = set() if has_whole_vectors else {args[0] for _, args in calls if _GUARDS.intersection(args)}
        is_scalar = bool(guarded) and not (tails.stores_densely(self.stage) and tails.may_be_masked(self.stage))
        adds_lanes = self.loop_in_lanes >= 0  # which lie side by side, and have no guard
        may_unroll = (
            not guarded or adds_lanes or tails.may_unroll_guarded(self.stage, has_guarded_lanes=lanes in guarded)
        )
        is_unrolled = not is_plain and not is_scalar and may_unroll
        parallel = self._parallel()
        if self.fused is not None:
            # From the innermost pair outwards, each time under the name of the whole.
            inner = parallel[-1].loop
            for number, piece in enumerate(reversed(parallel[:-1])):
                is_last = number == len(parallel) - 2
                fused = self.fused if is_last else type(self.fused)(f"{self.fused.name}_{number}")
                calls.append((Call.FUSE, (inner, piece.loop, fused)))
                inner = fused
        order = self._nesting()
        for loop in panels:
            order.insert(order.index(self.pieces[loop][0].loop), self._panel_of(loop))
        if len(order) > 1:
            calls.append((Call.REORDER, tuple(reversed(order))))
        calls += [(Call.UNROLL, (self._panel_of(loop),)) for loop in panels]
        if self.nest.prefetched >= 0:
            pieces = self.pieces[self.nest.prefetch_loop]
            *_, ahead = (piece.loop for piece in pieces if piece.level == self.nest.prefetch_level)
            calls.append((Call.PREFETCH, (self.nest.prefetched, ahead, ahead, 1)))
        if adds_lanes and is_unrolled:
            calls.append((Call.ATOMIC, ()))
        for piece in self._at_level(self.tile_level):
            of_lanes = self._is_of_lanes(piece)
            is_vector = of_lanes == 1 and self.nest.vector_width > 1 and not is_scalar
            if is_vector or (of_lanes == 2 and is_unrolled):
                calls.append((Call.VECTORIZE, (piece.loop,)))
            elif is_unrolled:
                calls.append((Call.UNROLL, (piece.loop,)))
        tasks = [self.fused] if self.fused is not None else [piece.loop for piece in parallel]
        calls += [(Call.PARALLEL, (loop,)) for loop in tasks]
        whole = self._loops_around_guests(tasks) if is_plain else self._loops_outside_the_innermost(calls, order)
        whole = whole or self._loops_outside_the_innermost_shared()
        whole = whole or (() if is_plain else self._loops_at_borders(tails, guarded))
        if whole:
            calls.append((Call.NEVER_PARTITION, whole))
        if not calls and self.stage.index > 0:
            calls.append((Call.UNSCHEDULED, ()))
        return [Directive(self.stage.func, self.stage.index, call, args, branch) for call, args in calls]

    def _splits(
        self, tails: TailRule, size: OutputSize, estimated: Set[int], panels: Sequence[int] = ()
    ) -> list[StageCall]:
        if tails.splits_inside_out(self.stage):
            return self._splits_inside_out()
        calls: list[StageCall] = []
        for loop, (rest, pieces) in enumerate(zip(self._whole_loops(), self.pieces, strict=True)):
            dim = self.stage.loops[loop]
            inner = tails.inner_split(self.stage)
            holds_window = loop in self.window_loops
            if tails.rounds_vectors_up(self.stage, loop) or (holds_window and tails.rounds_tiles_up(self.stage, loop)):
                calls += self._tile_and_outside(rest, pieces, inner)
                continue
            if loop in panels:
                calls += self._panel_splits(loop, inner)
                continue
            first = inner
            if len(pieces) > 1:
                factor = prod(piece.trips for piece in pieces[1:])
                is_tile = pieces[1].level == self.tile_level
                here = OutputSize.ESTIMATED if dim.pure_dim in estimated and not dim.is_rvar else size
                first = tails.first_split(
                    self.stage, loop, factor, is_tile=is_tile, is_only=len(pieces) == 2, size=here
                )
            calls += splits_outside_in(rest, pieces, first, inner)
        return calls

    def _panel_splits(self, loop: int, inner: Tail) -> list[StageCall]:
        """Splits of a loop whose extent is known: into parts, and each part by itself."""
        whole, pieces, width = self._whole_loops()[loop], self.pieces[loop], self.panels[loop]
        part = Var(f"{self._bases[loop]}_part")
        divides = width % prod(piece.trips for piece in pieces[1:]) == 0
        return [
            (Call.SPLIT, (whole, self._panel_of(loop), part, width, Tail.ROUND_UP)),
            *splits_outside_in(part, pieces, Tail.ROUND_UP if divides else Tail.SHIFT_INWARDS, inner),
        ]

    def _tile_and_outside(self, whole: Loop, pieces: Sequence[Piece], inner: Tail) -> list[StageCall]:
        """Splits of a loop into whole tiles first; what is outside of them ends with a guard of its own."""
        tile = [piece for piece in pieces if piece.level == self.tile_level]
        outside = [piece for piece in pieces if piece.level != self.tile_level]
        if not tile or not outside:
            return splits_outside_in(whole, pieces, Tail.ROUND_UP, inner)
        rest = outside[0].loop if len(outside) == 1 else type(whole)(f"{outside[0].loop.name}_out")
        part = tile[0].loop if len(tile) == 1 else type(whole)(f"{tile[0].loop.name}_in")
        factor = prod(piece.trips for piece in tile)
        return [
            (Call.SPLIT, (whole, rest, part, factor, Tail.ROUND_UP)),
            *splits_outside_in(rest, outside, Tail.GUARD_WITH_IF, Tail.GUARD_WITH_IF),
            *splits_outside_in(part, tile, inner, inner),
        ]

    def _splits_inside_out(self) -> list[StageCall]:
        """The same parts, the innermost split off first; each split is guarded."""
        calls: list[StageCall] = []
        for rest, pieces in zip(self._whole_loops(), self.pieces, strict=True):
            for number in range(len(pieces) - 1, 0, -1):
                outer = pieces[0].loop if number == 1 else type(rest)(f"{pieces[number].loop.name}_out")
                piece = pieces[number]
                calls.append((Call.SPLIT, (rest, outer, piece.loop, piece.trips, Tail.GUARD_WITH_IF)))
                rest = outer
        return calls

    def _nesting(self) -> list[Loop]:
        """All loops from outermost to innermost."""
        return [loop for level in range(self.tile_level + 1) for loop in self._loops_at(level)]

    def _loops_at(self, level: int) -> list[Loop]:
        """The loops of one level, outermost first, several parallel ones as the one that they become."""
        if level == 0 and self.fused is not None:
            return [self.fused]
        return [piece.loop for piece in self._at_level(level)]
