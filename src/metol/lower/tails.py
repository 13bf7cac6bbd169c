"""Which tail strategy a split gets, so that the result is right at every output size and fast at the estimated one.

Only the first split of a loop can leave a remainder; the factors of those inside divide. Where a remainder is guarded,
everything computed inside has a size that is known at run time only; where it is not, loops have constant extents.
"""

import enum
from collections.abc import Sequence, Set

from metol import _core
from metol.lower.directive import Tail
from metol.lower.lanes import descends, inlined_loop
from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
from metol.lower.nest_facts import NestFacts
from metol.pipeline import PipelineDag

__all__ = ["OutputSize", "TailRule"]

Ranges = list[tuple[int, int]]  # (min, max) of each loop

# The range of a loop that may turn anywhere; bounds stay far from overflowing.
_ANYWHERE = (-(1 << 24), 1 << 24)


class OutputSize(enum.Enum):
    """Which sizes of the output a version of its code is for."""

    ANY = enum.auto()
    TILE = enum.auto()  # at least a tile
    ESTIMATED = enum.auto()


class TailRule:
    """Chooses tails for the splits of one scheduled pipeline.

    Outputs of one Stage that no other Func reads get two versions: one for sizes of at least a tile, whose remainder
    is shifted inwards, and a guarded one for smaller sizes. Other Funcs may compute a little more than is asked of
    them, unless they, or what is computed inside their loops, read an input whose size the user fixes, or use a
    computed value as an index. Funcs with updates are guarded, but for loops that `rounds_vectors_up` names, and tiles
    that a window slides over, or that are blocks of a GPU, where `rounds_tiles_up` says so. What is shifted inwards is
    computed twice, which is wrong where the output has overwritten the input that it is computed from: where they may
    alias, outputs are guarded at every size. So are outputs that share loops, some or all: Halide wants no other
    version of what follows in them. Code for the estimated size alone needs no more than a tail that is right there.
    Unsafe tails, for measurements alone, are those that autoschedulers emit where nobody asks for other sizes.
    """

    def __init__(self, dag: PipelineDag, facts: NestFacts, options: LoweringOptions = NO_PROMISES) -> None:
        self.dag = dag
        self.may_alias = options.may_alias
        self.is_unsafe = options.unsafe_tails
        self.kept = options.kept
        self.masks_descending_loads = options.masks_descending_loads
        self.inlined = facts.inlined
        self.innermost_dims = facts.innermost_dims
        self.vector_loops = facts.vector_loops
        self.slide_dims = facts.slide_dims
        self.share_loops = facts.share_loops
        self.hosts = facts.hosts
        read = {edge.producer for stage in dag.stages for edge in stage.edges}
        self.consumed_outputs = {func for func in read if dag.funcs[func].is_output}
        self.readers = {
            stage.func
            for stage in dag.stages
            if stage.func not in self.inlined and any(self._reads_more(stage, loop) for loop in range(len(stage.loops)))
        }
        self.inside: dict[int, set[int]] = {}
        for func in self.hosts:
            host = func
            while host in self.hosts:
                host = self.hosts[host]
                self.inside.setdefault(host, set()).add(func)

    def splits_inside_out(self, stage: _core.Stage) -> bool:
        """Is the innermost part of a loop split off first?

        Where an output is read by another Func, Halide 21 loses the guard of a loop that is split from the outside in
        twice, in the first lowering of a pipeline, and writes beyond the output.
        """
        return stage.func in self.consumed_outputs

    def rounds_vectors_up(self, stage: _core.Stage, loop: int) -> bool:
        """May a Stage of a Func with updates compute whole tiles along a loop that runs in vectors?

        A guard would be one of every lane, and each lane of a gather a branch: a vector that takes thousands of cycles.
        It is for loops whose tiles are split off first, and `first_split`, whose parts may be a task or a block, knows
        nothing of it.
        """
        is_vector = loop == self.vector_loop(stage)
        return is_vector and self.rounds_tiles_up(stage, loop)

    def rounds_tiles_up(self, stage: _core.Stage, loop: int) -> bool:
        """May a Stage of a Func with updates compute whole tiles along a loop, though that is more than is asked of it?

        Halide folds a window that slides over the tiles only where no guard may cut one short, and what lies inside a
        block of a GPU has a constant size only there.
        """
        func = self.dag.funcs[stage.func]
        is_ours = not func.is_output and len(func.stages) > 1 and stage.func not in self.share_loops
        if self.is_unsafe or not is_ours or stage.loops[loop].is_rvar or self._slides_along(stage, loop):
            return False
        if stage.has_predicate:  # Halide 21 takes what it reads beyond it for needed
            return False
        return not self.indexes_by_value(stage) and not self._reads_more(stage, loop, with_inside=True)

    def has_two_versions(self, stage: _core.Stage) -> bool:
        """Does this Stage get a version for sizes of at least a tile beside the guarded one?"""
        func = self.dag.funcs[stage.func]
        is_consumed = stage.func in self.consumed_outputs
        is_alone = not is_consumed and stage.func not in self.share_loops
        is_shiftable = not self.may_alias and is_alone
        return not self.is_unsafe and func.is_output and len(func.stages) == 1 and is_shiftable

    def first_split(
        self, stage: _core.Stage, loop: int, factor: int, *, is_tile: bool, is_only: bool, size: OutputSize
    ) -> Tail:
        """The tail of the split that can leave a remainder.

        Args:
            stage: The Stage.
            loop: Position of the loop in it.
            factor: What the loop is split by.
            is_tile: The inner part is the innermost tile: rounding up costs part of a vector, not part of a task.
            is_only: The inner part is not split again; Halide refuses to split what predicated loads came from.
            size: Which sizes of the output this version is for.
        """
        func = self.dag.funcs[stage.func]
        if self.is_unsafe:
            return self._unsafe_split(stage, loop, factor)
        if size is OutputSize.TILE:
            return Tail.SHIFT_INWARDS
        if size is OutputSize.ESTIMATED and func.is_output and not stage.loops[loop].is_rvar:
            return self._fixed_split(stage, func.estimate[stage.loops[loop].pure_dim].extent, factor)
        is_guarded = func.is_output or len(func.stages) > 1 or stage.loops[loop].is_rvar or self.indexes_by_value(stage)
        if is_guarded:
            return Tail.GUARD_WITH_IF
        if self._reads_more(stage, loop):
            # Halide 21 rounds up the regions of what is computed inside a loop whose loads are predicated, and in
            # vectors keeps one predicate alone.
            is_alone = self.readers.isdisjoint(self.inside.get(stage.func, ()))
            is_vector = loop == self.vector_loop(stage)
            can_predicate = is_only and is_tile and is_alone and is_vector and self._loads_are_vectors(stage, loop)
            return Tail.PREDICATE_LOADS if can_predicate else Tail.GUARD_WITH_IF
        if self._slides_along(stage, loop) or self._reads_more(stage, loop, with_inside=True):
            return Tail.GUARD_WITH_IF
        return Tail.ROUND_UP if is_tile else Tail.SHIFT_INWARDS

    def _fixed_split(self, stage: _core.Stage, extent: int, factor: int) -> Tail:
        """The tail of the first split of an output's loop whose extent is known."""
        if extent % factor == 0:
            return Tail.ROUND_UP
        can_shift = extent >= factor and stage.index == 0 and not self.may_alias
        return Tail.SHIFT_INWARDS if can_shift else Tail.GUARD_WITH_IF

    def _unsafe_split(self, stage: _core.Stage, loop: int, factor: int) -> Tail:
        """The tail of the first split of a loop where all sizes are as estimated, and inputs as large as they need be.

        An output that its factor does not divide is shifted inwards, for nobody gives it more room than it has.
        """
        func = self.dag.funcs[stage.func]
        if stage.loops[loop].is_rvar:
            return Tail.GUARD_WITH_IF
        extent = func.estimate[stage.loops[loop].pure_dim].extent if func.is_output else 0
        if extent % factor == 0:
            return Tail.ROUND_UP
        return Tail.SHIFT_INWARDS if extent >= factor and stage.index == 0 else Tail.GUARD_WITH_IF

    def inner_split(self, stage: _core.Stage) -> Tail:
        """The tail of a split whose factor divides what it splits; updates accept nothing but a guard."""
        return Tail.GUARD_WITH_IF if stage.index > 0 else Tail.ROUND_UP

    def _slides_along(self, stage: _core.Stage, loop: int) -> bool:
        return stage.loops[loop].pure_dim in self.slide_dims.get(stage.func, ())

    def _dense_dim(self, func: int) -> int:
        """The dimension of a Func whose neighbours are neighbours in memory."""
        is_ours = not self.dag.funcs[func].is_input and not self.dag.funcs[func].is_output
        return self.innermost_dims.get(func, 0) if is_ours else self.dag.funcs[func].dense_dim

    def stores_densely(self, stage: _core.Stage) -> bool:
        """Do the lanes of a vector go to neighbouring places, as always in memory that Halide lays out?"""
        loop = self.vector_loop(stage)
        is_ours = not self.dag.funcs[stage.func].is_output
        return is_ours or loop < 0 or stage.loops[loop].pure_dim == self._dense_dim(stage.func)

    def reads_as_aligned(self, stage: _core.Stage) -> bool:
        """Would vectors of this Stage read an output, itself or through what is inlined, as if it were aligned?"""
        if stage.self_accesses and self.dag.funcs[stage.func].is_taken_for_aligned(by_itself=True):
            return True
        for edge in stage.edges:
            if self.dag.funcs[edge.producer].is_taken_for_aligned(by_itself=False):
                return True
            if edge.producer in self.inlined and self.reads_as_aligned(self._inlined_stage(edge.producer)):
                return True
        return False

    def may_unroll_guarded(self, stage: _core.Stage, *, has_guarded_lanes: bool) -> bool:
        """May a Stage with guarded loops be unrolled?

        Each lane of a guarded gather or scatter is a branch of its own: unrolled, that takes LLVM minutes. So is each
        lane of a boundary condition, in the code for the borders, if the loop of the lanes is guarded.
        """
        loop = self.vector_loop(stage)
        return loop < 0 or (
            self._is_dense_along(stage, loop) and not (has_guarded_lanes and self._clamps_lanes(stage, loop))
        )

    def vector_loop(self, stage: _core.Stage) -> int:
        """The loop of a Stage that runs in vectors; -1 for none."""
        return self.vector_loops.get(self.dag.funcs[stage.func].stages[stage.index], -1)

    def _clamps_lanes(self, stage: _core.Stage, loop: int) -> bool:
        """Does a boundary condition clamp what lanes along a loop read? At the border, each of them loads by itself."""
        return self.dag.funcs[stage.func].is_boundary_condition and any(
            row.numerator[loop] != 0 and not (side.min.is_affine and side.max.is_affine)
            for edge in stage.edges
            for access in edge.accesses
            for side, row in zip(edge.bounds, access.jacobian, strict=True)
        )

    def reads_borders(self, stage: _core.Stage) -> bool:
        """Is a coordinate clamped, or under a condition, of what a Stage reads, or what is inlined or made in it?"""
        through = self.inlined | self.inside.get(stage.func, set())
        seen: set[int] = set()
        waiting = [stage]
        while waiting:
            for edge in waiting.pop().edges:
                if not all(side.min.is_affine and side.max.is_affine for side in edge.bounds):
                    return True
                if edge.producer in through - seen:
                    seen.add(edge.producer)
                    waiting += [self.dag.stages[inner] for inner in self.dag.funcs[edge.producer].stages]
        return False

    def may_be_masked(self, stage: _core.Stage) -> bool:
        """Is code made for vectors of this Stage of which a condition tells lanes apart?"""
        loop = self.vector_loop(stage)
        may_descend = self.masks_descending_loads or loop < 0
        return may_descend or not descends(self.dag, stage, loop, self.inlined, self._dense_dim)

    def _is_dense_along(self, stage: _core.Stage, loop: int) -> bool:
        own = [(stage.func, access) for access in stage.self_accesses]
        reads = [(edge.producer, access) for edge in stage.edges for access in edge.accesses]
        return all(
            self._is_dense_read(producer, dimension, row, loop)
            for producer, access in own + reads
            for dimension, row in enumerate(access.jacobian)
        )

    def _is_dense_read(self, producer: int, dimension: int, row: _core.JacobianRow, loop: int) -> bool:
        if row.is_known[loop] and row.numerator[loop] == 0:
            return True
        if not row.is_known[loop] or row.numerator[loop] != row.denominator[loop]:
            return False
        if self.dag.funcs[producer].origin in self.kept:  # whose order in memory is not known
            return False
        if producer not in self.inlined:
            return dimension == self._dense_dim(producer)
        return self._is_dense_along(*inlined_loop(self.dag, producer, dimension))

    def _loads_are_vectors(self, stage: _core.Stage, loop: int) -> bool:
        """Is each read of the Stage a load of neighbouring elements from memory along this loop?

        Halide 21 predicates each call of the definition, and the load that it becomes. Around an inlined definition,
        or one element for all lanes, the predicate stays a branch for each lane with all that is inlined in it, even
        where no remainder is: code of many times the size that takes up to twelve times as long. Loads within that
        occur twice are lifted out and read beyond the input; those of stride 2, which coordinates modulo 2 make, too,
        read other elements.
        """
        return self._is_dense_along(stage, loop) and all(
            edge.producer not in self.inlined and all(_moves(access.jacobian, loop) for access in edge.accesses)
            for edge in stage.edges
        )

    def _reads_more(self, stage: _core.Stage, loop: int, *, with_inside: bool = False) -> bool:
        """Does what the Stage loads from an input grow with this loop, at coordinates not clamped to its bounds?

        Beyond the loop's first point, or beyond all of it where that is the same at every size of the outputs.
        Of what is computed inside its loops, too, where that is asked for. A coordinate that is promised to stay
        inside, as `rfactor` promises it of loops that it keeps whole, goes on with the loop: there even a Func would
        be read beyond what is computed of it.
        """
        region = [_ends(side) for side in self.dag.funcs[stage.func].root_region]
        here = [_range_of(dim, region) for dim in stage.loops]
        dim = stage.loops[loop]
        if dim.is_rvar or not self.dag.funcs[stage.func].fixed_dims[dim.pure_dim]:
            here[loop] = (here[loop][0], here[loop][0])
        inside = self.inside.get(stage.func, set()) if with_inside else set()
        return self._grows(stage, here, [*here[:loop], _ANYWHERE, *here[loop + 1 :]], self.inlined | inside)

    def _inlined_stage(self, func: int) -> _core.Stage:
        return self.dag.stages[self.dag.funcs[func].stages[0]]

    def _grows(self, stage: _core.Stage, fewer: Ranges, more: Ranges, through: Set[int]) -> bool:
        """Does it load more of an input, and not all there is, where its loops cover `more` instead of `fewer`?

        It is looked `through` Funcs that are computed for it alone.
        """
        if _breaks_promise(stage, fewer, more):
            return True
        required: dict[int, tuple[Ranges, Ranges]] = {}
        self._require(required, stage, fewer, more)
        while required:
            # Producers come before what consumes them, inputs aside.
            producer = max(required, key=lambda func: (self.dag.funcs[func].is_input, func))
            before, after = required.pop(producer)
            func = self.dag.funcs[producer]
            if func.is_input:
                # A number in the algorithm may be what the size is estimated as, and does not change with it.
                whole = [_ends(side) for side in func.estimate] if func.is_size_read else before
                if any(new not in (old, all_) for old, new, all_ in zip(before, after, whole, strict=True)):
                    return True
            elif producer in through:
                for inner in (self.dag.stages[stage_id] for stage_id in func.stages):
                    loops = [[_range_of(dim, region) for dim in inner.loops] for region in (before, after)]
                    if _breaks_promise(inner, *loops):
                        return True
                    self._require(required, inner, *loops)
        return False

    def _require(
        self, required: dict[int, tuple[Ranges, Ranges]], stage: _core.Stage, fewer: Ranges, more: Ranges
    ) -> None:
        """Add what a Stage reads, of each Func."""
        for edge in stage.edges:
            regions = tuple([_ends(pair.evaluate(loops)) for pair in edge.bounds] for loops in (fewer, more))
            known = required.get(edge.producer, regions)
            before, after = (list(map(_hull, *pair)) for pair in zip(known, regions, strict=True))
            required[edge.producer] = (before, after)

    def indexes_by_value(self, stage: _core.Stage) -> bool:
        """Does the Stage, or anything inlined into it, use a loaded value as a coordinate?"""
        if stage.has_data_dependent_read or stage.has_data_dependent_write:
            return True
        return any(
            self.indexes_by_value(self._inlined_stage(edge.producer))
            for edge in stage.edges
            if edge.producer in self.inlined
        )


def _moves(jacobian: Sequence[_core.JacobianRow], loop: int) -> bool:
    """Does any coordinate of a read move with this loop?"""
    return any(row.numerator[loop] != 0 for row in jacobian)


def _breaks_promise(stage: _core.Stage, fewer: Ranges, more: Ranges) -> bool:
    """Does a loop over points go further, of which Halide is promised where coordinates end?"""
    return any(
        is_promised and not dim.is_rvar and before != after
        for is_promised, dim, before, after in zip(stage.promised_loops, stage.loops, fewer, more, strict=True)
    )


def _range_of(dim: _core.LoopDim, region: Ranges) -> tuple[int, int]:
    """(min, max) of a loop of a Stage that computes a region of its Func; a window does not reach as far as that."""
    return _ends(dim.bounds.evaluate(region)) if dim.is_rvar else region[dim.pure_dim]


def _hull(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def _ends(side: _core.Interval) -> tuple[int, int]:
    """(min, max) of an interval."""
    return side.min, side.min + side.extent - 1
