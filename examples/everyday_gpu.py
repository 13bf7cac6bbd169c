"""Pipelines as people write them for GPUs, each of which once ran in few threads.

Run ``metol schedule examples/everyday_gpu.py:message_sums --target cuda --gpu h200 --verify`` to see what one becomes:
without a GPU, its kernels are compiled and run on one that is emulated.
"""

import halide as hl

X, Y = hl.Var("x"), hl.Var("y")


def image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def interior_step(width: int = 2048, height: int = 2048) -> hl.Pipeline:
    """Return heat after a step: an update computes all but the border, which keeps its values."""
    heat, step, output = image(width, height, name="heat"), hl.Func("step"), hl.Func("output")
    r = hl.RDom([(1, width - 2), (1, height - 2)], "r")
    around = heat[r.x - 1, r.y] + heat[r.x + 1, r.y] + heat[r.x, r.y - 1] + heat[r.x, r.y + 1]
    step[X, Y] = heat[X, Y]
    step[r.x, r.y] = heat[r.x, r.y] + (around - 4 * heat[r.x, r.y]) * hl.f32(0.2)
    output[X, Y] = hl.min(step[X, Y], hl.f32(1))
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def message_sums(nodes: int = 10000, edges: int = 200000, features: int = 64) -> hl.Pipeline:
    """Return what the edges of a graph bring to each node: the sum of the features of all nodes that they come from."""
    origins = image(edges, name="origins", pixel=hl.Int(32))
    targets = image(edges, name="targets", pixel=hl.Int(32))
    values, sums = image(features, nodes, name="values"), hl.Func("sums")
    edge = hl.RDom([(0, edges)], "edge")
    origin, target = (hl.clamp(ends[edge.x], 0, nodes - 1) for ends in (origins, targets))
    sums[X, Y] = hl.f32(0)
    sums[X, target] += values[X, origin]
    sums.set_estimates([(0, features), (0, nodes)])
    return hl.Pipeline(sums)


def channel_histograms(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return how many pixels have each value, of each of three channels."""
    source, counts = image(width, height, 3, name="source", pixel=hl.UInt(8)), hl.Func("counts")
    r = hl.RDom([(0, width), (0, height)], "r")
    counts[X, Y] = hl.u32(0)
    counts[hl.i32(source[r.x, r.y, Y]), Y] += hl.u32(1)
    counts.set_estimates([(0, 256), (0, 3)])
    return hl.Pipeline(counts)


def scaled_means(columns: int = 20000, rows: int = 64) -> hl.Pipeline:
    """Return the mean of each row: something pointwise reads a long sum."""
    source, total, mean = image(columns, rows, name="source"), hl.Func("total"), hl.Func("mean")
    r = hl.RDom([(0, columns)], "r")
    total[Y] = hl.f32(0)
    total[Y] += source[r.x, Y]
    mean[Y] = total[Y] / columns
    mean.set_estimates([(0, rows)])
    return hl.Pipeline(mean)


def batch_means(channels: int = 64, side: int = 56, images: int = 16) -> hl.Pipeline:
    """Return the mean of each channel over a batch of images, of a side that no block divides."""
    source = image(side, side, channels, images, name="source")
    total, mean = hl.Func("total"), hl.Func("mean")
    r = hl.RDom([(0, side), (0, side), (0, images)], "r")
    total[Y] = hl.f32(0)
    total[Y] += source[r.x, r.y, Y, r.z]
    mean[Y] = total[Y] / (side * side * images)
    mean.set_estimates([(0, channels)])
    return hl.Pipeline(mean)
