"""A scheduled pipeline as machine code: asking it for bounds, and running it on a case.

Everything goes through a Halide Callable, which takes plain numbers and buffers and checks their bounds itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metol.measure.case import Array, BufferShape, Case, allocate_output, guards_are_intact
from metol.measure.halide_values import halide_type

__all__ = ["CompiledPipeline", "buffer_of"]


@dataclass(frozen=True, slots=True)
class CompiledPipeline:
    """The code and the list of its arguments."""

    arguments: tuple[Any, ...]
    """What `Pipeline.infer_arguments` lists: the inputs, with their estimates."""
    code: Any
    """The `hl.Callable`: inputs first, then outputs."""

    @staticmethod
    def compile(pipeline: Any, target: Any) -> "CompiledPipeline":
        """Compile a pipeline that has been scheduled."""
        arguments = pipeline.infer_arguments()
        return CompiledPipeline(tuple(arguments), pipeline.compile_to_callable(arguments, target))

    def query_inputs(
        self, inputs: Sequence[BufferShape | float], outputs: Sequence[BufferShape]
    ) -> tuple[tuple[BufferShape, ...], tuple[BufferShape, ...]]:
        """Ask which regions and layouts of the inputs and outputs this code needs.

        Args:
            inputs: for each argument a number, or the buffer that one would like to pass; its extents matter where the
                algorithm mentions the input's size, as boundary conditions do.
            outputs: the wanted outputs.

        Returns:
            The needed input buffers (numbers are left out) and the outputs, both with the layout the code asks for.
        """
        numbers_and_queries = [_query(i) if isinstance(i, BufferShape) else i for i in inputs]
        output_queries = [_query(shape) for shape in outputs]
        self.code(*numbers_and_queries, *output_queries)
        needed = [
            _shape_of(query, wanted.dtype)
            for query, wanted in zip(numbers_and_queries, inputs, strict=True)
            if isinstance(wanted, BufferShape)
        ]
        layouts = [_shape_of(query, wanted.dtype) for query, wanted in zip(output_queries, outputs, strict=True)]
        return tuple(needed), tuple(layouts)

    def run_once(self, case: Case) -> tuple[tuple[Array, ...], bool]:
        """Run on fresh outputs; return them, and whether the memory around them was left alone."""
        allocated = [allocate_output(shape) for shape in case.outputs]
        self.bind(case, [output for output, _ in allocated])()
        return tuple(output for output, _ in allocated), all(guards_are_intact(raw) for _, raw in allocated)

    def bind(self, case: Case, outputs: Sequence[Array] | None = None) -> Callable[[], object]:
        """Return a function that runs the code on a case, again and again into the same outputs, aligned by default."""
        assert len(case.inputs) == len(self.arguments), "a case of another pipeline"
        arrays = outputs or [allocate_output(shape, is_aligned=True)[0] for shape in case.outputs]
        buffers = [item.number if item.array is None else buffer_of(item.array, item.mins) for item in case.inputs]
        buffers += [buffer_of(array, shape.mins) for array, shape in zip(arrays, case.outputs, strict=True)]

        # A buffer made from an array keeps it alive, and this function the buffers.
        return partial(self.code, *buffers)


def buffer_of(array: Array, mins: Sequence[int]) -> Any:
    """Return an `hl.Buffer` over an array with axes [..., y, x], whose smallest coordinates are `mins`, x first."""
    import halide as hl

    # Of the two C types of 64 bits without a sign that NumPy tells apart, Halide's Python knows the longer alone.
    buffer = hl.Buffer(array.view(np.ulonglong) if array.dtype == np.uint64 else array)
    if any(mins):
        buffer.set_min(list(mins))
    return buffer


def _query(shape: BufferShape) -> Any:
    """Return a buffer without memory; Halide fills in what it would need."""
    import halide as hl

    buffer = hl.Buffer.make_bounds_query(halide_type(shape.dtype), list(shape.extents))
    if any(shape.mins):
        buffer.set_min(list(shape.mins))
    return buffer


def _shape_of(query: Any, dtype: str) -> BufferShape:
    dims = [query.dim(d) for d in range(query.dimensions())]
    return BufferShape.of_answer(dtype, [d.min() for d in dims], [d.extent() for d in dims], [d.stride() for d in dims])
