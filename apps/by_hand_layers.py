"""Schedules by hand: products of matrices, and layers of neural networks."""

from collections.abc import Callable

import halide as hl

from .by_hand import Funcs

__all__ = ["SCHEDULES"]

# Registers of accumulators: this many vectors by this many points leave some for what is read.
_VECTORS = {16: 4, 8: 2, 4: 2}
_POINTS = {16: 6, 8: 6, 4: 4}


def _matmul(f: Funcs, lanes: int) -> None:
    output, product = f["matmul"], f["product"]
    width, height = _VECTORS[lanes] * lanes, _POINTS[lanes]
    x, y = output.args()
    xi, yi, task = hl.Var("xi"), hl.Var("yi"), hl.Var("task")
    # The columns of the right matrix stay in the second cache while a task goes over its rows.
    output.tile(x, y, xi, yi, width, height).split(y, task, y, 32).reorder(xi, yi, y, x, task)
    output.vectorize(xi, lanes).unroll(xi).unroll(yi).parallel(task)
    px, py = product.args()
    (k,) = product.rvars(0)
    product.compute_at(output, y).vectorize(px, lanes).unroll(px).unroll(py)
    product.update().reorder(px, py, k).vectorize(px, lanes).unroll(px).unroll(py)


def _conv_layer(f: Funcs, lanes: int) -> None:
    output, convolved = f["conv_layer"], f["convolved"]
    c, x, y, n = output.args()
    ci, xi, task = hl.Var("ci"), hl.Var("xi"), hl.Var("task")
    output.split(c, c, ci, _VECTORS[lanes] * lanes).split(x, x, xi, 5).fuse(y, n, task).reorder(ci, xi, x, c, task)
    output.vectorize(ci, lanes).unroll(ci).unroll(xi).parallel(task)
    _accumulate(convolved, output, x, lanes)


def _accumulate(convolved: hl.Func, consumer: hl.Func, at: hl.Var, lanes: int) -> None:
    """Compute a tile of sums in registers, the taps around it."""
    c, x, *_ = convolved.args()
    channel, *taps = convolved.rvars(0)
    convolved.compute_at(consumer, at).vectorize(c, lanes).unroll(c).unroll(x)
    convolved.update().reorder(c, x, channel, *taps).vectorize(c, lanes).unroll(c).unroll(x)


def _depthwise_separable_conv(f: Funcs, lanes: int) -> None:
    output, pointwise, depthwise = f["depthwise_separable_conv"], f["pointwise"], f["depthwise"]
    c, x, y, n = output.args()
    ci, xi, task = hl.Var("ci"), hl.Var("xi"), hl.Var("task")
    output.split(c, c, ci, lanes).split(x, x, xi, 4).fuse(y, n, task).reorder(ci, xi, c, x, task)
    output.vectorize(ci).unroll(xi).parallel(task)
    pc, px, *_ = pointwise.args()
    (channel,) = pointwise.rvars(0)
    pointwise.compute_at(output, c).vectorize(pc, lanes).unroll(px)
    pointwise.update().reorder(pc, px, channel).vectorize(pc, lanes).unroll(px)
    dc, dx, *_ = depthwise.args()
    along, across = depthwise.rvars(0)
    depthwise.compute_at(output, x).vectorize(dc, lanes).unroll(dx)
    depthwise.update().reorder(dc, dx, along, across).vectorize(dc, lanes).unroll(dx)


def _learned_demosaic(f: Funcs, lanes: int) -> None:
    packed = f["packed"]
    c, x, y = packed.args()
    packed.compute_root().vectorize(c, 4).parallel(y)
    for level in range(3):
        rectified, convolved = f[f"rectified_{level}"], f[f"convolved_{level}"]
        c, x, y = rectified.args()
        xi = hl.Var("xi")
        rectified.compute_root().split(x, x, xi, 4).reorder(c, xi, x, y).vectorize(c, lanes).unroll(c).unroll(xi)
        rectified.parallel(y)
        _accumulate(convolved, rectified, x, lanes)
    last, output = f["convolved_3"], f["learned_demosaic"]
    c, x, y = last.args()
    channel, along, across = last.rvars(0)
    last.compute_root().vectorize(c, 4).parallel(y)
    last.update().reorder(c, channel, along, across, x, y).vectorize(c, 4).parallel(y)
    x, y, c = output.args()
    output.reorder(c, x, y).parallel(y)


SCHEDULES: dict[str, Callable[[Funcs, int], None]] = {
    "matmul": _matmul,
    "conv_layer": _conv_layer,
    "depthwise_separable_conv": _depthwise_separable_conv,
    "learned_demosaic": _learned_demosaic,
}
