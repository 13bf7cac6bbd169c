"""Names as people know them: Halide numbers each that it has given before in the same process, as in ``f$1``.

In: a name of Halide's. Out: the name that the author of the pipeline wrote, the same in every process.
"""

import re

__all__ = ["base_name"]

# What is made of a Func has its number in the middle: `f$1_intm`, `f$2_in_g$1`.
_RUNNING_NUMBER = re.compile(r"\$\d+")


def base_name(name: str) -> str:
    """Return a name, or a text with names, without the numbers that Halide adds."""
    return _RUNNING_NUMBER.sub("", name)
