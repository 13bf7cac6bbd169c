"""What a user gives for one input of a pipeline: checked against the type and the dimensions that the input has.

In: a NumPy array, an `hl.Buffer`, a number, or the path of a ``.npy`` or ``.png``; and the `hl.Argument` it is for.
Out: an `Input`. Whether it is large enough only the compiled reference can tell (`given_inputs.py`).
"""

import os
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metol.errors import GivenInputError
from metol.measure.case import Input
from metol.measure.halide_values import Number
from metol.measure.png_images import convert_png, read_png
from metol.pipeline import base_name

if TYPE_CHECKING:
    import halide as hl

__all__ = ["InputValue", "describe_argument", "parse_value", "plain_name", "read_value"]

InputValue: TypeAlias = "NDArray[Any] | hl.Buffer | Number | str | os.PathLike[str]"
"""An array or a file with axes as NumPy has them, [..., y, x]; a buffer, which may start anywhere; or a number, for a
scalar parameter."""

_TRUTHS = {"true": 1, "false": 0}


def plain_name(argument: Any) -> str:
    """Return the name of an `hl.Argument` as people write it, without the `$n` of a name that is used again."""
    return base_name(str(argument.name))


def describe_argument(argument: Any) -> str:
    """Return an `hl.Argument` for a list: its name, its type, and its dimensions where it has any."""
    if _is_scalar(argument):
        return f"{plain_name(argument)} (a number, {argument.type})"
    return f"{plain_name(argument)} ({argument.dimensions} dimensions, {argument.type})"


def parse_value(text: str, argument: Any) -> InputValue:
    """Read what stands behind ``NAME=`` on a command line: a number for a scalar parameter, else a path.

    Raises:
        GivenInputError: the parameter is a scalar, and the text is no number.
    """
    if not _is_scalar(argument):
        return Path(text)
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    raise GivenInputError(f"Input `{plain_name(argument)}` is a number of type {argument.type}; `{text}` is none.")


def read_value(value: InputValue, argument: Any) -> Input:
    """Read and check one value. Arrays are not copied.

    Raises:
        GivenInputError: a file cannot be read, or the value is not of the argument's type and number of dimensions.
    """
    name = plain_name(argument)
    if _is_scalar(argument):
        return Input(name, number=_number(value, argument))
    if isinstance(value, str | os.PathLike):
        array, mins = _read_file(Path(value), argument), None
    elif isinstance(value, np.ndarray):
        array, mins = value, None
    else:
        array, mins = _read_buffer(value, argument)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name != str(argument.type):
        raise GivenInputError(
            f"Input `{name}` has elements of type {argument.type}, and what was given has {array.dtype.name}; "
            f"convert it, as with array.astype."
        )
    if array.ndim != argument.dimensions:
        raise GivenInputError(
            f"Input `{name}` has {argument.dimensions} dimensions, and what was given has the shape {array.shape}; "
            "give one axis for each dimension, [..., y, x]."
        )
    return Input(name, array=array, mins=mins or (0,) * array.ndim)


def _is_scalar(argument: Any) -> bool:
    import halide as hl

    return bool(argument.kind == hl.ArgumentKind.InputScalar)


def _number(value: Any, argument: Any) -> Number:
    """Return the value of a scalar parameter as a plain number."""
    number = value.item() if isinstance(value, np.generic) else value
    kind = argument.type
    if kind.is_float() and isinstance(number, Real):
        return float(number)
    if (kind.is_int() or kind.is_uint()) and isinstance(number, Integral):
        whole = int(number)
        low = -(2 ** (kind.bits() - 1)) if kind.is_int() else 0
        high = low + 2 ** kind.bits() - 1
        if low <= whole <= high:
            return whole
        raise GivenInputError(
            f"Input `{plain_name(argument)}` is a number of type {kind}, from {low} to {high}; {whole} is outside."
        )
    raise GivenInputError(f"Input `{plain_name(argument)}` is a number of type {kind}; {value!r} is none.")


def _read_file(path: Path, argument: Any) -> NDArray[Any]:
    subject = f"Input `{plain_name(argument)}` was given `{path}`"
    if not path.is_file():
        raise GivenInputError(f"{subject}, which is no file; give the path of a .npy or .png.")
    suffix = path.suffix.lower()
    if suffix == ".png":
        return convert_png(read_png(path), str(argument.type), argument.dimensions, subject)
    if suffix != ".npy":
        raise GivenInputError(f"{subject}; arrays are read from .npy and .png files.")
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise GivenInputError(f"{subject}, which cannot be read: {error}.") from error
    if not isinstance(array, np.ndarray):
        raise GivenInputError(f"{subject}, which holds several arrays; save one with numpy.save.")
    return array


def _read_buffer(value: Any, argument: Any) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return the contents of an `hl.Buffer`, and where it starts, x first."""
    import halide as hl

    if not isinstance(value, hl.Buffer) or not value.defined():
        raise GivenInputError(
            f"Input `{plain_name(argument)}` has {argument.dimensions} dimensions, and was given {value!r}; "
            "give a NumPy array, an hl.Buffer, or the path of a .npy or .png."
        )
    if str(value.type()) != str(argument.type):  # of which NumPy may have no like
        raise GivenInputError(
            f"Input `{plain_name(argument)}` has elements of type {argument.type}, and the buffer has {value.type()}; "
            "give a buffer of that type."
        )
    return np.asarray(value), tuple(value.dim(d).min() for d in range(value.dimensions()))
