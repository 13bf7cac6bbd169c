"""Schedules by hand: images at several scales, and grids of them."""

import re
from collections.abc import Callable

import halide as hl

from .by_hand import Funcs

__all__ = ["SCHEDULES"]


def _by_rows(func: hl.Func, lanes: int, rows: int = 16) -> hl.Var:
    """Compute a whole Func, strips of rows in parallel; the loop over rows."""
    x, y, *rest = func.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    func.compute_root().split(y, strip, row, rows, hl.TailStrategy.GuardWithIf)
    func.reorder(x, row, *rest, strip).vectorize(x, lanes, hl.TailStrategy.GuardWithIf).parallel(strip)
    return row


def _named(f: Funcs, pattern: str) -> list[hl.Func]:
    return [func for name, func in f.items() if re.fullmatch(pattern, name)]


def _halved(f: Funcs, levels: str, along: str, lanes: int) -> None:
    """Compute levels of a pyramid by rows, and for each row what is halved along it; `along` names it by the level."""
    for func in _named(f, levels):
        row = _by_rows(func, lanes)
        halved = f[along.format(func.name().partition("$")[0][-1])]
        halved.compute_at(func, row).vectorize(halved.args()[0], lanes)


def _local_laplacian(f: Funcs, lanes: int) -> None:
    f["curve"].compute_root().vectorize(f["curve"].args()[0], lanes)
    for name in ("luma", "gray"):
        _by_rows(f[name], lanes)
    for pyramid in ("gaussian", "guide"):
        _halved(f, rf"{pyramid}_\d", f"{pyramid}_{{}}_down_x", lanes)
    for func in _named(f, r"output_gaussian_\d"):
        _by_rows(func, lanes)
    output = f["local_laplacian"]
    x, y, c = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, 32).reorder(x, c, row, strip).vectorize(x, lanes).parallel(strip)


def _interpolate(f: Funcs, lanes: int) -> None:
    _halved(f, r"down_\d", "down_x_{}", lanes)
    for func in _named(f, r"filled_[1-9]"):
        _by_rows(func, lanes)
    output = f["interpolate"]
    x, y, c = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, 32).reorder(x, c, row, strip).vectorize(x, lanes).parallel(strip)
    last = f["filled_0"]
    last.compute_at(output, row).vectorize(last.args()[0], lanes)


def _lens_blur(f: Funcs, lanes: int) -> None:
    for name in ("left_bounded", "right_bounded"):
        _by_rows(f[name], 4 * lanes)
    row = _by_rows(f["cost"], lanes)
    f["difference"].compute_at(f["cost"], row).vectorize(f["difference"].args()[0], 4 * lanes)
    row = _by_rows(f["confidence"], lanes)
    moments = f["moments"]
    (depth,) = moments.rvars(0)
    moments.compute_at(f["confidence"], row).vectorize(moments.args()[0], lanes)
    moments.update().reorder(*moments.args(), depth).vectorize(moments.args()[0], lanes)
    _halved(f, r"down_\d", "down_x_{}", lanes)
    for func in _named(f, r"smooth_[1-9]"):
        _by_rows(func, lanes)
    row = _by_rows(f["depth"], lanes)
    found = f["found"]
    (slices,) = found.rvars(0)
    found.compute_at(f["depth"], row).vectorize(found.args()[0], lanes)
    found.update().reorder(found.args()[0], slices, found.args()[1]).vectorize(found.args()[0], lanes)
    for name in ("largest_along", "largest_near"):
        func = f[name]
        _by_rows(func, lanes)
        (window,) = func.rvars(0)
        x, y = func.args()
        func.update().reorder(x, window, y).vectorize(x, lanes).parallel(y)
    output = f["lens_blur"]
    x, y, c = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, 16).reorder(x, c, row, strip).vectorize(x, lanes).parallel(strip)
    gathered = f["gathered"]
    (sample,) = gathered.rvars(0)
    gx, gy, gc = gathered.args()
    gathered.compute_at(output, row).vectorize(gx, lanes)
    gathered.update().reorder(gc, gx, sample, gy).vectorize(gx, lanes)


def _bgu(f: Funcs, lanes: int) -> None:
    sums = f["sums"]
    x, y, z, c = sums.args()
    pixel_x, pixel_y = sums.rvars(0)
    sums.compute_root().vectorize(x, lanes).parallel(y)
    sums.update().reorder(c, pixel_x, pixel_y, x, y).parallel(y)
    for name in ("blur_z", "blur_y", "blur_x"):
        x, y, z, c = f[name].args()
        f[name].compute_root().reorder(x, z, c, y).vectorize(x, lanes).parallel(y)
    for name in ("factors", "maps"):
        x, y, *rest = f[name].args()
        f[name].compute_root().reorder(x, *rest, y).vectorize(x, lanes).parallel(y)
    output = f["bgu"]
    x, y, c = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, 32).reorder(x, c, row, strip).vectorize(x, lanes).parallel(strip)
    f["between_y"].compute_at(output, row).vectorize(f["between_y"].args()[0], lanes)


SCHEDULES: dict[str, Callable[[Funcs, int], None]] = {
    "local_laplacian": _local_laplacian,
    "interpolate": _interpolate,
    "lens_blur": _lens_blur,
    "bgu": _bgu,
}
