"""A scheduled pipeline as machine code: asking it for bounds, and running it on a case.

Everything goes through a Halide Callable, which takes plain numbers and buffers and checks their bounds itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from metol.heap import leave_ordinary_numbers
from metol.measure.case import Array, BufferShape, Case, allocate_output, guards_are_intact
from metol.measure.halide_values import halide_type
from metol.pipeline import LoweredPipeline

__all__ = ["CompiledPipeline", "buffer_of"]


@dataclass(frozen=True)
class CompiledPipeline:
    """The code and the list of its arguments."""

    arguments: tuple[Any, ...]
    """What `Pipeline.infer_arguments` lists: the inputs, with their estimates."""
    code: Any
    """The `hl.Callable`: inputs first, then outputs."""
    pipeline: Any
    """What was compiled, with its schedule."""
    target: Any
    """The `hl.Target`."""

    @staticmethod
    def compile(pipeline: Any, target: Any) -> "CompiledPipeline":
        """Compile a pipeline that has been scheduled."""
        arguments = pipeline.infer_arguments()
        return CompiledPipeline(tuple(arguments), pipeline.compile_to_callable(arguments, target), pipeline, target)

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

        Raises:
            hl.HalideError: the sizes contradict what the pipeline says of them.
        """
        import halide as hl

        try:
            return self._ask(inputs, outputs)
        except hl.HalideError:
            # Code without bounds queries has no answer, nor has what begins further out than what is needed of it:
            # Halide moves the beginning, and then misses the end.
            answer = self._read_off(inputs, outputs)
            if answer is None:
                raise
            return answer

    def _ask(
        self, inputs: Sequence[BufferShape | float], outputs: Sequence[BufferShape]
    ) -> tuple[tuple[BufferShape, ...], tuple[BufferShape, ...]]:
        """Ask the code itself."""
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

    @cached_property
    def _lowered(self) -> LoweredPipeline:
        return LoweredPipeline(self.pipeline, self.target.to_string())

    def _read_off(
        self, inputs: Sequence[BufferShape | float], outputs: Sequence[BufferShape]
    ) -> tuple[tuple[BufferShape, ...], tuple[BufferShape, ...]] | None:
        """Read the answer off the lowered code; None where only a run can tell, or there is none."""
        wanted = dict(zip([argument.name for argument in self.arguments], inputs, strict=True))
        buffers = {name: shape for name, shape in wanted.items() if isinstance(shape, BufferShape)}
        numbers = {name: float(value) for name, value in wanted.items() if not isinstance(value, BufferShape)}
        all_buffers = buffers | dict(zip(self._output_names(), outputs, strict=True))
        regions = {name: list(zip(shape.mins, shape.extents, strict=True)) for name, shape in all_buffers.items()}
        for name, sides in self._lowered.required(regions, numbers).items():
            known = [(side.min, side.extent) for side in sides if side is not None and side.extent >= 0]
            if len(known) < len(sides):
                return None
            regions[name] = known
        strides = self._lowered.strides(regions, numbers)
        shapes = [
            BufferShape.of_answer(
                shape.dtype, [low for low, _ in regions[name]], [extent for _, extent in regions[name]], strides[name]
            )
            for name, shape in all_buffers.items()
        ]
        return tuple(shapes[: len(buffers)]), tuple(shapes[len(buffers) :])

    def _output_names(self) -> list[str]:
        """Names of the outputs in lowered code: of a Tuple one a value."""
        counted = [(func.name(), len(func.output_buffers())) for func in self.pipeline.outputs()]
        return [f"{name}.{i}" if count > 1 else name for name, count in counted for i in range(count)]

    def run_once(self, case: Case) -> tuple[tuple[Array, ...], bool]:
        """Run on fresh outputs; return them, and whether the memory around them was left alone.

        Memory that the code allocates holds numbers of our own (`heap`), and so does what it frees.
        """
        allocated = [allocate_output(shape) for shape in case.outputs]
        run = self.bind(case, [output for output, _ in allocated])
        with leave_ordinary_numbers():
            run()
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
    values = array.view(np.ulonglong) if array.dtype == np.uint64 else array
    buffer = hl.Buffer(values)
    strides = [step // array.itemsize for step in array.strides[::-1]]
    if array.size and [buffer.dim(d).stride() for d in range(array.ndim)] != strides:
        # NumPy hands on strides of its own along axes of one element, and pipelines may ask for others.
        wider = [max(2, extent) for extent in array.shape]
        buffer = hl.Buffer(np.lib.stride_tricks.as_strided(values, wider, array.strides))
        for d, extent in enumerate(array.shape[::-1]):
            buffer.crop(d, 0, extent)
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
