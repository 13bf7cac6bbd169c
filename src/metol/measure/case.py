"""One set of inputs and outputs of a pipeline, as files that every child process of a measurement reads.

The child that holds the reference schedule writes a case, with what it computed; the others run on the same inputs and
compare. Arrays keep their strides, because pipelines may ask for a layout such as interleaved channels.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metol.measure.tolerance import Tolerance

__all__ = ["ALIGNMENT_BYTES", "BufferShape", "Case", "Input", "allocate_output", "guards_are_intact"]

Array = NDArray[Any]

# On both sides of an output lies memory that no schedule may write.
_GUARD_BYTES = 4096
_GUARD_VALUE = 0xA5

ALIGNMENT_BYTES = 128
"""What is timed begins at a multiple of this, as `hl.Buffer` allocates it. NumPy promises 16, and where vectors cross
two cache lines each time, the same code can take half as long again."""


@dataclass(frozen=True, slots=True)
class BufferShape:
    """Type, place and memory layout of a buffer, in Halide's order of dimensions (x first)."""

    dtype: str
    """Name of the NumPy type, such as ``uint8``."""
    mins: tuple[int, ...]
    """Smallest coordinate in each dimension."""
    extents: tuple[int, ...]
    """Number of coordinates in each dimension."""
    order: tuple[int, ...]
    """The dimensions from innermost to outermost in memory; (0, 1, 2) is planar, (2, 0, 1) has channels interleaved."""
    gaps: tuple[int, ...] = ()
    """What the pipeline says of strides: the elements from one place to the next of each dimension, 0 of one that lies
    as close to those inside it as it can, below 0 of one that lies upside down. Empty where all are close."""

    def __post_init__(self) -> None:
        """Assert that the fields agree about the number of dimensions."""
        assert len(self.mins) == len(self.extents)
        assert sorted(self.order) == list(range(len(self.mins)))
        assert len(self.gaps) in (0, len(self.mins))

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of the dense array that holds the buffer, outermost dimension first; with gaps, a row of all."""
        if self.gaps:
            return (self._span,)
        return tuple(self.extents[d] for d in reversed(self.order))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one place to the next in each dimension."""
        strides = [0] * len(self.order)
        close = 1
        for d in self.order:
            strides[d] = (self.gaps[d] if self.gaps else 0) or close
            close = abs(strides[d]) * self.extents[d]
        return tuple(strides)

    @property
    def _span(self) -> int:
        """Elements from the first to the last of the buffer."""
        return 1 + sum(map(abs, self._lengths)) if all(self.extents) else 0

    @property
    def _lengths(self) -> list[int]:
        """Elements from the first place of each dimension to the last."""
        return [(extent - 1) * stride for extent, stride in zip(self.extents, self.strides, strict=True)]

    def view(self, memory: Array) -> Array:
        """Return `memory`, an array of `memory_shape`, with its axes in the order [..., y, x] that Halide expects."""
        if self.gaps:
            steps = [stride * memory.itemsize for stride in reversed(self.strides)]
            first = -sum(length for length in self._lengths if length < 0) if memory.size else 0
            spread: Array = np.lib.stride_tricks.as_strided(memory[first:], self.extents[::-1], steps)
            return spread
        axes_of_dims = {d: len(self.order) - 1 - place for place, d in enumerate(self.order)}
        view: Array = memory.transpose([axes_of_dims[d] for d in reversed(range(len(self.order)))])
        return view

    def to_memory(self, view: Array) -> Array:
        """Return the array in the order of memory: the inverse of `view`, with zeros in gaps."""
        if self.gaps:
            filled: Array = np.zeros(self.memory_shape, view.dtype)
            self.view(filled)[...] = view
            return filled
        memory: Array = view.transpose([view.ndim - 1 - d for d in reversed(self.order)])
        return memory

    @staticmethod
    def of_array(array: Array, mins: Sequence[int] | None = None) -> "BufferShape":
        """Return the shape of an array whose axes are [..., y, x]."""
        strides = [step // array.itemsize for step in array.strides[::-1]]
        dense = BufferShape(array.dtype.name, tuple(mins or (0,) * array.ndim), array.shape[::-1], _order(strides))
        # Of nothing at all, and of what is read again and again, no stride matters.
        return dense.spread(strides) if array.size and all(strides) else dense

    @staticmethod
    def of_answer(dtype: str, mins: Sequence[int], extents: Sequence[int], strides: Sequence[int]) -> "BufferShape":
        """Return the shape of a buffer that a bounds query was answered with; strides are in elements.

        Where the pipeline says nothing of a stride, Halide answers as if the buffer were planar.
        """
        planar = [prod(extents[:d]) for d in range(len(extents))]
        # One place overlaps with nothing, whatever is asked.
        said = [
            0 if stride == close and extent != 1 else stride
            for stride, close, extent in zip(strides, planar, extents, strict=True)
        ]
        return BufferShape(dtype, tuple(mins), tuple(extents), _order_apart(said, planar, extents)).spread(said)

    def spread(self, said: Sequence[int]) -> "BufferShape":
        """Return this shape with the strides that are said, in elements; 0 where nothing is."""
        gaps = [0] * len(self.order)
        close = 1
        for d in self.order:
            gaps[d] = 0 if said[d] == close else said[d]
            close = abs(gaps[d] or close) * self.extents[d]
        return replace(self, gaps=tuple(gaps) if any(gaps) else ())


def _order(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda d: (abs(strides[d]), d)))


def _order_apart(said: Sequence[int], planar: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """The dimensions from innermost to outermost, so that those whose stride is open (0) share no place with others."""
    open_dims = [d for d in range(len(said)) if not said[d]]
    order: list[int] = []
    close = 1
    for d in sorted((d for d in range(len(said)) if said[d]), key=lambda d: (abs(said[d]), d)):
        while open_dims and planar[open_dims[0]] < abs(said[d]) >= close * extents[open_dims[0]]:
            close *= extents[open_dims[0]]
            order.append(open_dims.pop(0))
        close = abs(said[d]) * extents[d]
        order.append(d)
    return (*order, *open_dims)


@dataclass(frozen=True, slots=True)
class Input:
    """One argument of the compiled pipeline: a number, or an array."""

    name: str
    """The parameter's name."""
    number: int | float | None = None
    """The value of a scalar parameter."""
    array: Array | None = None
    """The contents of a buffer, axes [..., y, x]."""
    mins: tuple[int, ...] = ()
    """The buffer's smallest coordinates, x first."""


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs in the order of the compiled pipeline's arguments, the shapes of its outputs, and what these must hold."""

    name: str
    """What size this is: ``estimated size`` or ``awkward size``."""
    inputs: tuple[Input, ...]
    """In the order of the arguments."""
    outputs: tuple[BufferShape, ...]
    """In the order of the arguments, one for each element of a Tuple."""
    expected: tuple[Array, ...] = field(default=())
    """What the reference schedule computed, for each output."""
    tolerances: tuple[Tolerance, ...] = ()
    """How closely each output is compared."""

    @property
    def size_text(self) -> str:
        """The outputs' extents for a person, such as ``1532x2556``."""
        return ", ".join("x".join(map(str, shape.extents)) or "scalar" for shape in self.outputs)

    def save(self, folder: Path) -> None:
        """Write the case into a new folder: ``case.json`` and one file for each array."""
        folder.mkdir(parents=True)
        inputs = []
        for place, item in enumerate(self.inputs):
            entry: dict[str, Any] = {"name": item.name, "number": item.number}
            if item.array is not None:
                shape = BufferShape.of_array(item.array, item.mins)
                np.save(folder / f"input_{place}.npy", np.ascontiguousarray(shape.to_memory(item.array)))
                entry["shape"] = asdict(shape)
            inputs.append(entry)
        for place, array in enumerate(self.expected):
            np.save(folder / f"expected_{place}.npy", array)
        content = {
            "name": self.name,
            "inputs": inputs,
            "outputs": [asdict(shape) for shape in self.outputs],
            "tolerances": [asdict(tolerance) for tolerance in self.tolerances],
        }
        (folder / "case.json").write_text(json.dumps(content))

    @staticmethod
    def load(folder: Path) -> "Case":
        """Read a case; the arrays are in aligned memory of this process, and timing meets no page faults of a file."""
        content = json.loads((folder / "case.json").read_text())
        inputs = []
        for place, entry in enumerate(content["inputs"]):
            if "shape" in entry:
                shape = _shape(entry["shape"])
                array = shape.view(_aligned(np.load(folder / f"input_{place}.npy")))
                inputs.append(Input(entry["name"], array=array, mins=shape.mins))
            else:
                inputs.append(Input(entry["name"], number=entry["number"]))
        tolerances = tuple(Tolerance(**tolerance) for tolerance in content["tolerances"])
        expected = tuple(np.load(folder / f"expected_{place}.npy") for place in range(len(tolerances)))
        outputs = tuple(_shape(shape) for shape in content["outputs"])
        return Case(content["name"], tuple(inputs), outputs, expected, tolerances)


def allocate_output(shape: BufferShape, *, is_aligned: bool = False) -> tuple[Array, Array]:
    """Allocate an output between two guards.

    Every element starts as NaN, or as a value that is unlikely to be right, so that one never written is noticed.

    Args:
        shape: its type, size and layout.
        is_aligned: whether it begins at a multiple of ALIGNMENT_BYTES; else anywhere, as users' memory may.

    Returns:
        The output with axes [..., y, x], and the bytes it lies in, for `guards_are_intact`.
    """
    dtype = np.dtype(shape.dtype)
    size = int(np.prod(shape.memory_shape, dtype=np.int64)) * dtype.itemsize
    whole = size + 2 * _GUARD_BYTES
    raw = _aligned_bytes(whole) if is_aligned else np.empty(whole, np.uint8)
    raw[:] = _GUARD_VALUE
    inner = raw[_GUARD_BYTES : _GUARD_BYTES + size]
    if dtype.kind == "f":
        inner[:] = 0xFF
    if dtype.kind == "b":
        inner[:] = 0
    return shape.view(inner.view(dtype).reshape(shape.memory_shape)), raw


def guards_are_intact(raw: Array) -> bool:
    """Return whether the memory on both sides of an output is as `allocate_output` left it."""
    return bool((raw[:_GUARD_BYTES] == _GUARD_VALUE).all() and (raw[-_GUARD_BYTES:] == _GUARD_VALUE).all())


def _aligned_bytes(size: int) -> Array:
    memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size]


def _aligned(array: Array) -> Array:
    copy: Array = _aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _shape(entry: dict[str, Any]) -> BufferShape:
    sides: dict[str, Any] = {name: tuple(entry[name]) for name in ("mins", "extents", "order", "gaps")}
    return BufferShape(entry["dtype"], **sides)
