"""What one application of the suite is: an algorithm without a schedule, its inputs and what it should compute.

An app enters as the functions of its own module and leaves as an immutable `App`, which names everything that
compiling, running and verifying a schedule of it needs. Shapes are NumPy's, in C order: `[c, y, x]` or `[y, x]`;
`hl.Buffer(array)` turns that into Halide's dimensions x, y, c. Sizes are those of Adams et al. 2019, §6.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metol.errors import UnknownAppError

if TYPE_CHECKING:
    import halide as hl

__all__ = ["HEIGHT", "SIZES", "SMALL_HEIGHT", "SMALL_WIDTH", "WIDTH", "App", "Array", "Inputs", "Shape", "Tolerance"]

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
# Arrays and plain numbers by parameter name, the names being those of `Pipeline.infer_arguments`.
Inputs: TypeAlias = Mapping[str, Any]

# The suite's image: about four million pixels, upright.
WIDTH = 1536
HEIGHT = 2560

SIZES: Mapping[str, Shape] = {"small": (320, 192), "large": (2160, 3840)}
"""Heights and widths of other images, by name: Sioutas et al. 2020, §5.1, repeat their experiments on these."""

# Two primes, both below and not a multiple of the sizes that schedules are made of (powers of two).
SMALL_WIDTH = 67
SMALL_HEIGHT = 41


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may be from the reference and still be right."""

    absolute: float
    """Allowed difference, in units of the output."""
    relative: float
    """Allowed difference on top of that, as a fraction of the reference value."""

    def __post_init__(self) -> None:
        """Assert that neither bound is negative."""
        assert min(self.absolute, self.relative) >= 0

    def accepts(self, actual: Array, expected: Array) -> bool:
        """Return whether `actual` has the shape and type of `expected` and is close to it everywhere; NaN never is."""
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return False
        if self == Tolerance(0, 0):
            return bool(np.array_equal(actual, expected))
        wanted = expected.astype(np.float64)
        return bool(np.all(np.abs(actual - wanted) <= self.absolute + self.relative * np.abs(wanted)))


@dataclass(frozen=True, slots=True)
class App:
    """One application: it has one output, and inputs that are found by parameter name."""

    name: str
    """Name in the registry, also the name of the output Func."""
    title: str
    """Name for tables and headings."""
    description: str
    """One line: what it computes and on what."""
    build: "Callable[[], hl.Pipeline]"
    """Make the algorithm afresh, with estimates on outputs, inputs and scalars and without a schedule."""
    output_shape: Shape
    """Shape of the output that the estimates describe."""
    small_output_shape: Shape
    """An awkward and small shape, on which the same pipeline must work and `reference` is cheap."""
    output_type: np.dtype[Any]
    """Element type of the output."""
    make_inputs: Callable[[Shape, int], Inputs]
    """Inputs for an output of the given shape, deterministic in the seed; call `inputs` instead."""
    reference: Callable[[Inputs], Array]
    """What the pipeline computes from these inputs, in plain NumPy; written to be right, not fast."""
    tolerance: Tolerance
    """How closely two schedules, or a schedule and the reference, agree."""
    resize: "Callable[[str], App] | None" = None
    """Make the same application at one of `SIZES`, where sizes are part of the algorithm; None where they are not."""

    def __post_init__(self) -> None:
        """Assert that both shapes have the same number of dimensions."""
        assert len(self.output_shape) == len(self.small_output_shape)

    def inputs(self, output_shape: Shape | None = None, *, seed: int = 0) -> Inputs:
        """Return realistic inputs by parameter name: C-ordered arrays, and numbers for scalar parameters.

        Args:
            output_shape: the output to compute; by default the estimated one. Any shape of as many dimensions is
                feasible, except that colour images keep three channels.
            seed: the same seed gives the same inputs.
        """
        return self.make_inputs(self.output_shape if output_shape is None else output_shape, seed)

    def at_size(self, size: str) -> "App":
        """Return the same application at one of `SIZES`; its pipeline needs the `estimates` of what is returned.

        Raises:
            UnknownAppError: there is no such size, or not of this application.
        """
        if size not in SIZES:
            raise UnknownAppError(f"There is no size `{size}`; there are {', '.join(SIZES)}.")
        if self.resize is not None:
            return self.resize(size)
        margins = [whole - extent for whole, extent in zip((HEIGHT, WIDTH), self.output_shape[-2:], strict=True)]
        if not all(0 <= margin < SMALL_HEIGHT for margin in margins):
            raise UnknownAppError(
                f"`{self.name}` has no size `{size}`: those are of applications on an image of {WIDTH}x{HEIGHT}, and "
                "of matrix multiplication."
            )
        shape = [whole - margin for whole, margin in zip(SIZES[size], margins, strict=True)]
        return replace(self, output_shape=(*self.output_shape[:-2], *shape))

    def estimates(self) -> dict[str, list[tuple[int, int]]]:
        """Return min and extent of each dimension of the output and of all input arrays by name, x first."""
        arrays = {name: value for name, value in self.inputs().items() if isinstance(value, np.ndarray)}
        shapes = {self.name: self.output_shape, **{name: array.shape for name, array in arrays.items()}}
        return {name: [(0, extent) for extent in reversed(shape)] for name, shape in shapes.items()}

    def empty_output(self, output_shape: Shape | None = None) -> Array:
        """Return an array to compute the output into; its smallest coordinates are 0."""
        return np.zeros(self.output_shape if output_shape is None else output_shape, self.output_type)
