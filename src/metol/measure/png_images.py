"""PNG images as inputs of a pipeline.

In: a file, and the type and the number of dimensions of an input. Out: an array `[y, x]` or `[c, y, x]` of that type.
What a PNG holds is taken as Halide's own image tools take it; whatever could be meant in two ways is refused.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metol.errors import GivenInputError

__all__ = ["convert_png", "read_png"]

# PNG specification, §5.2 and §11.2.2: the signature, and where the header has bits per sample and the kind of colour.
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BITS_PLACE, _COLOUR_PLACE = 24, 25
_PALETTE = 3

# From 8 to 16 bits, so that white stays white: 65535 is 257 times 255.
_WIDER = 257


def read_png(path: Path) -> NDArray[Any]:
    """Return what a PNG holds: bool, uint8 or uint16, `[y, x]` for gray and `[y, x, c]` for colours.

    Raises:
        GivenInputError: the file is no PNG or a broken one, has a palette, or has colours of 16 bits, which the reader
            would round to 8.
    """
    import imageio.v3 as imageio

    try:
        with path.open("rb") as file:
            header = file.read(_COLOUR_PLACE + 1)
        if len(header) <= _COLOUR_PLACE or not header.startswith(_SIGNATURE):
            raise GivenInputError(f"`{path}` is not a PNG image; save it as one, or as .npy.")
        if header[_COLOUR_PLACE] == _PALETTE:
            raise GivenInputError(f"`{path}` has a palette; save it as a gray or RGB image.")
        image: NDArray[Any] = imageio.imread(path, plugin="pillow")
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises SyntaxError for a broken chunk
        raise GivenInputError(f"`{path}` cannot be read: {error}.") from error
    if header[_BITS_PLACE] == 16 and image.dtype != np.uint16:
        raise GivenInputError(f"`{path}` has colours of 16 bits, which would be rounded to 8; save it as .npy.")
    return image


def convert_png(image: NDArray[Any], type_name: str, dimensions: int, subject: str) -> NDArray[Any]:
    """Bring an image to the type and the number of dimensions of an input.

    uint8 and uint16 become floats in [0, 1]; uint8 becomes uint16 whose white is 65535; a type that is the same stays
    as it is. Channels, last in a PNG, become dimension 2, that is `[c, y, x]`; a gray image for three dimensions is one
    channel.

    Args:
        image: what `read_png` returned.
        type_name: of the input, such as ``float32``.
        dimensions: of the input.
        subject: how an error begins: the input, and what was given for it.

    Raises:
        GivenInputError: any other type or number of dimensions.
    """
    if dimensions not in (2, 3):
        raise GivenInputError(f"{subject}, but an image has 2 or 3 dimensions, not {dimensions}; give an array.")
    if image.ndim > dimensions:
        raise GivenInputError(f"{subject}, which has colours, and the input 2 dimensions; save it as a gray image.")
    planes = np.moveaxis(image, -1, 0) if image.ndim == 3 else image
    if planes.ndim < dimensions:
        planes = planes[np.newaxis]
    return _convert_type(planes, type_name, subject)


def _convert_type(image: NDArray[Any], type_name: str, subject: str) -> NDArray[Any]:
    held = image.dtype.name
    if held == type_name:
        return image
    if held in ("uint8", "uint16") and type_name in ("float16", "float32", "float64"):
        # Halves end at 65504, so they are rounded only after the division.
        wide = np.float64 if type_name == "float64" else np.float32
        shares: NDArray[Any] = (image / wide(np.iinfo(held).max)).astype(type_name)
        return shares
    if (held, type_name) == ("uint8", "uint16"):
        wider: NDArray[Any] = image.astype(np.uint16) * np.uint16(_WIDER)
        return wider
    raise GivenInputError(
        f"{subject}, which holds {held}, and there is no one way from that to {type_name}; save a .npy of that type."
    )
