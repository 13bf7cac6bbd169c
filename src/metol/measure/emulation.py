"""Running a schedule for CUDA where there is no GPU: on the emulated one, at sizes that are quick and reach all of it.

In: a pipeline and its schedule. Out: a `SizeCheck` for each size. Where it cannot be told, what came of it says why.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metol.lower import Schedule
from metol.measure.case_names import ESTIMATED
from metol.measure.measurement import Status
from metol.measure.size_checks import CheckOutcome, OutputSizes, SizeCheck, SizeChecker, sizes_to_check
from metol.measure.source import stored_source
from metol.measure.trial import RunOptions
from metol.pipeline import EstimateMap

__all__ = ["is_untold", "run_emulated"]

# Smaller than any block.
_SMALL = "3x5"
# What the driver, and Halide, call code that the emulated GPU does not know; and what all of its other refusals have.
_UNKNOWN_CODE = "CUDA_ERROR_INVALID_PTX"
_OF_DEVICE = "CUDA"


def run_emulated(
    pipeline: Any, schedule: Schedule, *, options: RunOptions, estimates: EstimateMap | None = None
) -> tuple[SizeCheck, ...]:
    """Run a schedule on the emulated GPU, and compare with everything at root.

    One size is larger by one than the largest block, where an output has one kernel for whole blocks and another one,
    and one is smaller than any; for outputs of a fixed size it is that.

    Args:
        pipeline: an `hl.Pipeline`, or its `PipelineSource`.
        schedule: one that fits it.
        options: how to run; `is_emulated` must be set. The time limit is for each size.
        estimates: sizes and values that the pipeline does not tell, by name.

    Raises:
        MetolError: the pipeline cannot be built.
    """
    import halide as hl

    with tempfile.TemporaryDirectory(prefix="metol-") as name:
        folder = Path(name)
        source = stored_source(pipeline, folder, estimates)
        file = folder / "schedule.json"
        schedule.save(file)
        sizes = _chosen(sizes_to_check(source.build(), schedule, hl.get_host_target()), schedule)
        with SizeChecker(source, options, folder) as checker:
            return tuple(checker.check(file, sizes))


def is_untold(check: SizeCheck) -> bool:
    """Tell whether what failed says nothing against the schedule.

    Code that the emulated GPU does not know, or takes too long for; no reference; or an error of Halide's own, by which
    a schedule refuses a size that it is not made for.
    """
    if check.outcome is not CheckOutcome.FAILED:
        return check.outcome is CheckOutcome.NOT_ALLOWED
    limits = (f"{Status.TIMEOUT.value}:", f"{Status.OUT_OF_MEMORY.value}:", "no reference:")
    is_refused = check.detail.startswith("HalideError:") and _OF_DEVICE not in check.detail
    return check.detail.startswith(limits) or _UNKNOWN_CODE in check.detail or is_refused


def _chosen(sizes: Sequence[OutputSizes], schedule: Schedule) -> tuple[OutputSizes, ...]:
    if schedule.has_fixed_sizes:
        return tuple(size for size in sizes if size.name == ESTIMATED)
    beyond = [size for size in sizes if size.name.endswith("+1")]
    return (*beyond[-1:], *(size for size in sizes if size.name == _SMALL))
