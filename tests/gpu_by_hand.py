"""Schedules for GPUs that the search would not make: too many threads, shared memory, more values than registers."""

from collections.abc import Callable

import halide as hl
from small_pipelines import WIDTH, X, Y, finish, image

from metol.lower import Call, Directive, RVar, Site, Tail, Var, describe_funcs

Build = Callable[[], hl.Pipeline]


def tiled(func: int, width: int | str, height: int, stage: int = 0) -> list[Directive]:
    """Blocks of threads, each of which computes one point; a whole dimension where `width` is no number."""
    blocks = [Var("yo")]
    split = [Directive(func, stage, Call.SPLIT, (Var("y"), Var("yo"), Var("yi"), height, Tail.GUARD_WITH_IF))]
    threads = Var("x")
    if isinstance(width, int):
        split.append(Directive(func, stage, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), width, Tail.GUARD_WITH_IF)))
        blocks, threads = [Var("xo"), Var("yo")], Var("xi")
    return [
        *split,
        Directive(func, stage, Call.REORDER, (threads, Var("yi"), *blocks)),
        Directive(func, stage, Call.GPU_BLOCKS, tuple(blocks)),
        Directive(func, stage, Call.GPU_THREADS, (threads, Var("yi"))),
    ]


def in_shared_memory(pad: int) -> Build:
    """A Func of which each block of rows reads as many more as it is told."""

    def build() -> hl.Pipeline:
        source = image(WIDTH + 8, 2048)
        rows, output = hl.Func("rows"), hl.Func("output")
        rows[X, Y] = source[X, Y] * 3
        output[X, Y] = rows[X, Y] + rows[X, Y + pad]
        return finish(output, sizes=(WIDTH, 24))

    return build


def computed_a_block(build: Build) -> list[Directive]:
    _, rows, output = (ref.index for ref in describe_funcs(build()))
    at = Directive(rows, 0, Call.COMPUTE_AT, (Site(output, 0, Var("xo")),))
    return [*tiled(output, 32, 8), at, Directive(rows, 0, Call.GPU_THREADS, (Var("x"), Var("y")))]


def spilling() -> hl.Pipeline:
    """As many sums as a thread has registers, and more."""
    a, b = image(16, 64, name="a"), image(64, 16, name="b")
    product, output = hl.Func("product"), hl.Func("output")
    k = hl.RDom([(0, 16)], "k")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    output[X, Y] = product[X, Y]
    return finish(output, sizes=(64, 64))


def sums_in_registers() -> list[Directive]:
    """Each thread computes 20 x 20 points; their sums live as long as the reduction."""
    *_, product, output = (ref.index for ref in describe_funcs(spilling()))
    split = [
        Directive(output, 0, Call.SPLIT, (Var(v), Var(f"{v}o"), Var(f"{v}i"), 20, Tail.ROUND_UP)) for v in ("x", "y")
    ]
    unrolled = [Directive(product, stage, Call.UNROLL, (Var(v),)) for stage in (0, 1) for v in ("x", "y")]
    k = RVar(describe_funcs(spilling())[product].rvars[0][0])
    return [
        *split,
        Directive(output, 0, Call.REORDER, (Var("xi"), Var("yi"), Var("xo"), Var("yo"))),
        Directive(output, 0, Call.UNROLL, (Var("xi"),)),
        Directive(output, 0, Call.UNROLL, (Var("yi"),)),
        Directive(output, 0, Call.GPU_BLOCKS, (Var("yo"),)),
        Directive(output, 0, Call.GPU_THREADS, (Var("xo"),)),
        Directive(product, 0, Call.COMPUTE_AT, (Site(output, 0, Var("xo")),)),
        Directive(product, 1, Call.REORDER, (Var("x"), Var("y"), k)),
        *unrolled,
    ]
