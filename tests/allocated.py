"""What Halide allocates for each Func of a pipeline, read off its lowered code."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import halide as hl

from metol.lower import Schedule

_ALLOCATION = re.compile(r"allocate (\w+)(?:\$\d+)?\[[a-z]+(\d+) \* ([\d* ]+)\]")


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
    schedule.apply(pipeline)
    for output in pipeline.outputs():
        for dim, size in enumerate(sizes):
            output.output_buffer().dim(dim).set_bounds(0, size)
    arguments = pipeline.infer_arguments()
    pipeline.compile_to_lowered_stmt(str(path), arguments, hl.StmtOutputFormat.Text, hl.Target(target))
    found: dict[str, float] = {}
    for name, bits, extents in _ALLOCATION.findall(path.read_text()):
        size = int(bits) / 8 * math.prod(int(extent) for extent in extents.split("*"))
        found[name] = max(found.get(name, 0.0), size)
    return found
