"""Groups the Funcs of a pipeline into kernels, as long as that makes them cheaper.

A Space of a GPU enters, a complete loop nest leaves. What is trivial is inlined, then what it pays to inline; kernels
are merged into those that read them, the greatest gain first; the tile of each is chosen anew in finer steps; in
kernels that are short of threads or memory, members that no two threads share are computed by each thread for itself.
Source: Sioutas et al. 2020, §4.
"""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

import numpy as np

from metol import _core
from metol.errors import SearchError
from metol.search.grouping.group_costs import GroupCosts
from metol.search.grouping.kernels import Group, Kernels, Tile
from metol.search.strategy import Budget, SearchResult
from metol.targets.gpu import GpuMachine, lane_cycles

__all__ = ["FUSION_MODES", "Grouping", "require_fusion_mode"]

FUSION_MODES: Final = ("no-fusion", "overlap", "nested")
"""Kernels of one Func each; members in blocks; and those of kernels short of resources in threads, where they can."""

# Arithmetic of a point below which a Func is trivial: an address and a few operations.
_TRIVIAL_CYCLES = 6.0
# Threads of a block on OpenCL, and what tiles are divided by there (§5.1).
_OPENCL_THREADS = 512
_OPENCL_SHRINK = 2


def require_fusion_mode(mode: str) -> None:
    """Make sure that there is a mode.

    Raises:
        SearchError: There is none of that name.
    """
    if mode not in FUSION_MODES:
        raise SearchError(f"Grouping has no mode `{mode}`; it has {', '.join(FUSION_MODES)}.")


@dataclass(frozen=True, slots=True)
class Grouping:
    """The analytical scheduler for GPUs."""

    machine: GpuMachine
    """The GPU."""
    mode: str = "nested"
    """One of FUSION_MODES."""

    def __post_init__(self) -> None:
        require_fusion_mode(self.mode)

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low cost by the analytical model; the cost model tells what it would say."""
        search = _Search(space, self.machine, budget)
        search.inline_trivial()
        alternatives = [search.finished()] if self.mode != "no-fusion" else []
        if self.mode != "no-fusion":
            search.merge()
        search.tile_finely()
        if self.mode == "nested":
            alternatives.insert(0, search.finished())
            search.nest()
        state = search.finished()
        cost = float(space.cost(state, model)[0])
        return SearchResult(state, cost, search.tried, not budget.is_spent(), tuple(alternatives))


@dataclass(frozen=True, slots=True)
class _Best:
    """The best tile of a group."""

    cost: float
    tile: Tile


class _Search:
    """The groups of one pipeline, while they are merged."""

    def __init__(self, space: _core.Space, machine: GpuMachine, budget: Budget) -> None:
        is_opencl = machine.capability.version is None
        self._kernels = Kernels(
            space,
            lane_cycles(space.dag),
            most_threads=min(machine.max_threads_per_block, _OPENCL_THREADS if is_opencl else 1024),
            shrink=_OPENCL_SHRINK if is_opencl else 1,
        )
        self._costs = GroupCosts(space, machine)
        self._budget = budget
        self._known: dict[tuple[Group, frozenset[int], int], _Best] = {}
        self.groups: dict[Group, _Best] = {}
        self.tried = 0

    def inline_trivial(self) -> None:
        """Inline what is read at one place a point, or costs next to nothing; then what it pays to inline (§4.1)."""
        kernels = self._kernels
        for func in kernels.order:
            is_free = kernels.is_ours(func) and not kernels.dag.funcs[func].is_output
            if is_free and (self._is_cheap(func) or self._is_read_pointwise(func)):
                kernels.inline(func)
        self._start()
        for func in kernels.order:
            if kernels.is_ours(func) and not kernels.dag.funcs[func].is_output and not self._budget.is_spent():
                self._inline_if_better(func)

    def _start(self) -> None:
        own = [func for func in self._kernels.order if self._kernels.is_ours(func)]
        self.groups = {group: self._best(group) for group in (Group(func) for func in own)}

    def _is_cheap(self, func: int) -> bool:
        stages = self._kernels.dag.funcs[func].stages
        return len(stages) == 1 and bool(self._kernels.lane_cycles[stages[0]] <= _TRIVIAL_CYCLES)

    def _is_read_pointwise(self, func: int) -> bool:
        if len(self._kernels.dag.funcs[func].stages) != 1:
            return False
        accesses = self._kernels.accesses(func)
        return all(access.count == 1 and _is_permutation(stage, access) for stage, access in accesses)

    def _inline_if_better(self, func: int) -> None:
        readers = {group for group in self.groups if self._reads(group, func)}
        own = self.groups.get(Group(func))
        if own is None or not readers:
            return
        before = own.cost + sum(self.groups[group].cost for group in readers)
        after = {group: self._best(group, also_inline=func) for group in readers}
        if sum(best.cost for best in after.values()) < before and self._kernels.inline(func):
            del self.groups[Group(func)]
            self.groups.update(after)

    def _reads(self, group: Group, func: int) -> bool:
        return bool({group.output, *group.members} & set(self._kernels.consumers(func)))

    def merge(self) -> None:
        """Merge the kernel of a Func into the one that reads it, the greatest gain first, until none gains (§4.2)."""
        gains = {group: self._gain(group) for group in self.groups}
        while gains and not self._budget.is_spent():
            producer = max(gains, key=lambda group: gains[group][0])
            gain, consumer, merged = gains[producer]
            if gain <= 0 or consumer is None or merged is None:
                return
            for group in (producer, consumer):
                del self.groups[group]
                del gains[group]
            self.groups[merged] = self._best(merged)
            for group in list(self.groups):
                if group == merged or gains[group][1] in (producer, consumer):
                    gains[group] = self._gain(group)

    def _gain(self, producer: Group) -> tuple[float, Group | None, Group | None]:
        """What merging a group into the only one that reads it saves, which that is, and what comes of it."""
        nothing = (-inf, None, None)
        func = producer.output
        if self._kernels.dag.funcs[func].is_output:
            return nothing
        readers = [group for group in self.groups if group != producer and self._reads(group, func)]
        if len(readers) != 1:
            return nothing
        consumer = readers[0]
        merged = Group(consumer.output, consumer.members | producer.members | {func})
        before = self.groups[producer].cost + self.groups[consumer].cost
        after = self._best(merged).cost
        return (before - after, consumer, merged) if isfinite(after) else nothing

    def tile_finely(self) -> None:
        """Choose the tile of each kernel anew, in steps of two, of whole warps (§4.2)."""
        for group, coarse in list(self.groups.items()):
            if self._budget.is_spent():
                return
            fine = self._choose(group, self._kernels.bounds(group.output).fine(), is_final=True)
            self.groups[group] = fine if isfinite(fine.cost) else coarse

    def nest(self) -> None:
        """In kernels short of threads or memory, compute in threads what each of them needs alone (listing 2)."""
        for group, best in list(self.groups.items()):
            found = self._kernels.rows(group, [best.tile])
            if not group.members or found is None or not self._costs.is_bound_by_resources(found[0]):
                continue
            nested = group
            for func in sorted(group.members):
                deeper = Group(group.output, group.members, nested.in_threads | {func})
                if self._is_shared_by_no_threads(func, nested) and self._kernels.rows(deeper, [best.tile]) is not None:
                    nested = deeper
            if nested is not group:
                del self.groups[group]
                self.groups[nested] = best

    def _is_shared_by_no_threads(self, func: int, group: Group) -> bool:
        """Whether no point of a member is read by two threads of the one Func that reads it."""
        readers = self._kernels.consumers(func)
        if len(readers) != 1 or readers[0] not in {group.output, *group.members}:
            return False
        (reader,) = readers
        tiled = self._kernels.bounds(reader).dims
        # None reads it through what is inlined, where threads may meet.
        return all(
            stage.func == reader and _is_apart(stage, access, tiled) for stage, access in self._kernels.accesses(func)
        )

    def finished(self) -> _core.States:
        """Return the loop nest of all groups; where the space refuses a kernel, its Funcs have one each."""
        return self._kernels.state({group: best.tile for group, best in self.groups.items()})

    def _best(self, group: Group, also_inline: int = -1) -> _Best:
        inlined = frozenset(self._kernels.inlined_into([group.output, *group.members]))
        key = (group, inlined, also_inline)
        if key not in self._known:
            tiles = self._kernels.bounds(group.output).coarse()
            self._known[key] = self._choose(group, tiles, is_final=False, also_inline=also_inline)
        return self._known[key]

    def _choose(self, group: Group, tiles: list[Tile], *, is_final: bool, also_inline: int = -1) -> _Best:
        self.tried += len(tiles)
        found = self._kernels.rows(group, tiles, also_inline)
        if found is None:
            return _Best(inf, tiles[0])
        rows, legal = found
        costs = self._costs.of(rows, is_final=is_final)
        place = int(np.argmin(costs))
        return _Best(float(costs[place]), tiles[legal[place]])


def _is_permutation(stage: _core.Stage, access: _core.Access) -> bool:
    """Whether each coordinate of an access moves with one loop, by one, and no two with the same."""
    moving = [
        [i for i in range(len(stage.loops)) if not row.is_known[i] or row.numerator[i] != 0] for row in access.jacobian
    ]
    loops = [each for every in moving for each in every]
    return all(len(each) <= 1 for each in moving) and len(set(loops)) == len(loops)


def _is_apart(stage: _core.Stage, access: _core.Access, tiled: tuple[int, ...]) -> bool:
    """Whether threads along the tiled dimensions read different points: one offset, and a coordinate each."""
    for i, loop in enumerate(stage.loops):
        if loop.is_rvar or loop.pure_dim not in tiled:
            continue
        rows = [d for d, row in enumerate(access.jacobian) if not row.is_known[i] or row.numerator[i] != 0]
        if len(rows) != 1 or not access.jacobian[rows[0]].is_known[i]:
            return False
        if access.distinct_offsets and access.distinct_offsets[rows[0]] > 1:
            return False
    return True
