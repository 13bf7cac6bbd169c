"""Making the two cases that every schedule is run on: the estimated size, and a smaller one that divides by nothing.

In: an application of the suite, which brings its own inputs, or the compiled reference schedule of any pipeline, whose
inputs are then random and exactly as large as Halide says they must be, so that a schedule that reads beyond is caught;
and what a user gives in place of either.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metol.errors import MetolError, MissingEstimateError
from metol.measure.case import Array, BufferShape, Case, Input
from metol.measure.case_names import AWKWARD, ESTIMATED, SMALL_EXTENT
from metol.measure.compiled import CompiledPipeline
from metol.measure.given_inputs import GivenInputs, fit
from metol.measure.halide_values import Number, constant, is_numpy_type
from metol.measure.tolerance import Tolerance
from metol.pipeline import base_name

__all__ = [
    "app_case",
    "app_cases",
    "app_tolerance",
    "give_inputs",
    "grow_inputs",
    "nudge_inputs",
    "output_shapes",
    "pipeline_case",
]

# Random 32- and 64-bit integers stay below this: such inputs are mostly indices, counts and parameters.
_WIDE_INTEGER_LIMIT = 256

# What a few operations in another order move a float by, in units in the last place.
_MOST_PLACES = 4

# Asking again with the answer settles in two rounds, unless the algorithm's bounds depend on themselves.
_QUERY_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class _Region:
    mins: tuple[int, ...]
    extents: tuple[int, ...]


def app_cases(app: Any, arguments: tuple[Any, ...], seed: int) -> tuple[Case, Case]:
    """Return both cases of an application: the estimated size and the small one, in the app's own words."""
    sizes = ((ESTIMATED, app.output_shape), (AWKWARD, app.small_output_shape))
    estimated, awkward = (app_case(app, arguments, name, shape, seed) for name, shape in sizes)
    return estimated, awkward


def app_tolerance(app: Any) -> Tolerance:
    """Return how closely an application's results agree."""
    return Tolerance(app.tolerance.absolute, app.tolerance.relative)


def app_case(app: Any, arguments: tuple[Any, ...], name: str, shape: tuple[int, ...], seed: int) -> Case:
    """Return the case of an application whose output has this shape, in NumPy's order."""
    values = app.inputs(shape, seed=seed)
    inputs = []
    for argument in arguments:
        value = values[argument.name]
        if isinstance(value, np.ndarray):
            inputs.append(Input(argument.name, array=value, mins=(0,) * value.ndim))
        else:
            inputs.append(Input(argument.name, number=value))
    return Case(name, tuple(inputs), (BufferShape.of_array(app.empty_output(shape)),))


def pipeline_case(
    pipeline: Any,
    reference: CompiledPipeline,
    name: str,
    seed: int,
    extents: Sequence[Sequence[int]] | None = None,
    *,
    given: GivenInputs | None = None,
) -> Case:
    """Return a case of any pipeline, from its estimates and from the bounds of its reference schedule.

    Args:
        pipeline: the pipeline.
        reference: its reference schedule, compiled.
        name: ``ESTIMATED``, ``AWKWARD``, or what a size of its own is called.
        seed: of the random inputs.
        extents: of each output buffer, x first; by default as the name says.
        given: in place of random inputs; arrays for the case ``ESTIMATED`` alone.

    Raises:
        GivenInputError: a given array is smaller than the reference needs.
        MissingEstimateError: an output has no estimate.
    """
    given = given or GivenInputs()
    is_awkward = name == AWKWARD
    outputs = output_shapes(pipeline, is_awkward=is_awkward)
    if extents is not None:
        outputs = [replace(shape, extents=tuple(size)) for shape, size in zip(outputs, extents, strict=True)]
    found = [given.find(argument) for argument in reference.arguments]
    wanted = [
        _wanted_input(argument, is_awkward=is_awkward) if item is None else _shape_or_number(item)
        for argument, item in zip(reference.arguments, found, strict=True)
    ]
    sizes, layouts = _settle(wanted, outputs, reference, keeps_estimates=name == ESTIMATED)
    rng = np.random.default_rng(seed)
    inputs = (
        _random_input(argument, size, rng) if item is None else _fit(item, size)
        for argument, item, size in zip(reference.arguments, found, sizes, strict=True)
    )
    return Case(name, tuple(inputs), layouts)


def _settle(
    wanted: list[BufferShape | Number],
    outputs: list[BufferShape],
    reference: CompiledPipeline,
    *,
    keeps_estimates: bool,
) -> tuple[list[BufferShape | Number], tuple[BufferShape, ...]]:
    """Ask which inputs and which layouts of outputs the reference needs, until asking again changes nothing.

    Args:
        wanted: the inputs that one would like to pass.
        outputs: the wanted outputs.
        reference: the code to ask.
        keeps_estimates: whether an input may stay larger than it needs to be.
    """
    for _ in range(_QUERY_ROUNDS):
        answer, layouts = reference.query_inputs(wanted, outputs)
        needed = iter(answer)
        refined = [next(needed) if isinstance(item, BufferShape) else item for item in wanted]
        if keeps_estimates:
            refined = [_keep_estimate(old, new) for old, new in zip(wanted, refined, strict=True)]
        if refined == wanted:
            break
        wanted = refined
    return wanted, layouts


def nudge_inputs(case: Case, seed: int) -> bool:
    """Move floats among the inputs of a case by a few units in the last place, in place; tell whether it has any."""
    rng = np.random.default_rng(seed)
    # Pipelines compute with halves as with single floats, and round them alike: those that are read stay as they are.
    arrays = [item.array for item in case.inputs if item.array is not None and item.array.dtype in ("f4", "f8")]
    for array in arrays:
        places = rng.integers(-_MOST_PLACES, _MOST_PLACES, array.shape, endpoint=True)
        array *= (1 + places * np.finfo(array.dtype).eps).astype(array.dtype)
    return bool(arrays)


def give_inputs(case: Case, code: CompiledPipeline, given: GivenInputs) -> Case:
    """Put what was given in place of a case's own inputs, such as those of an application.

    Raises:
        GivenInputError: a given array is smaller than this code needs.
    """
    found = [given.find(argument) for argument in code.arguments]
    if not any(found):
        return case
    inputs = [old if new is None else new for old, new in zip(case.inputs, found, strict=True)]
    shapes = iter(code.query_inputs([_shape_or_number(item) for item in inputs], case.outputs)[0])
    needed = [None if item.array is None else next(shapes) for item in inputs]
    fitted = (item if new is None else _fit(item, size) for item, new, size in zip(inputs, found, needed, strict=True))
    return replace(case, inputs=tuple(fitted))


def grow_inputs(case: Case, code: CompiledPipeline) -> tuple[Case, str]:
    """Enlarge inputs to what this code demands; what is added repeats what lies at the edge.

    Returns:
        The case, or the same one where nothing is missing, and the names of the inputs that have grown.
    """
    wanted = [_shape_or_number(item) for item in case.inputs]
    needed = iter(code.query_inputs(wanted, case.outputs)[0])
    inputs = [_grown(item, next(needed)) if item.array is not None else item for item in case.inputs]
    names = [new.name for old, new in zip(case.inputs, inputs, strict=True) if new is not old]
    if not names:
        return case, ""
    return replace(case, inputs=tuple(inputs)), ", ".join(names)


def _shape_or_number(item: Input) -> BufferShape | Number:
    if item.array is not None:
        return BufferShape.of_array(item.array, item.mins)
    assert item.number is not None
    return item.number


def _fit(item: Input, size: BufferShape | Number | None) -> Input:
    return fit(item, size) if isinstance(size, BufferShape) else item


def _grown(item: Input, needed: BufferShape) -> Input:
    assert item.array is not None
    shape = BufferShape.of_array(item.array, item.mins)
    sides = list(zip(shape.mins, shape.extents, needed.mins, needed.extents, strict=True))
    before = [max(0, low - wanted) for low, _, wanted, _ in sides]
    after = [max(0, wanted + count - low - extent) for low, extent, wanted, count in sides]
    if not any(before + after):
        return item
    mins = tuple(low - more for low, more in zip(shape.mins, before, strict=True))
    padded = np.pad(item.array, list(zip(before, after, strict=True))[::-1], mode="edge")
    grown = replace(shape, mins=mins, extents=padded.shape[::-1])
    return replace(item, array=grown.view(np.ascontiguousarray(grown.to_memory(padded))), mins=mins)


def output_shapes(pipeline: Any, *, is_awkward: bool = False) -> list[BufferShape]:
    """Return the estimated shape of each output buffer, or the small one that divides by nothing.

    Raises:
        MissingEstimateError: an output has no estimate.
    """
    shapes = []
    for func in pipeline.outputs():
        for buffer in func.output_buffers():
            region = _estimated_region(buffer.parameter().get_argument_estimates(), "output", func.name())
            shapes.append(_buffer_shape(buffer.type(), _shrink(region) if is_awkward else region))
    return shapes


def _wanted_input(argument: Any, *, is_awkward: bool) -> BufferShape | Number:
    import halide as hl

    if argument.kind == hl.ArgumentKind.InputScalar:
        return _scalar(argument)
    region = _estimated_region(argument.argument_estimates, "input", argument.name)
    return _buffer_shape(argument.type, _shrink(region) if is_awkward else region)


def _estimated_region(estimates: Any, role: str, name: str) -> _Region:
    """Read the estimates of a buffer."""
    bounds = [(constant(r.min), constant(r.extent)) for r in estimates.buffer_estimates]
    for d, (low, extent) in enumerate(bounds):
        if low is None or extent is None:
            raise MissingEstimateError(
                f"The {role} `{base_name(name)}` has no estimate in dimension {d}, so its size is unknown; call "
                "set_estimate."
            )
    return _Region(tuple(int(low or 0) for low, _ in bounds), tuple(int(extent or 0) for _, extent in bounds))


def _shrink(region: _Region) -> _Region:
    """Return about a tenth of each extent, made odd, so that no usual tile or vector divides it."""
    return replace(region, extents=tuple(e if e <= SMALL_EXTENT else e // 10 | 1 for e in region.extents))


def _buffer_shape(kind: Any, region: _Region) -> BufferShape:
    if not is_numpy_type(str(kind)):
        raise MetolError(f"NumPy has no {kind}, so that no buffer of it can be passed from Python, and nothing be run.")
    return BufferShape(str(kind), region.mins, region.extents, tuple(range(len(region.extents))))


def _keep_estimate(old: BufferShape | Number, new: BufferShape | Number) -> BufferShape | Number:
    """Keep the estimated region of an input where it holds what is needed; take what is needed otherwise."""
    if not isinstance(old, BufferShape) or not isinstance(new, BufferShape):
        return new
    bounds = zip(old.mins, old.extents, new.mins, new.extents, strict=True)
    if all(a <= c and c + d <= a + b for a, b, c, d in bounds):
        return replace(new, mins=old.mins, extents=old.extents)
    return new


def _scalar(argument: Any) -> Number:
    """Return the value of a scalar parameter: its estimate, its default, the least that its range allows, or 1."""
    estimates = argument.argument_estimates
    candidates = (estimates.scalar_estimate, estimates.scalar_def, estimates.scalar_min)
    value = next((v for v in map(constant, candidates) if v is not None), 1)
    return value if argument.type.is_float() else int(value)


def _random_input(argument: Any, item: BufferShape | Number, rng: np.random.Generator) -> Input:
    if not isinstance(item, BufferShape):
        return Input(argument.name, number=item)
    array = item.view(_random_array(np.dtype(item.dtype), item.memory_shape, rng))
    return Input(argument.name, array=array, mins=item.mins)


def _random_array(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return floats in [0, 1), 8- and 16-bit integers over their whole range, wider ones over a small range from 0."""
    if dtype.kind == "f":
        return rng.random(shape, np.float32).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape, np.uint8).astype(dtype)
    if dtype.itemsize <= 2:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.integers(0, _WIDE_INTEGER_LIMIT, shape, dtype)
