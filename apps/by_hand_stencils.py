"""Schedules by hand: filters, stencils and histograms on images at one scale."""

from collections.abc import Callable, Iterable

import halide as hl

from .by_hand import Funcs

__all__ = ["SCHEDULES"]


def _in_strips(output: hl.Func, rows: int, lanes: int) -> tuple[hl.Var, hl.Var]:
    """Let tasks compute strips of so many rows; the loops over strips, and over rows in a strip."""
    x, y = output.args()[:2]
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, rows).vectorize(x, lanes).parallel(strip)
    return strip, row


def _slide(funcs: Iterable[hl.Func], output: hl.Func, loops: tuple[hl.Var, hl.Var], lanes: int) -> None:
    """Compute row by row, and keep the rows that the next ones need."""
    strip, row = loops
    for func in funcs:
        func.store_at(output, strip).compute_at(output, row).vectorize(func.args()[0], lanes)


def _harris(f: Funcs, lanes: int) -> None:
    loops = _in_strips(f["harris"], 40, lanes)
    _slide((f["gray"], f["gradient_x"], f["gradient_y"]), f["harris"], loops, lanes)


def _unsharp(f: Funcs, lanes: int) -> None:
    output = f["unsharp"]
    strip, row = loops = _in_strips(output, 40, lanes)
    x, _, c = output.args()
    output.reorder(x, c, row, strip)
    f["kernel"].compute_root()
    _slide((f["gray"],), output, loops, lanes)
    for name in ("blur_y", "ratio"):
        f[name].compute_at(output, row).vectorize(f[name].args()[0], lanes)


def _stencil_chain(f: Funcs, lanes: int) -> None:
    # Four stages at a time: the rows of three stay in the first cache, and the fourth goes to memory.
    together = 4
    stages = [*(f[f"stage_{number}"] for number in range(31)), f["stencil_chain"]]
    for last in range(together - 1, len(stages), together):
        func = stages[last]
        func.compute_root()
        loops = _in_strips(func, 80, lanes)
        _slide(stages[last - together + 1 : last], func, loops, lanes)


def _bilateral_grid(f: Funcs, lanes: int) -> None:
    grid = f["grid"]
    x, y, z, c = grid.args()
    cell_x, cell_y = grid.rvars(0)
    grid.compute_root().parallel(y).vectorize(x, lanes)
    grid.update().reorder(c, cell_x, cell_y, x, y).unroll(c).parallel(y)
    for name in ("blur_z", "blur_x", "blur_y"):
        x, y, z, c = f[name].args()
        f[name].compute_root().reorder(x, z, c, y).vectorize(x, lanes).parallel(y)
    _in_strips(f["bilateral_grid"], 32, lanes)


def _hist(f: Funcs, lanes: int) -> None:
    rows = f["row_histogram"]
    _, y = rows.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    rows.compute_root().split(y, strip, row, 64).parallel(strip)
    rows.update().split(y, strip, row, 64).parallel(strip)
    histogram = f["histogram"]
    (level,) = histogram.args()
    (row_of_all,) = histogram.rvars(0)
    histogram.compute_root().vectorize(level, lanes)
    histogram.update().reorder(level, row_of_all).vectorize(level, lanes)
    f["cumulative"].compute_root()
    f["table"].compute_root().vectorize(f["table"].args()[0], lanes)
    output = f["hist"]
    x, y, c = output.args()
    output.split(y, strip, row, 32).reorder(x, c, row, strip).vectorize(x, 2 * lanes).parallel(strip)
    f["equalized"].compute_at(output, row).vectorize(f["equalized"].args()[0], 2 * lanes)


def _blur(f: Funcs, lanes: int) -> None:
    output = f["blur"]
    loops = _in_strips(output, 80, 2 * lanes)
    _slide((f["blur_x"],), output, loops, 2 * lanes)


def _iir_blur(f: Funcs, lanes: int) -> None:
    for name in ("blurred_columns", "blurred_rows"):
        func = f[name]
        x, y, c = func.args()
        strip, column, task = hl.Var("strip"), hl.Var("column"), hl.Var("task")
        func.compute_root().split(x, strip, column, 4 * lanes).fuse(strip, c, task)
        func.reorder(column, y, task).vectorize(column, lanes).parallel(task)
        for number in range(2):
            (step,) = func.rvars(number)
            update = func.update(number).split(x, strip, column, 4 * lanes).fuse(strip, c, task)
            update.reorder(column, step, task).vectorize(column, lanes).parallel(task)
    f["transposed"].compute_at(f["blurred_rows"], task).vectorize(f["transposed"].args()[0], lanes)
    output = f["iir_blur"]
    x, y, c = output.args()
    xi, yi = hl.Var("xi"), hl.Var("yi")
    output.tile(x, y, xi, yi, lanes, lanes).reorder(xi, yi, x, y, c).vectorize(xi).unroll(yi).parallel(y)


def _max_filter(f: Funcs, lanes: int) -> None:
    # A task has all rows of a strip of columns: the windows of a column are computed once.
    output = f["max_filter"]
    x, y, c = output.args()
    strip, column, task = hl.Var("strip"), hl.Var("column"), hl.Var("task")
    output.split(x, strip, column, 8 * lanes).fuse(strip, c, task).reorder(column, y, task)
    output.vectorize(column, lanes).parallel(task)
    f["reach"].compute_root()
    window = f["window"]
    wx, wy, wc, k = window.args()
    row, size = window.rvars(0)
    window.compute_at(output, task).reorder(wx, wy, wc, k).vectorize(wx, lanes)
    window.update().reorder(wx, row, size, wc).vectorize(wx, lanes)
    disc = f["disc"]
    (offset,) = disc.rvars(0)
    dx, dy, dc = disc.args()
    vector = hl.Var("vector")
    disc.compute_at(output, y).vectorize(dx, lanes)
    disc.update().split(dx, dx, vector, 4 * lanes).reorder(vector, offset, dx, dy, dc).vectorize(vector, lanes)


def _nl_means(f: Funcs, lanes: int) -> None:
    output, weighted = f["nl_means"], f["weighted"]
    x, y, c = output.args()
    xi, yi = hl.Var("xi"), hl.Var("yi")
    output.tile(x, y, xi, yi, 16 * lanes, 32).reorder(xi, yi, c, x, y).vectorize(xi, lanes).parallel(y)
    wx, wy, wc = weighted.args()
    dx, dy = weighted.rvars(0)
    weighted.compute_at(output, x).vectorize(wx, lanes)
    weighted.update().reorder(wx, wy, wc, dx, dy).vectorize(wx, lanes)
    f["weight"].compute_at(weighted, dx).vectorize(f["weight"].args()[0], lanes)
    for name in ("distance_y", "distance"):
        func = f[name]
        func.compute_at(weighted, dx).vectorize(func.args()[0], lanes)
        (term,) = func.rvars(0)
        func.update().reorder(term, *func.args()).unroll(term).vectorize(func.args()[0], lanes)
    sums = f["distance_xy"]
    (term,) = sums.rvars(0)
    sums.compute_at(f["weight"], f["weight"].args()[1]).vectorize(sums.args()[0], lanes)
    sums.update().reorder(term, *sums.args()).unroll(term).vectorize(sums.args()[0], lanes)


def _camera_pipe(f: Funcs, lanes: int) -> None:
    output = f["camera_pipe"]
    x, y, c = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, 32).reorder(x, row, c, strip).vectorize(x, 2 * lanes).parallel(strip)
    f["curve"].compute_root().vectorize(f["curve"].args()[0], lanes)
    f["matrix"].compute_root()
    raw = ("cooled", "red", "blue", "green_by_red", "green_by_blue")
    greens = ("green_at_red", "green_at_blue", "redder", "bluer")
    others = ("red_at_blue", "blue_at_red", "red_by_red", "red_by_blue", "blue_by_red", "blue_by_blue")
    for name in (*raw, *greens, *others, "demosaiced", "curved"):
        f[name].compute_at(output, strip).vectorize(f[name].args()[0], 2 * lanes)
    f["blur_y"].compute_at(output, row).vectorize(f["blur_y"].args()[0], 2 * lanes)


SCHEDULES: dict[str, Callable[[Funcs, int], None]] = {
    "harris": _harris,
    "unsharp": _unsharp,
    "stencil_chain": _stencil_chain,
    "bilateral_grid": _bilateral_grid,
    "hist": _hist,
    "blur": _blur,
    "iir_blur": _iir_blur,
    "max_filter": _max_filter,
    "nl_means": _nl_means,
    "camera_pipe": _camera_pipe,
}
