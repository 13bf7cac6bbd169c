"""Pipelines on which one of Halide's own autoschedulers aborts, stalls, or gives an invalid schedule."""

import halide as hl
import pytest
from verified_runs import QUICK, Inputs, check, fractions, fractions_below, image, integers

import metol

X, Y, Z, T = hl.Var("x"), hl.Var("y"), hl.Var("z"), hl.Var("t")


def named(name: str) -> hl.Func:
    return hl.Func(name)


def gather_of_blocks() -> hl.Pipeline:
    """Blocks of 64 that an index picks, counted from the end where it is negative."""
    indices, data = image(hl.Int(64), "idx", 30), image(hl.Float(32), "d", 2048)
    blocks = hl.Param(hl.Int(64), "ks0")
    blocks.set_estimate(32)
    k, s, c, o = map(named, ("k", "s", "c", "o"))
    k[X] = indices[X // 64]
    s[X] = hl.select(k[X] < 0, k[X] + blocks, k[X])
    c[X] = hl.clamp(hl.i32(s[X]), 0, hl.i32(blocks - 1))
    padded = hl.BoundaryConditions.constant_exterior(data, hl.f32(0))
    o[X] = padded[X % 64 + 64 * c[X]]
    o.set_estimate(X, 0, 1920)
    return hl.Pipeline(o)


def test_gather_of_blocks() -> None:
    inputs = Inputs({"d": (2048,)}, {"ks0": 32}, {"idx": integers(-32, 32)})
    check(gather_of_blocks, [(1920,)], [(1,)], [(77,)], inputs=inputs)


def scatter_of_tiles() -> hl.Pipeline:
    """A transposing copy between two layouts of blocks; every place is written, in an order of its own."""
    source = image(hl.Float(32), "i", 519168)
    t0, t1, o = map(named, ("t0", "t1", "o"))
    t0[X, Y] = source[Y % 192 + 192 * X + 32448 * (Y // 192)]
    t1[X, Y] = hl.max(t0[X, Y], hl.f32(0))
    r = hl.RDom([(0, 169), (0, 3072)], "r")
    o[X] = hl.undef(hl.Float(32))
    o[r.x + 169 * (r.y % 192) + 64896 * (r.y // 192)] = t1[r.x, r.y]
    o.set_estimate(X, 0, 519168)
    return hl.Pipeline(o)


def test_scatter_of_tiles() -> None:
    fills = {"i": integers(-100, 100)}
    # A scatter over a constant domain needs an output of all of it.
    check(scatter_of_tiles, [(1038144,)], inputs=Inputs(fills=fills))


def normalization() -> hl.Pipeline:
    source = image(hl.Float(32), "im", 8192)
    total, o = map(named, ("f", "o"))
    r = hl.RDom([(0, 8192)], "r")
    total[()] = hl.f32(0)
    total[()] += hl.fast_exp(source[r.x])
    o[X] = source[X] / total[()]
    o.set_estimate(X, 0, 8192)
    return hl.Pipeline(o)


def test_normalization() -> None:
    check(normalization, [(8192,)], [(1,)], [(37,)], inputs=Inputs(fills={"im": fractions}), relative=1e-5)


def histogram_of_lines() -> hl.Pipeline:
    """The first output reads the second."""
    source = image(hl.Int(32), "in", 1000, 1000)
    f1, lines, hist = map(named, ("f1", "lines", "hist"))
    b, y = hl.Var("b"), hl.Var("y")
    rx, ry = hl.RDom([(0, 1000)], "rx"), hl.RDom([(0, 1000)], "ry")
    f1[X, y] = source[X, y] * 2
    lines[X, b] = 0
    lines[X, hl.i32(f1[X, ry.x]) % 256] += 1
    hist[b] = 0
    hist[b] += lines[rx.x, b]
    hist.set_estimate(b, 0, 256)
    f1.set_estimates([(0, 1000), (0, 1000)])
    return hl.Pipeline([hist, f1])


def test_histogram_of_lines() -> None:
    check(histogram_of_lines, [(256,), (1000, 1000)], [(9,), (1000, 1000)])


def broadcast() -> hl.Pipeline:
    source, f = image(hl.Float(32), "in", 1, 3, 1), named("f")
    f[X, Y, Z, T] = source[0, Z, 0]
    f.set_estimates([(0, 100)] * 4)
    return hl.Pipeline(f)


def test_broadcast_far_from_its_estimate() -> None:
    check(broadcast, [(5, 6, 3, 2)], [(1, 1, 1, 1)], [(33, 17, 3, 4)])


def stencil() -> hl.Pipeline:
    source, rows, o = image(hl.Float(32), "in", 4098, 4098), named("rows"), named("o")
    rows[X, Y] = source[X, Y] + source[X + 1, Y] * 2 + source[X + 2, Y]
    o[X, Y] = rows[X, Y] + rows[X, Y + 1] * 2 + rows[X, Y + 2]
    o.set_estimates([(0, 4096), (0, 4096)])
    return hl.Pipeline(o)


def test_stencil_far_from_its_estimate() -> None:
    check(stencil, [(100, 37)], [(1, 1)])


def residual_network(blocks: int) -> hl.Pipeline:
    """Blocks of two 3x3 convolutions, each after padding with zeros, around a connection that skips them."""
    size, channels = 28, 8
    c = hl.Var("c")
    source = image(hl.Float(32), "source", size, size, channels)
    weights = image(hl.Float(32), "weights", 3, 3, channels, channels, 2 * blocks)
    before: hl.Func | hl.ImageParam = source
    for block in range(blocks):
        layer = before
        for half in range(2):
            padded = hl.BoundaryConditions.constant_exterior(layer, hl.f32(0), [(0, size), (0, size), (0, channels)])
            r = hl.RDom([(0, 3), (0, 3), (0, channels)], f"r_{block}_{half}")
            conv, relu = named(f"conv_{block}_{half}"), named(f"relu_{block}_{half}")
            conv[X, Y, c] = hl.f32(0)
            conv[X, Y, c] += weights[r.x, r.y, r.z, c, 2 * block + half] * padded[X + r.x - 1, Y + r.y - 1, r.z]
            relu[X, Y, c] = hl.max(conv[X, Y, c], hl.f32(0))
            layer = relu
        out = named(f"block_{block}")
        out[X, Y, c] = layer[X, Y, c] + before[X, Y, c]
        before = out
    before.set_estimates([(0, size), (0, size), (0, channels)])
    return hl.Pipeline(before)


def check_residual_network(blocks: int) -> None:
    # All positive, and small: no layer cancels or overflows.
    fills = {"source": fractions, "weights": fractions_below(0.02)}
    check(lambda: residual_network(blocks), [(28, 28, 8)], inputs=Inputs(fills=fills), relative=1e-4)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_residual_network_of_one_block() -> None:
    check_residual_network(1)


@pytest.mark.slow
def test_residual_network_of_twenty_blocks_is_scheduled() -> None:
    result = metol.autoschedule(residual_network(20), options=QUICK, threads=2)
    computed = {directive.func for directive in result.schedule.directives}
    convolutions = {ref.index for ref in result.schedule.funcs if ref.name.startswith("conv_")}
    assert len(convolutions) == 40
    assert convolutions <= computed


@pytest.mark.slow
@pytest.mark.exhaustive
def test_residual_network_of_five_blocks() -> None:
    check_residual_network(5)
