"""A live pipeline as a file: Halide's own serialization, and a sidecar for what it loses.

Serialization keeps the Funcs, and the estimates that Funcs have. It loses, of every parameter, the estimates, the
constraints and the range of a scalar, and it forgets altogether the parameter that holds an output's constraints;
without that the file cannot be read back. The sidecar (``FILE.hlpipe.json``) holds those, and which libraries extern
functions are from. Values and buffers that are bound stay behind; the estimates that they imply are kept.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

from metol.errors import MetolError, UndefinedPipelineError
from metol.measure.extern_libraries import libraries_of, load_libraries
from metol.measure.halide_values import Number, constant, expr, halide_type
from metol.pipeline import EstimateMap, base_name, restore_output_estimates

__all__ = ["load_bound_pipeline", "load_pipeline", "promises_bounds", "save_pipeline"]

SIDECAR_VERSION = 1


@dataclass(frozen=True, slots=True)
class _ParameterState:
    """What the sidecar keeps of one parameter; every number a constant."""

    name: str
    type: str
    dimensions: int
    is_buffer: bool
    constraints: tuple[tuple[Number | None, Number | None, Number | None], ...] = ()
    """Buffers, per dimension: min, extent and stride where the user fixed them."""
    estimates: tuple[tuple[Number | None, Number | None], ...] = ()
    """Buffers, per dimension: estimated min and extent."""
    scalar: tuple[Number | None, Number | None, Number | None] = (None, None, None)
    """Scalars: min, max and estimate."""


def save_pipeline(pipeline: Any, path: Path, estimates: EstimateMap | None = None) -> None:
    """Write `pipeline`, with the schedule that it carries, and its sidecar.

    Args:
        pipeline: an `hl.Pipeline`.
        path: the file; the sidecar lies beside it.
        estimates: sizes and values that take precedence over the pipeline's own estimates.
    """
    import halide as hl

    restore_output_estimates(pipeline)  # whoever has read it with Halide alone
    parameters = hl.serialize_pipeline(pipeline, str(path), get_params=True)
    outputs = [buffer.parameter() for func in pipeline.outputs() for buffer in func.output_buffers()]
    states = [asdict(_with_estimate(_state_of(p), estimates or {})) for p in (*parameters.values(), *outputs)]
    content = {"version": SIDECAR_VERSION, "parameters": states, "libraries": libraries_of(pipeline)}
    _sidecar(path).write_text(json.dumps(content, indent=1))


def promises_bounds(pipeline: Any) -> bool:
    """Tell whether the algorithm promises that values lie within bounds, which inputs drawn at random may break."""
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        file = Path(folder) / "pipeline.hlpipe"
        save_pipeline(pipeline, file)
        return b"unsafe_promise_clamped" in file.read_bytes()


def load_pipeline(path: Path) -> Any:
    """Read a pipeline; estimates and constraints are put back where the file has a sidecar.

    Without one, the outputs have the estimates of their Funcs.

    Raises:
        MetolError: the file is not a serialized pipeline, or its sidecar is of another version.
    """
    import halide as hl

    try:
        parameters = hl.deserialize_parameters(str(path))
        parameters |= {state.name: _parameter(state) for state in _read_sidecar(path)}
        pipeline = hl.deserialize_pipeline(str(path), parameters)
        restore_output_estimates(pipeline)
    except (hl.HalideError, UndefinedPipelineError) as error:
        raise MetolError(f"`{path}` is not a pipeline that Halide can read: {error}") from error
    return pipeline


def load_bound_pipeline(path: Path, values: Mapping[str, Any]) -> Any:
    """Read a pipeline that `save_pipeline` wrote, with its inputs bound, so that it can be realized.

    Args:
        path: the file.
        values: an `hl.Buffer` or a number for each input, by name.
    """
    import halide as hl

    parameters = {state.name: _bound_parameter(state, values.get(state.name)) for state in _read_sidecar(path)}
    return hl.deserialize_pipeline(str(path), parameters)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _is_ours(path: Path) -> bool:
    """Whether this is a file that a process of ours wrote for its children: no other names code that is run."""
    root = Path(tempfile.gettempdir()).resolve()
    return any(folder.parent == root and folder.name.startswith("metol-") for folder in path.resolve().parents)


def _read_sidecar(path: Path) -> tuple[_ParameterState, ...]:
    file = _sidecar(path)
    if not file.is_file():
        return ()
    content = json.loads(file.read_text())
    if content.get("version") != SIDECAR_VERSION:
        raise MetolError(f"`{file}` has version {content.get('version')}; this Metol reads version {SIDECAR_VERSION}.")
    if _is_ours(path):
        load_libraries(content.get("libraries", ()))
    return tuple(_ParameterState(**state) for state in content["parameters"])


def _state_of(parameter: Any) -> _ParameterState:
    name, kind = parameter.name(), str(parameter.type())
    if not parameter.is_buffer():
        scalar = (constant(parameter.min_value()), constant(parameter.max_value()), _scalar_estimate(parameter))
        return _ParameterState(name, kind, 0, False, scalar=scalar)
    dims = range(parameter.dimensions())
    return _ParameterState(
        name,
        kind,
        parameter.dimensions(),
        True,
        constraints=tuple(
            (
                constant(parameter.min_constraint(d)),
                constant(parameter.extent_constraint(d)),
                constant(parameter.stride_constraint(d)),
            )
            for d in dims
        ),
        estimates=tuple(_buffer_estimate(parameter, d) for d in dims),
    )


def _scalar_estimate(parameter: Any) -> Number | None:
    """Return the estimate; without one the default, or the value that has been set."""
    import halide as hl

    found = constant(parameter.estimate())
    if found is None:
        found = constant(parameter.default_value())
    if found is None:
        try:
            found = constant(parameter.scalar_expr())
        except hl.HalideError:  # the only way that Halide tells that there is no value
            return None
    return found


def _buffer_estimate(parameter: Any, dimension: int) -> tuple[Number | None, Number | None]:
    """Return the estimated min and extent of a dimension; without them those of the buffer that is bound."""
    low = constant(parameter.min_constraint_estimate(dimension))
    extent = constant(parameter.extent_constraint_estimate(dimension))
    buffer = parameter.buffer()
    if extent is None and buffer.defined():
        return buffer.dim(dimension).min(), buffer.dim(dimension).extent()
    return low, extent


def _with_estimate(state: _ParameterState, estimates: EstimateMap) -> _ParameterState:
    """Put in an estimate from outside. Of a Tuple, each value has a buffer of its own: `f.0`, `f.1`."""
    value = estimates.get(base_name(state.name).split(".")[0])
    if value is None:
        return state
    if not state.is_buffer:
        assert isinstance(value, Real), "checked by extraction"
        number = float(value)
        return replace(state, scalar=(*state.scalar[:2], number if "float" in state.type else int(number)))
    assert isinstance(value, Sequence), "checked by extraction"
    return replace(state, estimates=tuple((low, extent) for low, extent in value))


def _bound_parameter(state: _ParameterState, value: Any) -> Any:
    """Make a parameter with its value; that of an output has none."""
    import halide as hl

    if value is None:
        return _parameter(state)
    if not state.is_buffer:
        # `Parameter.set_scalar` of Halide's Python takes any integer for one of 8 bits.
        return hl.Param(halide_type(state.type), state.name, value).parameter()
    parameter = _parameter(state)
    parameter.set_buffer(value)
    return parameter


def _parameter(state: _ParameterState) -> Any:
    """Make the parameter anew, with everything that the sidecar knows about it."""
    import halide as hl

    parameter = hl.Parameter(halide_type(state.type), state.is_buffer, state.dimensions, state.name)
    for d, values in enumerate(state.constraints):
        parameter.set_stride_constraint(d, hl.Expr())  # of the first dimension it is 1 until something else is said
        setters = (parameter.set_min_constraint, parameter.set_extent_constraint, parameter.set_stride_constraint)
        for setter, value in zip(setters, values, strict=True):
            if value is not None:
                setter(d, hl.Expr(value))
    for d, (low, extent) in enumerate(state.estimates):
        if low is not None:
            parameter.set_min_constraint_estimate(d, hl.Expr(low))
        if extent is not None:
            parameter.set_extent_constraint_estimate(d, hl.Expr(extent))
    setters = (parameter.set_min_value, parameter.set_max_value, parameter.set_estimate)
    for setter, value in zip(setters, state.scalar, strict=True):
        if value is not None:
            setter(expr(value, state.type))
    return parameter
