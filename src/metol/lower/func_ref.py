"""Which Func of a pipeline a name in a schedule stands for, and whether a pipeline is the one the schedule is for.

Enters: a Halide Pipeline. Leaves: one `FuncRef` per Func, in the order of `Pipeline.get_func`. Names of Vars and RVars
that nobody chose differ from run to run (`v3`, `r16$x`), so loops are identified by their position.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl

from metol.errors import ScheduleMismatchError
from metol.pipeline import base_name

__all__ = ["FuncRef", "check_fit", "condition_output", "describe_funcs", "pipeline_funcs"]


@dataclass(frozen=True, slots=True)
class FuncRef:
    """A Func as it was when the schedule was made."""

    index: int
    """Position in `Pipeline.get_func`."""
    name: str
    """Base name, without Halide's `$n` suffix."""
    args: tuple[str, ...]
    """Names of the pure Vars, innermost in storage first."""
    rvars: tuple[tuple[str, ...], ...] = ()
    """Names of the RVars of each update, as `Func.rvars` orders them."""
    types: tuple[str, ...] = ()
    """Types of the values; several for a tuple."""
    output: int = -1
    """Position among the outputs of the pipeline, -1 for other Funcs."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return len(self.args)


def condition_output(funcs: Sequence[FuncRef], func: int) -> int:
    """Return the output whose size a `specialize` of this Func looks at: itself if it is one, else the first."""
    if funcs[func].output >= 0:
        return func
    return next((ref.index for ref in funcs if ref.output == 0), func)


def pipeline_funcs(pipeline: hl.Pipeline) -> list[Any]:
    """Return every Func of the pipeline, producers first."""
    funcs: list[Any] = []
    while True:
        try:
            funcs.append(pipeline.get_func(len(funcs)))
        except hl.HalideError:  # the only way that Halide tells the number of Funcs
            return funcs


def describe_funcs(pipeline: hl.Pipeline) -> tuple[FuncRef, ...]:
    """Return what identifies each Func of the pipeline, in the order of `Pipeline.get_func`."""
    outputs = [func.name() for func in pipeline.outputs()]
    return tuple(_describe(index, func, outputs) for index, func in enumerate(pipeline_funcs(pipeline)))


def _describe(index: int, func: Any, outputs: list[str]) -> FuncRef:
    name = func.name()
    updates = range(func.num_update_definitions())
    return FuncRef(
        index=index,
        name=base_name(name),
        args=tuple(var.name() for var in func.args()),
        rvars=tuple(tuple(rvar.name() for rvar in func.rvars(update)) for update in updates),
        types=tuple(str(type_) for type_ in func.types()),
        output=outputs.index(name) if name in outputs else -1,
    )


def check_fit(recorded: tuple[FuncRef, ...], actual: tuple[FuncRef, ...]) -> None:
    """Raise ScheduleMismatchError naming the first difference between two pipelines."""
    if len(recorded) != len(actual):
        raise _mismatch(
            f"it has {len(actual)} Funcs ({_names(actual)}), the schedule is for {len(recorded)} ({_names(recorded)})"
        )
    for expected, found in zip(recorded, actual, strict=True):
        for what, was, now in _compared(expected, found):
            if was != now:
                raise _mismatch(f"{what} of Func {expected.index}, `{expected.name}`, is {now}, not {was}")


def _compared(expected: FuncRef, found: FuncRef) -> tuple[tuple[str, object, object], ...]:
    return (
        ("the name", _stable_name(expected.name), _stable_name(found.name)),
        ("the number of dimensions", expected.dimensions, found.dimensions),
        ("the type", ", ".join(expected.types), ", ".join(found.types)),
        ("the number of updates", len(expected.rvars), len(found.rvars)),
        ("the number of RVars of each update", [len(r) for r in expected.rvars], [len(r) for r in found.rvars]),
        ("the place among the outputs", expected.output, found.output),
    )


def _stable_name(name: str) -> str:
    """Drop the running number from the names that Halide gives to unnamed Funcs (`f3`, `lambda_0`).

    Of a name that it has given before Halide makes one without `$`: of a second `h$`, `h_$1`.
    """
    return re.sub(r"^(f|lambda_)\d+$", r"\1", name.replace("$", "_"))


def _names(funcs: tuple[FuncRef, ...]) -> str:
    return ", ".join(func.name for func in funcs)


def _mismatch(difference: str) -> ScheduleMismatchError:
    return ScheduleMismatchError(
        f"The schedule does not fit this pipeline: {difference}. Apply it to the pipeline that it was made for, "
        "or schedule this one anew."
    )
