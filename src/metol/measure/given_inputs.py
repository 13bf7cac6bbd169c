"""The user's own inputs of a pipeline, in place of random ones.

In: values by name (`given_values.py`), read and checked at once in the process of the user. Out: a `GivenInputs`, which
travels to a child as a folder, and there takes the place of inputs of a case. Arrays stand in for the estimated size
alone; numbers hold at every size.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metol.errors import GivenInputError
from metol.measure.case import BufferShape, Case, Input
from metol.measure.given_values import InputValue, describe_argument, parse_value, plain_name, read_value

__all__ = ["GivenInputs", "fit"]


@dataclass(frozen=True, slots=True, eq=False)
class GivenInputs:
    """Inputs that a user gives for one pipeline. Arrays are not copied: leave them alone while they are in use."""

    inputs: tuple[Input, ...] = ()
    """Each by its plain name, without `$n`, and of the type and number of dimensions that the pipeline asks for."""

    @staticmethod
    def read(values: Mapping[str, InputValue], arguments: Sequence[Any]) -> "GivenInputs":
        """Read and check values.

        A PNG is brought to the input's type: uint8 and uint16 to floats in [0, 1], uint8 to uint16 with white at 65535;
        its channels become dimension 2. Everything else must be of the right type already. What is larger than the
        pipeline needs is passed whole. Arrays and files start at 0 in each dimension.

        Args:
            values: By name of the input; see `InputValue`.
            arguments: What `hl.Pipeline.infer_arguments` lists.

        Raises:
            GivenInputError: no input has that name, a file cannot be read, or a value is of the wrong type or has the
                wrong number of dimensions.
        """
        return GivenInputs(tuple(read_value(value, _find(name, arguments)) for name, value in values.items()))

    @staticmethod
    def parse(texts: Sequence[str], arguments: Sequence[Any]) -> "GivenInputs":
        """Read what a command line gives, each ``NAME=FILE`` or, for a scalar parameter, ``NAME=NUMBER``.

        Raises:
            GivenInputError: a text is neither, a name comes twice, or as `read` does.
        """
        values: dict[str, InputValue] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise GivenInputError(f"`{text}` gives no input; write NAME=FILE or NAME=NUMBER.")
            if name in values:
                raise GivenInputError(f"Input `{name}` is given twice; give it once.")
            values[name] = parse_value(value, _find(name, arguments))
        return GivenInputs.read(values, arguments)

    @property
    def digest(self) -> str:
        """A hash of everything given: 12 hexadecimal digits."""
        found = hashlib.sha256()
        for item in sorted(self.inputs, key=lambda item: item.name):
            found.update(f"{item.name} {item.number} {item.mins}".encode())
            if item.array is not None:
                found.update(f"{item.array.shape} {item.array.dtype}".encode())
                found.update(np.ascontiguousarray(item.array).tobytes())
        return found.hexdigest()[:12]

    @property
    def numbers(self) -> "GivenInputs":
        """The scalar parameters alone, which do not depend on any size."""
        return GivenInputs(tuple(item for item in self.inputs if item.array is None))

    def find(self, argument: Any) -> Input | None:
        """Return what was given for an `hl.Argument`, under the argument's full name; None where nothing was."""
        found = next((item for item in self.inputs if item.name == plain_name(argument)), None)
        return found and replace(found, name=argument.name)

    def check_names(self, arguments: Sequence[Any]) -> None:
        """Raise GivenInputError where a name is none of these arguments'; a pipeline may be built anew with others."""
        for item in self.inputs:
            _find(item.name, arguments)

    def save(self, folder: Path) -> None:
        """Write a new folder, from which `load` reads them in another process."""
        Case("given inputs", self.inputs, ()).save(folder)

    @staticmethod
    def load(folder: Path) -> "GivenInputs":
        """Read what `save` wrote."""
        return GivenInputs(Case.load(folder).inputs)


def fit(item: Input, needed: BufferShape) -> Input:
    """Return a given array in the layout that the pipeline asks for.

    Args:
        item: What was given.
        needed: The region that the reference schedule needs at the estimated size, and the layout.

    Raises:
        GivenInputError: it does not hold the region; the message says what is needed and what was given.
    """
    assert item.array is not None
    extents = item.array.shape[::-1]
    for d, (low, extent, start, count) in enumerate(zip(needed.mins, needed.extents, item.mins, extents, strict=True)):
        if low < start or low + extent > start + count:
            raise GivenInputError(
                f"Input `{plain_name(item)}` must reach from {low} to {low + extent - 1} in dimension {d} for outputs "
                f"of the estimated size, and the given one, {'x'.join(map(str, extents))}, reaches from {start} to "
                f"{start + count - 1}; give a larger one, estimate smaller outputs, or give an hl.Buffer, which may "
                "start anywhere."
            )
    shape = replace(needed, mins=item.mins, extents=extents)
    return replace(item, array=shape.view(shape.to_memory(item.array).copy()))


def _find(name: str, arguments: Sequence[Any]) -> Any:
    """Return the argument of that name."""
    found = next((argument for argument in arguments if plain_name(argument) == name), None)
    if found is None:
        known = "; ".join(map(describe_argument, arguments)) or "none"
        raise GivenInputError(f"The pipeline has no input `{name}`; it has: {known}.")
    return found
