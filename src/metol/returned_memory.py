"""Memory at root that the system takes back after each run, so that the next one finds none of it there.

Enters: a complete loop nest. Leaves: whether glibc gives its memory back, and the machine that charges for it. What a
block costs depends on all others, which a search does not know before its end: a loop nest is asked afterwards, and
where new pages would add half to its time another search charges for every block.
"""

from collections.abc import Iterable
from dataclasses import replace

from metol import _core
from metol.search import Form
from metol.targets.cpu import CpuMachine

__all__ = ["charging_machine", "exceeds_what_is_kept", "gives_memory_back"]

# glibc maps blocks of more than its threshold, which grows to the largest block that was freed, but no further than
# this (mallopt(3), M_MMAP_THRESHOLD); what is larger is new at each run, and charged for as it is.
_MAPPED_BYTES = 32 << 20
# It trims its heap once so many times the threshold are free at the end of it (mallopt(3), M_TRIM_THRESHOLD).
_TRIM_FACTOR = 2
# Smaller blocks are found again in between.
_LEAST_BYTES = 1 << 20


def gives_memory_back(form: Form, state: _core.States) -> bool:
    """Tell whether the blocks of a loop nest, a batch of one, exceed what glibc keeps when they are freed."""
    column = list(form.space.feature_table()).index("bytes_at_realization")
    (rows,) = form.space.featurize(state)
    blocks = [
        float(rows[func.stages[0]][column])
        for func, schedule in zip(form.dag.funcs, state.describe(), strict=True)
        if schedule.placement == _core.Placement.ROOT and func.stages and not func.is_output
    ]
    return exceeds_what_is_kept(blocks)


def exceeds_what_is_kept(blocks: Iterable[float]) -> bool:
    """Tell whether blocks of so many bytes are given back to the system when all are freed."""
    kept = [block for block in blocks if _LEAST_BYTES <= block < _MAPPED_BYTES]
    return sum(kept) > _TRIM_FACTOR * max(kept, default=0)


def charging_machine(machine: CpuMachine) -> CpuMachine:
    """Return the machine as it is where every larger block is new at each run."""
    return replace(machine, memory=replace(machine.memory, fresh_allocation_bytes=float(_LEAST_BYTES)))
