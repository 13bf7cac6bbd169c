"""Schedules a pipeline as a user would, and compares it with everything at root, in buffers of exactly the right size.

In: a function that builds the pipeline, and the sizes of its outputs. Out: nothing, or a failed assertion with the
schedule in a note.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import halide as hl
import numpy as np
from numpy.typing import NDArray

import metol
from metol.measure import schedule_at_root
from metol.measure.case import BufferShape, Case, Input
from metol.measure.compiled import CompiledPipeline
from metol.options import SearchOptions

Array = NDArray[np.generic]
Size = tuple[int, ...]
# Fills an input of this shape, in the order of memory.
Fill = Callable[[BufferShape, np.random.Generator], Array]

# The default search, with as little time as each of many tests can have.
QUICK = SearchOptions(budget_seconds=0.75)


def image(pixel: hl.Type, name: str, *sizes: int) -> hl.ImageParam:
    param = hl.ImageParam(pixel, len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def small_integers(shape: BufferShape, rng: np.random.Generator) -> Array:
    """Whole numbers, so that floating-point sums are the same in every order."""
    return rng.integers(0, 100, shape.memory_shape).astype(shape.dtype)


def integers(low: int, high: int) -> Fill:
    return lambda shape, rng: rng.integers(low, high, shape.memory_shape).astype(shape.dtype)


def fractions_below(limit: float) -> Fill:
    return lambda shape, rng: (limit * rng.random(shape.memory_shape)).astype(shape.dtype)


fractions = fractions_below(1)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is passed for the inputs, by name; what is not named is random, and of the least size that is needed."""

    sizes: Mapping[str, Size] = field(default_factory=dict)
    """Of inputs whose own size the algorithm mentions."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Scalar parameters."""
    fills: Mapping[str, Fill] = field(default_factory=dict)
    """How the elements are made."""


def check(
    build: Callable[[], hl.Pipeline],
    *sizes: Sequence[Size],
    inputs: Inputs | None = None,
    relative: float = 0,
    options: SearchOptions = QUICK,
    target: str = "host",
) -> metol.Result:
    """Schedule, compile, and compare at sizes that each give the extents of every output buffer."""
    result = metol.autoschedule(build(), target=target, options=options, threads=2)
    try:
        compare(build, result.schedule, sizes, inputs=inputs, relative=relative)
    except Exception as failure:
        failure.add_note("\n".join(map(str, result.schedule.directives)))
        raise
    return result


def compare(
    build: Callable[[], hl.Pipeline],
    schedule: metol.Schedule,
    sizes: Sequence[Sequence[Size]],
    *,
    inputs: Inputs | None = None,
    relative: float = 0,
) -> None:
    """Compare a schedule with everything at root."""
    plain, scheduled = build(), build()
    schedule_at_root(plain)
    types = [str(type_) for func in plain.outputs() for type_ in func.types()]
    reference = CompiledPipeline.compile(plain, hl.get_host_target())
    schedule.apply(scheduled)
    compiled = CompiledPipeline.compile(scheduled, hl.Target(schedule.target))
    for size in sizes:
        case = make_case(reference, [planar(*buffer) for buffer in zip(types, size, strict=True)], inputs or Inputs())
        expected, _ = reference.run_once(case)
        results, is_intact = compiled.run_once(case)
        assert is_intact, f"wrote outside of an output of {case.name}"
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=relative, atol=0, err_msg=f"at {case.name}")


def make_case(reference: CompiledPipeline, outputs: Sequence[BufferShape], inputs: Inputs) -> Case:
    """Return the inputs that these outputs need."""
    names = [argument.name.split("$")[0] for argument in reference.arguments]
    wanted: list[BufferShape | float] = []
    for name, argument in zip(names, reference.arguments, strict=True):
        if argument.kind == hl.ArgumentKind.InputScalar:
            number = inputs.numbers[name]
            wanted.append(number if argument.type.is_float() else int(number))
        else:
            wanted.append(planar(str(argument.type), inputs.sizes.get(name, (1,) * argument.dimensions)))
    needed, layouts = reference.query_inputs(wanted, outputs)
    shapes = iter(needed)
    rng = np.random.default_rng(0)
    made = []
    for name, item in zip(names, wanted, strict=True):
        if not isinstance(item, BufferShape):
            made.append(Input(name, number=item))
            continue
        shape = next(shapes)
        if name in inputs.sizes:
            shape = replace(shape, mins=item.mins, extents=item.extents)
        memory = aligned(inputs.fills.get(name, small_integers)(shape, rng))
        made.append(Input(name, array=shape.view(memory), mins=shape.mins))
    return Case(", ".join("x".join(map(str, shape.extents)) for shape in outputs), tuple(made), layouts)


def aligned(array: Array, offset: int = 0) -> Array:
    """Copy into memory that starts `offset` elements after a multiple of the widest vector."""
    size = array.dtype.itemsize
    memory = np.zeros(array.nbytes + 128 + offset * size, np.uint8)
    start = -memory.ctypes.data % 128 + offset * size
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def planar(dtype: str, extents: Size) -> BufferShape:
    return BufferShape(dtype, (0,) * len(extents), extents, tuple(range(len(extents))))
