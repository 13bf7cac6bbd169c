"""What a block of threads may have on a device, and whether the launches of lowered code keep to it.

Enters: limits, and what a launch asks for. Leaves: what is too much, in words. A driver refuses such a launch when it
comes to it, after all has been compiled without complaint.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from metol import _core
from metol.pipeline import base_name

__all__ = ["BlockLimits"]


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """The most that one block of a kernel may have."""

    threads: int
    """Threads of a block."""
    shared_bytes: int
    """Shared memory of a block, as Halide's kernels get it, which never opt in to more than the usual."""

    def excesses(self, threads: int | None, shared_bytes: int | None) -> tuple[str, ...]:
        """Tell what is too much for a block; None is what only a run can tell, and is let pass."""
        told = []
        if threads is not None and threads > self.threads:
            told.append(f"a block has {threads} threads, and may have {self.threads}")
        if shared_bytes is not None and shared_bytes > self.shared_bytes:
            told.append(f"a block has {shared_bytes} B of shared memory, and may have {self.shared_bytes}")
        return tuple(told)

    def refusal(self, launches: Iterable[_core.KernelLaunch]) -> str:
        """Tell which kernel asks for too much, by its Func, or "" where none does."""
        for launch in (one for one in launches if one.is_taken):
            known = [extent for extent in launch.threads if extent is not None]
            threads = math.prod(known) if len(known) == len(launch.threads) else None
            if told := self.excesses(threads, launch.shared_bytes):
                return f"of the kernel of {_stage_text(launch)}, {'; '.join(told)}"
        return ""

    def to_json(self) -> str:
        """Return the limits as one line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "BlockLimits":
        """Read what `to_json` wrote."""
        return BlockLimits(**json.loads(text))


def _stage_text(launch: _core.KernelLaunch) -> str:
    func = base_name(launch.func)
    if not func:
        return f"`{launch.kernel}`"
    return f"`{func}`, update {launch.stage - 1}" if launch.stage > 0 else f"`{func}`"
