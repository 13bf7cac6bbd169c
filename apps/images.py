"""Generated test images: smooth shading, hard edges, fine texture and sensor noise, like a photograph.

What enters is a size and a seed, what leaves is an array `[c, y, x]` or `[y, x]`; the same seed gives the same image.
Values lie on 256 levels even where they are floats, as in an image read from a file: an app that rounds a float to
a bin then never meets a value on the edge between two bins, where the last bit would decide.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["gray_photograph", "photograph", "photograph_uint8", "photograph_uint16"]

# Cells across the image and contrast of each octave of shading: coarse and strong to fine and faint.
_OCTAVES = ((3, 0.30), (11, 0.14), (47, 0.07))
# Variation of each colour beside the variation of light, which all three share.
_TINT = 0.3
_SHAPES = 40
_NOISE = 0.02


def photograph(height: int, width: int, *, seed: int = 0, channels: int = 3) -> NDArray[np.float32]:
    """Return a colour image `[channels, height, width]` with values k/255 in [0, 1]."""
    image: NDArray[np.float32] = photograph_uint8(height, width, seed=seed, channels=channels) / np.float32(255)
    return image


def gray_photograph(height: int, width: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return an image of one channel `[height, width]` with values k/255 in [0, 1]."""
    image: NDArray[np.float32] = photograph(height, width, seed=seed, channels=1)[0]
    return image


def photograph_uint16(height: int, width: int, *, seed: int = 0, channels: int = 3) -> NDArray[np.uint16]:
    """Return a colour image `[channels, height, width]` whose white is 65535."""
    image: NDArray[np.uint16] = photograph_uint8(height, width, seed=seed, channels=channels) * np.uint16(257)
    return image


def photograph_uint8(height: int, width: int, *, seed: int = 0, channels: int = 3) -> NDArray[np.uint8]:
    """Return a colour image `[channels, height, width]` whose white is 255."""
    rng = np.random.default_rng(seed)
    light = 0.45 + _shading(height, width, rng)
    image = np.stack([light + _TINT * _shading(height, width, rng) for _ in range(channels)])
    for _ in range(_SHAPES):
        _paint_shape(image, rng)
    image += _NOISE * rng.standard_normal(image.shape, dtype=np.float32)
    levels: NDArray[np.float32] = np.rint(255 * np.clip(image, 0, 1))
    return levels.astype(np.uint8)


def _shading(height: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return smooth noise around 0: random values on coarse grids, interpolated linearly."""
    shading = np.zeros((height, width), np.float32)
    for cells, contrast in _OCTAVES:
        grid = rng.uniform(-contrast, contrast, (cells + 1, cells + 1)).astype(np.float32)
        shading += _linear_weights(height, cells) @ grid @ _linear_weights(width, cells).T
    return shading


def _linear_weights(points: int, cells: int) -> NDArray[np.float32]:
    """Return `[points, cells + 1]`: the weights with which each pixel takes the values at the ends of its cell."""
    position = np.linspace(0, cells, points, endpoint=False)
    distance = np.abs(position[:, np.newaxis] - np.arange(cells + 1))
    weights: NDArray[np.float64] = np.maximum(0, 1 - distance)
    return weights.astype(np.float32)


def _paint_shape(image: NDArray[np.float32], rng: np.random.Generator) -> None:
    """Paint a half transparent ellipse or rectangle of one colour, every third one striped, over `image` in place."""
    channels, height, width = image.shape
    centre_y, centre_x = rng.uniform(0, 1, 2) * (height, width)
    radius_y, radius_x = 1 + rng.uniform(0.01, 0.15, 2) * (height, width)
    is_round, is_striped = rng.uniform() < 0.5, rng.uniform() < 1 / 3
    colour = rng.uniform(0, 1) + _TINT * rng.uniform(-0.5, 0.5, (channels, 1, 1)).astype(np.float32)
    rows = slice(max(0, int(centre_y - radius_y)), int(centre_y + radius_y))
    columns = slice(max(0, int(centre_x - radius_x)), int(centre_x + radius_x))
    patch = image[:, rows, columns]
    y, x = np.mgrid[rows.start : rows.start + patch.shape[1], columns.start : columns.start + patch.shape[2]]
    opacity = np.full(y.shape, 0.6, np.float32)
    if is_round:
        opacity *= ((y - centre_y) / radius_y) ** 2 + ((x - centre_x) / radius_x) ** 2 < 1
    if is_striped:
        opacity *= (x + y) % 8 < 4
    patch += opacity * (colour - patch)
