"""Which tiles of a kernel are worth a look: the loops that are tiled, and the sizes for each.

In: the extents of the loops of a Func. Out: tiles, one size a loop. Source: Sioutas et al. 2020, §4.2, whose formula
has two cases under one condition; meant is a block a multiprocessor at least, so: at most 1/32 of a single tiled loop
of 1024 or more, 1/128 of each of several such, half of any other.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

__all__ = ["SHORT_EXTENT", "TileBounds", "tiled_dims"]

SHORT_EXTENT: Final = 64
"""Loops of fewer iterations are not tiled."""

_LONG_EXTENT: Final = 1024
# Of a long loop, and of any other: the share that a tile may be.
_SINGLE_SHARE, _SEVERAL_SHARE, _SHARE = 32, 128, 2
# Threads of a block, at least, where the loops have more than SHORT_EXTENT iterations.
_LEAST_THREADS = 8
# Tiles that the final pass looks at; where there are more, it takes longer steps along all loops but the first.
_MOST_TILES = 400
# Combinations of sizes that are gone over for those; most hold too many threads.
_MOST_COMBINATIONS = 50_000
# Dimensions of a block.
_DIMENSIONS = 3


def tiled_dims(extents: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions to tile, innermost first: the long ones, the longest if none is; three at most.

    Args:
        extents: Points of the Func along each of its dimensions.
    """
    if not extents:
        return ()
    long = [d for d, extent in enumerate(extents) if extent >= SHORT_EXTENT]
    if not long:
        return (max(range(len(extents)), key=lambda d: extents[d]),)
    return tuple(long[:_DIMENSIONS])


@dataclass(frozen=True, slots=True)
class TileBounds:
    """The tiles of one Func."""

    dims: tuple[int, ...]
    """The dimensions that are tiled, innermost first."""
    most: tuple[int, ...]
    """The largest size of each."""
    least_threads: int
    """Points of a tile, at least."""
    most_threads: int
    """Points of a tile, at most."""

    @staticmethod
    def of(extents: Sequence[int], *, most_threads: int, shrink: int = 1) -> "TileBounds":
        """Return the bounds for a Func.

        Args:
            extents: Points along each of its dimensions.
            most_threads: Threads of a block, at most.
            shrink: What the bounds are divided by: 2 on OpenCL (§5.1).
        """
        dims = tiled_dims(extents)
        long = sum(extents[d] >= _LONG_EXTENT for d in dims)
        most = []
        for d in dims:
            share = _SHARE
            if extents[d] >= _LONG_EXTENT:
                share = _SINGLE_SHARE if long == 1 else _SEVERAL_SHARE
            most.append(max(1, extents[d] // share // shrink))
        is_large = any(extents[d] > SHORT_EXTENT for d in dims)
        least = min(_LEAST_THREADS, prod(most)) if is_large else 1
        return TileBounds(dims, tuple(most), least, most_threads)

    def coarse(self) -> list[Mapping[int, int]]:
        """Return tiles of powers of two, and the bounds themselves: what grouping looks at."""
        return self._tiles([[*_powers_below(most), most] for most in self.most])

    def fine(self) -> list[Mapping[int, int]]:
        """Return tiles in steps of two: what the final pass looks at."""
        step = 2
        while True:
            steps = [2 if place == 0 else step for place in range(len(self.most))]
            sizes = [
                sorted({*range(each, most + 1, each), 1, most}) for each, most in zip(steps, self.most, strict=True)
            ]
            if prod(map(len, sizes)) > _MOST_COMBINATIONS and step <= max(self.most):
                step *= 2
                continue
            tiles = self._tiles(sizes)
            if len(tiles) <= _MOST_TILES or step > max(self.most):
                return tiles[:: -(-len(tiles) // _MOST_TILES)] if len(tiles) > _MOST_TILES else tiles
            step *= 2

    def _tiles(self, sizes: Sequence[Sequence[int]]) -> list[Mapping[int, int]]:
        chosen = [tile for tile in itertools.product(*sizes) if self.least_threads <= prod(tile) <= self.most_threads]
        return [dict(zip(self.dims, tile, strict=True)) for tile in chosen]


def _powers_below(most: int) -> Iterator[int]:
    return (1 << exponent for exponent in range(max(0, most - 1).bit_length()))
