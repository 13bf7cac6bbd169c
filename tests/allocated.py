"""What Halide allocates for each Func of a pipeline, read off its lowered code."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import halide as hl

from metol.lower import Schedule

_ALLOCATION = re.compile(r"allocate (\w+)(?:\$\d+)?\[[a-z]+(\d+) \* ([\d* ]+)\]")


_ANY_ALLOCATION = re.compile(r"allocate (\w+)(?:\$\d+)?(?:\.\d+)?\[[a-z]+(\d+) \* (.*)\](.*)")
# What it is padded with stands behind: (40 * 4 + 3).
_CONSTANT = re.compile(r"\(?([\d* ]+)(?: \+ \d+\))?")
# Halide takes from the stack, unasked, what has a constant size of at most this.
_STACK_BYTES = 16 * 1024


def allocations(
    pipeline: hl.Pipeline, schedule: Schedule, path: Path, *, sizes: Sequence[int], target: str
) -> dict[str, float]:
    """Bytes that Halide allocates for each Func, where that is a number; the most where there are several.

    Args:
        pipeline: The pipeline; the schedule is applied to it.
        schedule: Its schedule.
        path: Where the lowered code is written.
        sizes: Of its outputs, x first.
        target: To lower for.
    """
    found: dict[str, float] = {}
    for name, bits, extents in _ALLOCATION.findall(_lowered(pipeline, schedule, path, sizes, target)):
        size = int(bits) / 8 * math.prod(int(extent) for extent in extents.split("*"))
        found[name] = max(found.get(name, 0.0), size)
    return found


def allocated_on_heap(
    pipeline: hl.Pipeline, schedule: Schedule, path: Path, *, sizes: Sequence[int], target: str
) -> dict[str, bool]:
    """Whether each Func that has memory at all has it from the heap; arguments as those of `allocations`."""
    found: dict[str, bool] = {}
    for name, bits, extents, where in _ANY_ALLOCATION.findall(_lowered(pipeline, schedule, path, sizes, target)):
        constant = _CONSTANT.fullmatch(extents)
        size = int(bits) / 8 * math.prod(int(extent) for extent in constant[1].split("*")) if constant else math.inf
        found[name] = found.get(name, False) or not (size <= _STACK_BYTES or "Stack" in where)
    return found


def _lowered(pipeline: hl.Pipeline, schedule: Schedule, path: Path, sizes: Sequence[int], target: str) -> str:
    schedule.apply(pipeline)
    for output in pipeline.outputs():
        for dim, size in enumerate(sizes):
            output.output_buffer().dim(dim).set_bounds(0, size)
    arguments = pipeline.infer_arguments()
    pipeline.compile_to_lowered_stmt(str(path), arguments, hl.StmtOutputFormat.Text, hl.Target(target))
    return path.read_text()
