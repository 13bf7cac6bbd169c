"""Groups as loop nests: which decisions make a kernel of a Func, its members and a tile.

In: a Space of a GPU, where every Func has a place. Out: decisions, as the core encodes them, and feature rows of the
Stages of one group, tile by tile. A Func that is not grouped is a kernel of its own.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from metol import _core
from metol.search.grouping.group_costs import GroupRows
from metol.search.grouping.tile_bounds import SHORT_EXTENT, TileBounds, tiled_dims

__all__ = ["Decision", "Group", "Kernels", "Tile", "one_kernel_each"]

Decision: TypeAlias = tuple[int, ...]
Tile: TypeAlias = Mapping[int, int]
"""Points of a block along each tiled dimension of the output of a group."""

_KEEP, _INLINE, _ROOT, _AT, _INNER, _PARALLEL = range(6)
# Levels of a GPU's loop nests.
_BLOCKS, _THREADS = 0, 1
_LOOPS: Final = 12
# Points of one thread, and what a core offers at most (targets/gpu/limits.hpp).
_MOST_POINTS = 16


@dataclass(frozen=True, slots=True)
class Group:
    """Funcs that are one kernel; one for each Stage where the output has updates."""

    output: int
    """The Func that the others are computed for."""
    members: frozenset[int] = frozenset()
    """Funcs computed in its blocks."""
    in_threads: frozenset[int] = frozenset()
    """Those of them that each thread computes for itself."""


class Kernels:
    """A pipeline on a GPU, to try groups on."""

    def __init__(self, space: _core.Space, lane_cycles: Sequence[float], *, most_threads: int, shrink: int) -> None:
        """Put every Func at root, or inline where it can be nowhere else.

        Args:
            space: The space.
            lane_cycles: [stages] cycles of one lane for one point.
            most_threads: Threads of a block, at most.
            shrink: What tiles are made smaller by.
        """
        self.space = space
        self.dag = space.dag
        self._stages = self.dag.stages
        self.lane_cycles = np.array(lane_cycles)
        """[stages] cycles of one lane for one point."""
        self._most_threads = most_threads
        self._shrink = shrink
        self.order: tuple[int, ...] = tuple(dict.fromkeys(space.decision_funcs))
        """Funcs, consumers before producers."""
        # Each Stage comes from the core as a copy: what is asked again and again is read once.
        self._producers = [tuple(edge.producer for edge in stage.edges) for stage in self._stages]
        self._readers: list[list[int]] = [[] for _ in self.dag.funcs]
        for number, producers in enumerate(self._producers):
            for producer in producers:
                self._readers[producer].append(number)
        self._rank = {func: place for place, func in enumerate(self.order)}
        self.inlined: frozenset[int] = frozenset(func for func in self.order if self.dag.funcs[func].must_inline)
        self._base = self._replay({})

    def consumers(self, func: int) -> list[int]:
        """Return the Funcs that read a Func, once what is inlined is looked through, each once."""
        found: dict[int, None] = {}
        for number in self._readers[func]:
            reader = self._stages[number].func
            if reader in self.inlined:
                found.update(dict.fromkeys(self.consumers(reader)))
            else:
                found[reader] = None
        return list(found)

    def accesses(self, func: int) -> list[tuple[_core.Stage, _core.Access]]:
        """Return every access to a Func, and the Stage that makes it."""
        stages = (self._stages[number] for number in self._readers[func])
        return [
            (stage, access)
            for stage in stages
            for edge in stage.edges
            if edge.producer == func
            for access in edge.accesses
        ]

    def inlined_into(self, funcs: Iterable[int]) -> list[int]:
        """Return what is inlined into some Funcs, and into what is."""
        found: dict[int, None] = {}
        waiting = list(funcs)
        while waiting:
            for stage in self.dag.funcs[waiting.pop()].stages:
                for producer in self._producers[stage]:
                    if producer in self.inlined and producer not in found:
                        found[producer] = None
                        waiting.append(producer)
        return list(found)

    def is_ours(self, func: int) -> bool:
        """Whether its loops are made here."""
        return not self.dag.funcs[func].is_extern and func not in self.inlined

    def extents(self, func: int) -> tuple[int, ...]:
        """Points of a Func along each dimension."""
        return tuple(side.extent for side in self.dag.funcs[func].root_region)

    def bounds(self, func: int) -> TileBounds:
        """Return the tiles that are worth a look."""
        return TileBounds.of(self.extents(func), most_threads=self._most_threads, shrink=self._shrink)

    def inline(self, func: int) -> bool:
        """Inline a Func from now on; False where that cannot be."""
        made, _ = self.space.amended(self._base, [[_decision(_INLINE, func)]])
        if len(made) == 0:
            return False
        before = self.inlined
        self.inlined |= {func}
        try:
            self._base = self._replay({})
        except ValueError:  # what it is inlined into is not inlined itself yet when its turn comes, and is too often
            self.inlined = before
            return False
        return True

    def rows(self, group: Group, tiles: Sequence[Tile], also_inline: int = -1) -> tuple[GroupRows, list[int]] | None:
        """Return what a group looks like with several tiles, and which of them are legal; None if none is.

        Args:
            group: The group.
            tiles: Sizes of blocks.
            also_inline: A Func that is to be inlined for this once.
        """
        first = [_decision(_INLINE, also_inline)] if also_inline >= 0 else []
        variants = [[*first, *self.decisions(group, tile)] for tile in tiles]
        states, legal = self.space.amended(self._base, variants)
        if len(states) == 0:
            return None
        funcs = [group.output, *self._ordered(group.members)]
        own = [stage for func in funcs for stage in self.dag.funcs[func].stages]
        inlined = self.inlined_into([*funcs, *([also_inline] if also_inline >= 0 else [])])
        inlined += [also_inline] if also_inline >= 0 else []
        others = [stage for func in inlined for stage in self.dag.funcs[func].stages]
        stages = list(dict.fromkeys([*own, *others]))
        points = float(np.prod([max(1, extent) for extent in self.extents(group.output)]))
        rows = GroupRows(
            rows=self.space.featurize_stages(states, stages),
            is_computed=np.array([stage in own for stage in stages]),
            lane_cycles=self.lane_cycles[stages],
            most_blocks=points / 64,
        )
        return rows, [int(number) for number in legal]

    def decisions(self, group: Group, tile: Tile) -> list[Decision]:
        """Return the decisions that make a group a kernel."""
        made = [_decision(_ROOT, group.output)]
        for stage in self.dag.funcs[group.output].stages:
            made += self._tile_stage(stage, tile, is_root=True)
        for func in self._ordered(group.members):
            place = self._place(group, func)
            made.append(_decision(_AT, func, stage=place[0], level=place[1]))
            if func not in group.in_threads:
                dims = tiled_dims(self.extents(func))
                for stage in self.dag.funcs[func].stages:
                    made += self._tile_stage(stage, dict.fromkeys(dims, 1), is_root=False)
        # How often they are evaluated depends on how often what they are inlined into is.
        return made + [_decision(_INLINE, func) for func in self.inlined_into([group.output, *group.members])]

    def state(self, groups: Mapping[Group, Tile]) -> _core.States:
        """Return the loop nest of all groups, a batch of one; those that are not legal stay as they are by default."""
        decisions: dict[tuple[int, int, int], Decision] = {}
        for group, tile in groups.items():
            own = self.decisions(group, tile)
            legal, _ = self.space.amended(self._base, [own])
            for decision in own if len(legal) else ():
                kind, func, stage = decision[:3]
                is_place = kind in (_INLINE, _ROOT, _AT)
                decisions[(func, -1, 0) if is_place else (func, stage, kind)] = decision
        return self._replay(decisions)

    def _replay(self, chosen: Mapping[tuple[int, int, int], Decision]) -> _core.States:
        path: list[Decision] = []
        seen: set[tuple[int, int]] = set()
        for func, stage in zip(self.space.decision_funcs, self.space.decision_stages, strict=True):
            if stage < 0:
                place = _INLINE if func in self.inlined else _ROOT
                path.append(chosen.get((func, -1, 0), _decision(place, func)))
                continue
            kind = _PARALLEL if (func, stage) in seen else _INNER
            seen.add((func, stage))
            path.append(chosen.get((func, stage, kind), _decision(_KEEP, func, stage=stage)))
        return self.space.replay(path)

    def _ordered(self, funcs: Set[int]) -> list[int]:
        return sorted(funcs, key=lambda func: self._rank[func])

    def _place(self, group: Group, func: int) -> tuple[int, int]:
        """The Stage and level that a member is computed in."""
        if func in group.in_threads:
            return self._reading_stage(func), _THREADS
        stage = self._reading_stage(func)
        while (owner := self._stages[stage].func) != group.output:
            stage = self._reading_stage(owner)
        return stage, _BLOCKS

    def _reading_stage(self, func: int) -> int:
        """A Stage that reads a Func, once what is inlined is looked through."""
        waiting = [func]
        while waiting:
            for number in self._readers[waiting.pop()]:
                reader = self._stages[number].func
                if reader not in self.inlined:
                    return number
                waiting.append(reader)
        raise AssertionError(f"nothing reads Func {func}")

    def _tile_stage(self, stage_id: int, tile: Tile, *, is_root: bool) -> list[Decision]:
        """Short loops inside a thread as far as they may be, tiled ones as threads, all others as blocks."""
        stage = self._stages[stage_id]
        pure = [i for i, loop in enumerate(stage.loops) if not loop.is_rvar]
        if not pure or stage.is_extern or stage.is_undef:
            return []
        extents = self.extents(stage.func)
        threads, points = [1] * _LOOPS, [1] * _LOOPS
        inside = 1
        for i in pure:
            dim = stage.loops[i].pure_dim
            if dim in tile:
                threads[i] = tile[dim]
            elif extents[dim] < SHORT_EXTENT and inside * extents[dim] <= _MOST_POINTS:
                points[i] = max(1, extents[dim])
                inside *= points[i]
        along = next((i for i in pure if stage.loops[i].pure_dim in tile), pure[0])
        inner = _decision(_INNER, stage.func, stage=stage_id, vector_loop=along, trips=points)
        if not is_root:
            return [inner]
        return [inner, _decision(_PARALLEL, stage.func, stage=stage_id, vector_loop=along, trips=threads)]


def one_kernel_each(space: _core.Space) -> _core.States:
    """Return the loop nest, a batch of one, in which each Func is a kernel of its own, in tiles that the core chooses.

    Only what can be nowhere else is inline: where all else fails, this is right, and on the GPU.

    Args:
        space: One of a GPU.
    """
    path: list[Decision] = []
    for func, stage in zip(space.decision_funcs, space.decision_stages, strict=True):
        if stage >= 0:
            path.append(_decision(_KEEP, func, stage=stage))
            continue
        places, _ = space.expand(space.replay(path))
        offered = [space.path(places.take([place]))[-1] for place in range(len(places))]
        path.append(next((place for place in offered if place[0] == _ROOT), offered[0]))
    return space.replay(path)


def _decision(
    kind: int, func: int, *, stage: int = -1, level: int = -1, vector_loop: int = -1, trips: Sequence[int] = ()
) -> Decision:
    """One decision as the core encodes it (schedule/decision.hpp)."""
    numbers = list(trips) if trips else [1 if kind == _AT else 0] * _LOOPS
    return (kind, func, stage, level, 0, 0, vector_loop, 1, 0, 0, *numbers)
