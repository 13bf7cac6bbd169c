"""Memory at root that the system takes back after each run, so that the next one finds none of it there.

Enters: a complete loop nest. Leaves: how much of its memory glibc gives back, what it costs to get that again, and the
machine that charges for every block. What a block costs depends on all others, which a search does not know before its
end: a loop nest is asked afterwards, and where new pages would add half to its time another search charges for every
block.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from metol import _core
from metol.pipeline import PipelineDag
from metol.search import Form
from metol.targets.cpu import CpuMachine

__all__ = ["Block", "blocks_at_root", "charging_machine", "given_back", "seconds_of_new_pages"]

# glibc maps blocks of more than its threshold, which grows to the largest block that was freed, but no further than
# this (mallopt(3), M_MMAP_THRESHOLD); what is larger is new at each run, and charged for as it is.
_MAPPED_BYTES = 32 << 20
# It trims its heap once so many times the threshold are free at the end of it (mallopt(3), M_TRIM_THRESHOLD).
_TRIM_FACTOR = 2
# So much more than what was asked for lies free at the end of the heap (mallopt(3), M_TOP_PAD).
_TOP_PAD_BYTES = 128 << 10
# Smaller blocks are found again in between.
_LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is allocated at root, once a run."""

    num_bytes: float
    """Size."""
    first: int
    """When it is allocated: the number of the Func at root in whose loops it is first written to."""
    last: int
    """When it is freed: after the loops of this Func at root, which are the last to read it."""


def seconds_of_new_pages(form: Form, state: _core.States, machine: CpuMachine) -> float:
    """Return what the pages cost that glibc gives back after each run of a loop nest, a batch of one.

    The cost model charges for larger blocks alone, which are new at each run whatever else there is.
    """
    memory = machine.memory
    seconds_per_byte = (
        memory.page_fault_seconds_per_byte_all_threads if machine.cores > 1 else memory.page_fault_seconds_per_byte
    )
    return given_back(blocks_at_root(form, state)) * seconds_per_byte


def given_back(blocks: Iterable[Block]) -> float:
    """Return how many bytes of these blocks glibc gives back to the system when all are freed.

    All or nothing: what is free at the end of the heap is as much as was ever in use at one time.
    """
    kept = [block for block in blocks if _LEAST_BYTES <= block.num_bytes < _MAPPED_BYTES]
    most = max((_bytes_at(kept, block.first) for block in kept), default=0.0)
    threshold = _TRIM_FACTOR * max((block.num_bytes for block in kept), default=0.0)
    return most if most + _TOP_PAD_BYTES >= threshold else 0.0


def charging_machine(machine: CpuMachine) -> CpuMachine:
    """Return the machine as it is where every larger block is new at each run."""
    return replace(machine, memory=replace(machine.memory, fresh_allocation_bytes=float(_LEAST_BYTES)))


def _bytes_at(blocks: Iterable[Block], time: int) -> float:
    return sum(block.num_bytes for block in blocks if block.first <= time <= block.last)


def blocks_at_root(form: Form, state: _core.States) -> list[Block]:
    """Return what a loop nest, a batch of one, allocates outside of all loops."""
    column = list(form.space.feature_table()).index("bytes_at_realization")
    (rows,) = form.space.featurize(state)
    loops = _Loops(form.dag, state.describe())
    return [
        Block(float(rows[func.stages[0]][column]) * size / sum(func.value_bytes), loops.root_of(number), last)
        for number, func in enumerate(form.dag.funcs)
        if not func.is_output and loops.is_stored_at_root(number)
        for last in (loops.last_use(number),)
        for size in func.value_bytes
    ]


class _Loops:
    """In the loops of which Func at root each Func is computed and read. Producers have the lower numbers."""

    def __init__(self, dag: PipelineDag, schedules: Iterable[_core.FuncSchedule]) -> None:
        self._dag = dag
        self._schedules = {schedule.func: schedule for schedule in schedules}
        self._readers: dict[int, set[int]] = {}
        self._last_uses: dict[int, int] = {}  # of those that are inline
        for stage in dag.stages:
            for edge in stage.edges:
                if edge.producer != stage.func:
                    self._readers.setdefault(edge.producer, set()).add(stage.func)

    def is_stored_at_root(self, func: int) -> bool:
        schedule = self._schedules[func]
        return schedule.placement in (_core.Placement.ROOT, _core.Placement.AT) and schedule.store.is_root

    def root_of(self, func: int) -> int:
        """Return the Func at root around a Func that has loops of its own."""
        schedule = self._schedules[func]
        while schedule.placement == _core.Placement.AT:
            schedule = self._schedules[self._dag.stages[schedule.compute.stage].func]
        return schedule.func

    def last_use(self, func: int) -> int:
        """Return the last Func at root in whose loops a Func is read, also by what is inline there."""
        if self._schedules[func].placement != _core.Placement.INLINE:
            return max([self.root_of(func), *self._uses(func)])
        if func not in self._last_uses:  # what is inline may be read on many ways
            self._last_uses[func] = max(self._uses(func), default=func)
        return self._last_uses[func]

    def _uses(self, func: int) -> Iterator[int]:
        for reader in self._readers.get(func, ()):
            is_inline = self._schedules[reader].placement == _core.Placement.INLINE
            yield self.last_use(reader) if is_inline else self.root_of(reader)
