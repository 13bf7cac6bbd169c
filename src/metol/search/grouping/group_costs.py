"""What a group of Funcs costs as one kernel, for each of several tiles.

In: feature rows of the Stages of the group. Out: costs, infinite where a kernel cannot be launched or leaves too much
of the GPU idle. Source: Sioutas et al. 2020, listing 1, and where the prose of §4.2 says otherwise, that: costs are of
all tiles; memory is scaled by occupancy and active threads in the final pass alone. So is the rule of whole warps,
which halos would break for nearly every kernel of several Funcs, and active multiprocessors are asked for as far as
the domain can fill them.

All costs are in cycles of one lane, at full occupancy: a load costs as many as the lanes of the GPU complete while its
memory delivers one sector. Active threads are counted as a share of the most that a block can have.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.targets.gpu import GpuMachine

__all__ = ["GroupCosts", "GroupRows"]

# Kernels of less occupancy are not worth a look (listing 1, OCCUPANCY_THRESHOLD).
_LEAST_OCCUPANCY = 0.1

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Feature rows of one group for several tiles."""

    rows: npt.NDArray[np.float32]  # [tiles, stages, features]
    is_computed: npt.NDArray[np.bool_]  # [stages] False for what is inlined
    lane_cycles: Costs  # [stages] of one point
    most_blocks: float  # that the domain has room for, each of two warps


class GroupCosts:
    """Costs of groups on one GPU."""

    def __init__(self, space: _core.Space, machine: GpuMachine) -> None:
        """Read the names of the feature columns, and what memory costs beside arithmetic."""
        self._columns = {name: place for place, name in enumerate(space.feature_table())}
        self._machine = machine
        lanes = machine.multiprocessors * machine.lanes * machine.clock_hz
        self._global_cycles = lanes * machine.sector_bytes / machine.memory_bytes_per_second
        # A turn of the banks takes a multiprocessor one cycle.
        self._shared_cycles = float(machine.lanes)
        self._launch_cycles = lanes * machine.launch_seconds
        # All else waits while one place is updated once a cycle.
        self._atomic_cycles = float(machine.multiprocessors * machine.lanes)
        self._occupancy = lru_cache(maxsize=4096)(self._find_occupancy)

    def of(self, group: GroupRows, *, is_final: bool) -> Costs:
        """Return the cost of each tile, infinite where it is no kernel worth a launch.

        Args:
            group: What the group looks like, tile by tile.
            is_final: Whether this is the pass in which memory is scaled by what hides its latency, and in which
                threads must be whole warps.
        """
        computed = group.is_computed
        threads = self._column(group, "num_threads_per_block")[:, computed]
        shared = self._column(group, "shared_bytes")[:, computed].max(axis=1)
        blocks = self._column(group, "num_blocks")[:, computed].max(axis=1)
        total = self._column(group, "threads_per_block")[:, computed].max(axis=1)
        occupancy = np.array(
            [[self._occupancy(int(n), int(bytes_)) for n in row] for row, bytes_ in zip(threads, shared, strict=True)]
        )
        is_occupied = occupancy.min(axis=1) >= _LEAST_OCCUPANCY
        occupancy = np.maximum(occupancy, _LEAST_OCCUPANCY)
        active = np.maximum(threads, 1) / self._machine.max_threads_per_block
        points = self._column(group, "points_computed_total") + self._column(group, "inlined_lanes")
        work = points * group.lane_cycles
        # What is inlined runs in the threads of what it is inlined into: at the occupancy of the whole.
        arithmetic = (work[:, computed] / (occupancy * active)).sum(axis=1)
        arithmetic += work[:, ~computed].sum(axis=1) / (occupancy.min(axis=1) * active.min(axis=1))
        memory = self._memory(group)
        if is_final:
            memory = memory / (occupancy.min(axis=1) * active.min(axis=1))
        serial = self._column(group, "launches") * self._launch_cycles
        serial += self._column(group, "atomic_turns") * self._atomic_cycles
        busy = min(self._machine.multiprocessors, max(1.0, group.most_blocks))
        is_valid = is_occupied & (blocks >= busy)
        is_valid &= (total <= self._machine.max_threads_per_block) & (shared <= self._machine.shared_bytes_per_block)
        if is_final and group.most_blocks >= self._machine.warp_threads:
            is_valid &= total % self._machine.warp_threads == 0
        costs: Costs = np.where(is_valid, arithmetic + memory + serial.sum(axis=1), np.inf)
        return costs

    def is_bound_by_resources(self, group: GroupRows) -> bool:
        """Whether a kernel has many threads or much shared memory: members then go into threads (§4.3)."""
        threads = self._column(group, "threads_per_block").max()
        shared = self._column(group, "shared_bytes").max()
        limits = self._machine
        return bool(threads > limits.max_threads_per_block / 2 or shared > limits.shared_bytes_per_block / 2)

    def _column(self, group: GroupRows, name: str) -> Costs:
        return group.rows[:, :, self._columns[name]].astype(np.float64)

    def _memory(self, group: GroupRows) -> Costs:
        blocks = self._column(group, "num_blocks")
        sectors = self._column(group, "num_global_mem_loads_per_block")
        sectors = sectors + self._column(group, "num_global_mem_stores_per_block")
        turns = self._column(group, "num_shared_mem_loads_per_block")
        turns = turns + self._column(group, "num_shared_mem_stores_per_block")
        costs: Costs = (blocks * (sectors * self._global_cycles + turns * self._shared_cycles)).sum(axis=1)
        return costs

    def _find_occupancy(self, threads: int, shared_bytes: int) -> float:
        """Share of warps that a multiprocessor holds; registers are as many as there are for so many threads (§4.2)."""
        if threads < 1 or threads > self._machine.max_threads_per_block:
            return 0.0
        return self._machine.occupancy(threads, shared_bytes_per_block=shared_bytes).share
