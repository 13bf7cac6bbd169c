"""Random programs from seeds: what the stage kinds are drawn with, how large a program gets, what its outputs are.

In: a seed, and how many Funcs. Out: an hl.Pipeline with estimates, the same in every process. Source: Adams et al.
2019, §5; the vocabulary is our own.
"""

import math
import random
from dataclasses import dataclass
from typing import Any

import halide as hl

from metol.pipeline.random_programs.builder import Builder, StageKind
from metol.pipeline.random_programs.images import Image
from metol.pipeline.random_programs.indexing import INDEXING
from metol.pipeline.random_programs.pointwise import POINTWISE
from metol.pipeline.random_programs.reductions import REDUCTIONS
from metol.pipeline.random_programs.values import INTEGER_TYPES, Term, Values
from metol.pipeline.random_programs.windows import WINDOWS

__all__ = ["STAGE_KINDS", "RandomProgram", "random_program"]

STAGE_KINDS: dict[str, StageKind] = {**POINTWISE, **WINDOWS, **REDUCTIONS, **INDEXING}
"""Every stage kind by its name, with which the names of its Funcs begin."""

# Kinds that make up most of real programs, and how much likelier they are than the others.
_FREQUENT = {
    "unary": 2.0,
    "binary": 3.0,
    "blend": 2.0,
    "stencil_1d": 2.5,
    "stencil_2d": 2.5,
    "window_sum": 1.5,
    "boundary": 1.5,
    "downsample": 1.5,
    "upsample": 1.5,
    "pyramid_join": 2.0,
    "convolution_layer": 2.0,
    "lookup": 1.5,
}

# Operations of one run: some 50 ms where everything is computed at root in one thread.
_OPERATIONS = 3e7
# Operations that a point of a Stage takes, on average.
_OPERATIONS_PER_POINT = 8
_MOST_POINTS = 2_000_000
_ATTEMPTS = 60


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A program and how it came to be."""

    seed: int
    """What it was made from, with the number of Funcs."""
    pipeline: Any
    """The hl.Pipeline, with estimates and without a schedule."""
    kinds: tuple[str, ...]
    """The stage kinds in the order in which they were added."""
    output_values: tuple[Values, ...]
    """What is known of each output buffer: one for each output, or for each element of a Tuple."""


def random_program(seed: int, *, least_funcs: int = 2, most_funcs: int = 30, size: int = 1) -> RandomProgram:
    """Make a program.

    Args:
        seed: Decides everything: the same seed and limits give the same program in every process.
        least_funcs: Funcs that it has at least, inputs not counted.
        most_funcs: Where it stops growing; the last Stage and the outputs may add a few.
        size: How many times as much it may compute, and its images may hold, as where it is 1 (some 50 ms where
            everything is computed at root in one thread).
    """
    rng = random.Random(seed)
    # Small programs are as instructive as large ones, and faster to schedule.
    goal = round(least_funcs * (most_funcs / least_funcs) ** rng.random())
    b = Builder(rng, size * _OPERATIONS)
    _add_inputs(b, goal, size)
    kinds: list[str] = []
    weights = [_FREQUENT.get(name, 1.0) for name in STAGE_KINDS]
    while _func_count(b) < goal and len(kinds) < most_funcs:
        # Kinds that do not apply to what there is are drawn in vain; after many of them the program is long enough.
        for _ in range(_ATTEMPTS):
            (kind,) = rng.choices(tuple(STAGE_KINDS), weights)
            if b.attempt(kind, STAGE_KINDS[kind]):
                kinds.append(kind)
                break
        else:
            break
    outputs = [_finished(b, elements) for elements in b.outputs()]
    values = tuple(image.values for elements in outputs for image in elements)
    return RandomProgram(seed, hl.Pipeline([elements[0].func for elements in outputs]), tuple(kinds), values)


def _func_count(b: Builder) -> int:
    return len({image.number for image in b.images if not isinstance(image.func, hl.ImageParam)})


def _add_inputs(b: Builder, goal: int, size: int) -> None:
    """Add one or two inputs, of any type, one to four axes, and a size that fits the number of Funcs."""
    rng = b.rng
    most_points = size * min(_OPERATIONS / (goal * _OPERATIONS_PER_POINT), _MOST_POINTS)
    points = 64 * (most_points / 64) ** math.sqrt(rng.random())
    dimensions = rng.choice([1, 2, 2, 2, 2, 2, 3, 3, 3, 4])
    channels = [(f"c{count}", count) for count in rng.choice([[3], [4], [8]]) if dimensions >= 3]
    batches = [("n2", 2)] if dimensions == 4 else []
    for _, count in channels + batches:
        points /= count
    if dimensions == 1:
        sizes = [("x", max(16, int(points)))]
    else:
        width = max(12, int(points**0.5 * rng.uniform(0.7, 2.0)))
        sizes = [("x", width), ("y", max(12, int(points / width))), *channels, *batches]
    for _ in range(rng.randint(1, 2)):
        image = b.input(sizes, rng.choice([*INTEGER_TYPES, "f32", "f32"]))
        b.images.append(image)


def _finished(b: Builder, elements: tuple[Image, ...]) -> tuple[Image, ...]:
    """Give an output its estimates and return it; inexact floats may leave as small integers."""
    image, values = elements[0], elements[0].values
    if not values.is_exact and len(elements) == 1 and b.rng.random() < 0.3:
        b.kind = "rounded"
        scaled = hl.clamp(image.at().expr * hl.f32(200.0 / values.high), hl.f32(0), hl.f32(200))
        image = b.define(image.axes, Term(hl.cast(hl.UInt(8), scaled), Values("u8", 0, 200)))
        elements = (image,)
    for axis_number, axis in enumerate(image.axes):
        for buffer in image.func.output_buffers():
            buffer.dim(axis_number).set_estimate(axis.low, axis.extent)
    return elements
