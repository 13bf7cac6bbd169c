"""What the stage kinds share while a program grows: which images there are, what may be read, what it costs.

A stage kind is a function that takes the builder, reads one or more images and defines new ones; it returns False,
having defined nothing, where it does not apply to what there is.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import halide as hl

from metol.pipeline.random_programs.images import Axis, Image
from metol.pipeline.random_programs.values import INTEGER_TYPES, Term, Values, tame

__all__ = ["Builder", "StageKind"]

# Images that nobody reads yet: each becomes an output in the end.
_MOST_OPEN = 3
# How much likelier an image is read than the one defined before it.
_RECENCY = 1.5

_INPUT_VALUES = {
    "u8": Values("u8", *INTEGER_TYPES["u8"]),
    "u16": Values("u16", *INTEGER_TYPES["u16"]),
    "i16": Values("i16", *INTEGER_TYPES["i16"]),
    "i32": Values("i32", 0, 255),
    # Random floats are multiples of 2^-24 below 1.
    "f32": Values("f32", 0.0, 1.0, 2.0**-24),
}


class Builder:
    """A program under construction."""

    def __init__(self, rng: random.Random, operations: float) -> None:
        """Start an empty program.

        Args:
            rng: where every choice comes from.
            operations: how many operations a run of the program may take.
        """
        self.rng = rng
        self.images: list[Image] = []
        self.kind = ""
        self._operations_left = operations
        self._open: set[int] = set()
        self._touched: set[int] = set()
        self._count = 0

    def attempt(self, kind: str, apply: "StageKind") -> bool:
        """Let a stage kind add to the program; False if it does not apply."""
        self.kind = kind
        self._touched = set()
        return apply(self)

    def outputs(self) -> list[tuple[Image, ...]]:
        """Return the Funcs that nobody reads, each as the images of its elements."""
        numbers = dict.fromkeys(image.number for image in self.images if image.number in self._open)
        return [tuple(image for image in self.images if image.number == number) for number in numbers]

    def pick(self, fits: Callable[[Image], bool] = lambda _: True) -> Image | None:
        """Choose an image to read, rather a recent one; where too many are unread already, one of these."""
        is_full = len(self._open) >= _MOST_OPEN and not self._touched
        choice = [i for i in self.images if fits(i) and (i.number in self._open or not is_full)]
        return self._chosen(choice)

    def partner(self, image: Image, fits: Callable[[Image], bool] = lambda _: True) -> Image | None:
        """Choose an image that can be read at each point of another: of the same units, in any order, or fewer."""
        choice = [i for i in self.images if i is not image and i.units <= image.units and fits(i)]
        return self._chosen([i for i in choice if i.number in self._open] or choice)

    def affords(self, operations: float) -> bool:
        """Whether a Stage of so many operations is within the means of the program."""
        return operations <= self._operations_left / 3

    def input(self, sizes: Sequence[tuple[str, int]], type_: str, values: Values | None = None) -> Image:
        """Add an input with these units and extents; `values` tells more about what it holds."""
        axes = tuple(Axis(unit, 0, extent) for unit, extent in sizes)
        values = values or _INPUT_VALUES[type_]
        param = hl.ImageParam(values.halide_type(), len(axes), f"input{self._count}")
        param.set_estimates([(axis.low, axis.extent) for axis in axes])
        image = Image(param, self._count, axes, values)
        self._count += 1
        return image

    def define(self, axes: Sequence[Axis], term: Term, operations: float = 1.0) -> Image:
        """Define a Func over these axes and add it; `operations` is the work of a point."""
        return self.define_tuple(axes, (term,), operations)[0]

    def define_tuple(self, axes: Sequence[Axis], terms: Sequence[Term], operations: float = 1.0) -> tuple[Image, ...]:
        """Define a Func, of several values where there are several terms."""
        func = self.func()
        exprs = tuple(term.expr for term in terms)
        func[self.place(axes)] = exprs if len(exprs) > 1 else exprs[0]
        images = self.add(func, axes, [term.values for term in terms])
        self.spend(operations * images[0].points)
        return images

    def func(self, suffix: str = "") -> Any:
        """Return an undefined Func, named by the stage kind at work."""
        return hl.Func(f"{self.kind}{self._count}{suffix}")

    def add(
        self, func: Any, axes: Sequence[Axis], values: Sequence[Values], *, is_stored_otherwise: bool = False
    ) -> tuple[Image, ...]:
        """Add a defined Func, and note that everything picked so far is read."""
        elements: Iterable[int | None] = range(len(values)) if len(values) > 1 else (None,)
        images = tuple(
            Image(func, self._count, tuple(axes), held, element, is_stored_otherwise)
            for held, element in zip(values, elements, strict=True)
        )
        self._open -= self._touched
        self._open.add(self._count)
        self._touched = set()
        self._count += 1
        self.images += images
        return images

    def read(self, image: Image) -> None:
        """Note that an image, though not picked, is read by the Func that is added next."""
        self._touched.add(image.number)

    def spend(self, operations: float) -> None:
        """Account for the work of a Stage."""
        self._operations_left -= operations

    def taps(self, radius: int) -> tuple[int, int]:
        """Return the first and last offset of a window, centred or not."""
        first = -self.rng.randint(0, radius)
        return first, first + self.rng.randint(1, 2 * radius)

    def weights(self, count: int, *, least: int = -4) -> list[int]:
        """Return small integers other than 0."""
        return [self.rng.choice([w for w in range(least, 9) if w != 0]) for _ in range(count)]

    def tame(self, term: Term) -> Term:
        """Bring values back to a size that later Stages have room for."""
        return tame(self.rng, term)

    @staticmethod
    def place(axes: Sequence[Axis], **given: Any) -> Any:
        """Return what a Func is indexed with: coordinates by unit, the Var where none is given."""
        place = tuple(given.get(axis.unit, axis.var) for axis in axes)
        return place if len(place) != 1 else place[0]

    @staticmethod
    def domain(*axes: Axis) -> Any:
        """Return an RDom over the whole of some axes."""
        return hl.RDom([(axis.low, axis.extent) for axis in axes], "r")

    def _chosen(self, choice: Sequence[Image]) -> Image | None:
        if not choice:
            return None
        weights = [math.pow(_RECENCY, place) for place in range(len(choice))]
        (image,) = self.rng.choices(choice, weights)
        self._touched.add(image.number)
        return image


StageKind: TypeAlias = Callable[[Builder], bool]
