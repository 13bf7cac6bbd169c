"""The schedule that every result is compared with: a pipeline enters, and leaves with each of its Funcs at root."""

from collections.abc import Collection
from typing import Any

from metol.errors import MetolError
from metol.pipeline import base_name, extract, func_names

__all__ = ["schedule_at_root"]


def schedule_at_root(pipeline: Any, kept: Collection[int] = ()) -> None:
    """Compute every Func at root, in the order of its definition: slow, certain to lower, and right at every size.

    Never run a pipeline without this: unscheduled, Halide inlines everything, which can need unbounded time and memory.
    What is read at coordinates without bounds stays inlined, for Halide compiles it in no other way.
    Funcs at the positions `kept` are left as they are.
    """
    unbounded = _unbounded_funcs(pipeline)
    inputs = {base_name(argument.name) for argument in pipeline.infer_arguments()}
    for i in range(len(func_names(pipeline))):
        func = pipeline.get_func(i)
        # Halide lists an input as a Func, too (`input_im`); at root it would be a copy of the input.
        if i in kept or i in unbounded:
            continue
        if base_name(func.name()).removesuffix("_im") not in inputs:
            func.compute_root()


def _unbounded_funcs(pipeline: Any) -> frozenset[int]:
    """Positions of the Funcs that Halide compiles only inlined; none where estimates are missing to tell."""
    try:
        funcs = extract(pipeline).funcs
    except MetolError:
        return frozenset()
    return frozenset(position for position, func in enumerate(funcs) if func.must_inline)
