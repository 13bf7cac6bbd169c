"""Estimates given from outside: sizes of outputs and inputs, values of scalar parameters, by name.

They take precedence over those in the pipeline, and are all there is of the inputs and parameters of one that is read
from a `.hlpipe` file.
"""

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TypeAlias

from metol.errors import MetolError, MissingEstimateError

__all__ = ["EstimateMap", "read_estimates", "split_estimates"]

Regions: TypeAlias = dict[str, list[tuple[int, int]]]

EstimateMap: TypeAlias = Mapping[str, float | Sequence[tuple[int, int]]]
"""Name of an output Func, an input or a parameter, without `$n` -> a (min, extent) a dimension, or a number."""


def read_estimates(path: Path) -> EstimateMap:
    """Read a JSON object of names, each with a number or with a [min, extent] a dimension.

    Raises:
        MetolError: the file cannot be read, or holds something else; the entries are looked at when they are used.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise MetolError(f"The estimates in `{path}` cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise MetolError(
            f"The estimates in `{path}` must be an object of names, such as "
            '{"input": [[0, 1920], [0, 1080]], "radius": 3}.'
        )
    return content


def split_estimates(estimates: EstimateMap | None) -> tuple[Regions, dict[str, float]]:
    """Tell the sizes of images from the values of parameters.

    Args:
        estimates: As the user gave them; None for none.

    Returns:
        Regions by name, as lists of (min, extent), and scalars by name.

    Raises:
        MissingEstimateError: An entry is neither a number nor a sequence of (min, extent) with positive extents.
    """
    regions: Regions = {}
    scalars: dict[str, float] = {}
    for name, value in (estimates or {}).items():
        if isinstance(value, Real):
            scalars[name] = float(value)
        else:
            regions[name] = _to_region(name, value)
    return regions, scalars


def _to_region(name: str, value: object) -> list[tuple[int, int]]:
    """Check one size."""
    rule = f"The estimate of `{name}` must be a number, or one (min, extent) a dimension, as in [(0, 1920), (0, 1080)]"
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise MissingEstimateError(f"{rule}; it is {value!r}.")
    region = []
    for dimension, pair in enumerate(value):
        if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(end, int) for end in pair):
            raise MissingEstimateError(f"{rule}; dimension {dimension} is {pair!r}.")
        if pair[1] < 1:
            raise MissingEstimateError(f"{rule}, with an extent of at least 1; dimension {dimension} is {pair!r}.")
        region.append((pair[0], pair[1]))
    return region
