"""What lowering goes by beside the loop nest: what the user promised about the memory of the outputs."""

from dataclasses import dataclass

__all__ = ["LoweringOptions"]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Promises that decide which tails are right."""

    fixed_sizes: bool = False
    """Outputs have the estimated size: they need no guards, and Halide refuses others at run time."""
    may_alias: bool = False
    """An output may be the same memory as an input: no point of an output is computed twice then."""
