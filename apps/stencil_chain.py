"""A chain of 32 stencils: 5x5 convolutions in sequence, none of them separable (Adams et al. 2019, §6.1).

An image of one channel with 10 bits a pixel enters and leaves in 16-bit integers; the edge of the input is repeated
outwards, and each stage reads two pixels more on every side than it computes. The arithmetic is exact.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph_uint8

__all__ = ["APP"]

_STAGES = 32
# Three independent rows, so no product of two vectors. The sum is 64: with 10-bit pixels it fits in 16 bits.
_WEIGHTS = (
    (1, 2, 2, 2, 1),
    (2, 3, 4, 3, 2),
    (2, 4, 8, 4, 2),
    (2, 3, 4, 3, 2),
    (1, 2, 2, 2, 1),
)
_SHIFT = 6
_HALF = 1 << (_SHIFT - 1)


def _build() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(16), 2, "input")
    source = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])
    for index in range(_STAGES):
        stage = hl.Func("stencil_chain" if index == _STAGES - 1 else f"stage_{index}")
        total = sum(
            hl.u16(weight) * source[x + column - 2, y + row - 2]
            for row, weights in enumerate(_WEIGHTS)
            for column, weight in enumerate(weights)
        )
        stage[x, y] = (total + hl.u16(_HALF)) >> _SHIFT
        source = stage

    image.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return hl.Pipeline(source)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    height, width = output_shape
    image = photograph_uint8(height, width, seed=seed, channels=1)[0]
    return {"input": image.astype(np.uint16) * np.uint16(4)}


def _reference(inputs: Inputs) -> Array:
    image = np.pad(inputs["input"].astype(np.int64), 2 * _STAGES, mode="edge")
    for _ in range(_STAGES):
        windows = np.lib.stride_tricks.sliding_window_view(image, (5, 5))
        image = (np.einsum("yxij,ij->yx", windows, np.array(_WEIGHTS)) + _HALF) // 64
    return image.astype(np.uint16)


APP = App(
    name="stencil_chain",
    title="Stencil chain",
    description="32 convolutions of 5x5 in sequence on one channel, uint16.",
    build=_build,
    output_shape=(HEIGHT, WIDTH),
    small_output_shape=(SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.uint16),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=0, relative=0),
)
