"""Box blur of 3x3 pixels as two passes of three: the smallest pipeline on which locality and recomputation compete.

A 16-bit image of one channel enters, of which 14 bits are in use so that three pixels add up in 16 bits; an image that
is smaller by two pixels in each direction leaves. The arithmetic is exact (Ragan-Kelley et al. 2013, §3).
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph_uint8

__all__ = ["APP"]

_TAPS = 3
_MARGIN = _TAPS - 1
# From the 8 bits of a photograph to 14.
_SCALE = 64


def _build() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(16), 2, "input")
    blur_x, blur = hl.Func("blur_x"), hl.Func("blur")
    blur_x[x, y] = sum((image[x + d, y] for d in range(1, _TAPS)), image[x, y]) // _TAPS
    blur[x, y] = sum((blur_x[x, y + d] for d in range(1, _TAPS)), blur_x[x, y]) // _TAPS
    image.set_estimates([(0, WIDTH), (0, HEIGHT)])
    blur.set_estimates([(0, WIDTH - _MARGIN), (0, HEIGHT - _MARGIN)])
    return hl.Pipeline(blur)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    height, width = output_shape
    image = photograph_uint8(height + _MARGIN, width + _MARGIN, seed=seed, channels=1)[0]
    return {"input": image.astype(np.uint16) * np.uint16(_SCALE)}


def _reference(inputs: Inputs) -> Array:
    image: Array = inputs["input"].astype(np.int64)
    for axis in (1, 0):
        image = np.lib.stride_tricks.sliding_window_view(image, _TAPS, axis=axis).sum(axis=-1) // _TAPS
    return image.astype(np.uint16)


APP = App(
    name="blur",
    title="Box blur",
    description="Mean over 3x3 pixels of one channel in two passes, uint16.",
    build=_build,
    output_shape=(HEIGHT - _MARGIN, WIDTH - _MARGIN),
    small_output_shape=(SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.uint16),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=0, relative=0),
)
