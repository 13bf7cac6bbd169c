"""What lowering goes by beside the loop nest: what the user promised, and what the user schedules."""

from collections.abc import Set
from dataclasses import dataclass

__all__ = ["NO_PROMISES", "LoweringOptions"]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Promises that decide which tails are right, and Funcs that are none of ours."""

    fixed_sizes: bool = False
    """Outputs have the estimated size: they need no guards, and Halide refuses others at run time."""
    may_alias: bool = False
    """An output may be the same memory as an input: no point of an output is computed twice then."""
    specialize_estimate: bool = True
    """An output gets a version for its estimated extents along some loops, beside the others: those that are whole
    around other Funcs or in the tile around them, those that pick among values, and those along parts side by side.
    Sizes inside are then constant (measured: 1 to 15 % of the time), and nothing is left of what picks."""
    unsafe_tails: bool = False
    """For measurements alone: every Func has one version, whose tails are right only where all sizes divide; it asks
    for more of its inputs than the algorithm needs, and refuses outputs that are smaller than a tile. No schedule that
    is returned is lowered so: it tells what safe tails cost."""
    masks_descending_loads: bool = True
    """Vectors may end with a guard where their lanes read one below the other, as of `f[99 - x]`. Halide 21 makes no
    code of such a load at a place that is a constant, which lowering does not know; False leaves these loops scalar."""
    kept: Set[int] = frozenset()
    """Funcs that somebody else schedules, by `Func.origin`; they get no directives."""


NO_PROMISES = LoweringOptions()
"""Outputs of any size, in memory of their own."""
