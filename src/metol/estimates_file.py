"""Sizes and values that a pipeline does not tell, read from a JSON file that a user wrote."""

import json
from pathlib import Path
from typing import Any

from metol.errors import MetolError

__all__ = ["read_estimates"]


def read_estimates(path: Path) -> Any:
    """Read a JSON object of names, each with a number or with a [min, extent] a dimension.

    Raises:
        MetolError: the file cannot be read, or holds something else.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise MetolError(f"The estimates in `{path}` cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise MetolError(
            f"The estimates in `{path}` must be an object of names, such as "
            '{"input": [[0, 1920], [0, 1080]], "radius": 3}.'
        )
    return content
