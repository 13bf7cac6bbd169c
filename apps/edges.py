"""Edges repeated outwards, by name: what Halide's own boundary conditions make has the same name for every input."""

import halide as hl

__all__ = ["repeat_edge"]


def repeat_edge(image: hl.ImageParam, name: str) -> hl.Func:
    """Return a Func `[x, y, c]` that reads an image with the nearest of its pixels everywhere beyond it."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    bounded = hl.Func(name)
    column, row = (hl.clamp(hl.likely(v), 0, size - 1) for v, size in ((x, image.width()), (y, image.height())))
    bounded[x, y, c] = image[column, row, c]
    return bounded
