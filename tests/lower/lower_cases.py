"""Small pipelines with a schedule each, written by hand: together they use every call that runs on a CPU.

The pipelines compute their input from coordinates, so that they can be serialized without parameters.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import halide as hl
import numpy as np

from metol.lower import Argument, Call, Directive, Estimate, RVar, Schedule, Site, Tail, Var, describe_funcs

GUARD, ROUND_UP, SHIFT = Tail.GUARD_WITH_IF, Tail.ROUND_UP, Tail.SHIFT_INWARDS
X, Y, R = Var("x"), Var("y"), RVar("taps$x")
X_O, X_I, Y_O, Y_I = Var("x_o"), Var("x_i"), Var("y_o"), Var("y_i")
R_O, R_I = RVar("taps_o"), RVar("taps_i")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    build: Callable[[], hl.Pipeline]
    directives: tuple[Directive, ...]
    sizes: tuple[tuple[int, ...], ...]

    def schedule(self) -> Schedule:
        return Schedule(
            funcs=describe_funcs(self.build()),
            directives=self.directives,
            target="x86-64-linux-avx2",
            estimates=(Estimate(self.name, tuple((0, extent) for extent in self.sizes[0])),),
            algorithm_hash="0123456789abcdef",
            halide_version="21.0.0",
            metol_version="0.1.0",
        )

    def expected(self, size: tuple[int, ...]) -> list[np.ndarray]:
        return realize_at_root(self.build, size)


@functools.cache
def realize_at_root(build: Callable[[], hl.Pipeline], size: tuple[int, ...]) -> list[np.ndarray]:
    return realize(build_at_root(build), size)


def on(func: int, stage: int, call: Call, *args: Argument, branch: tuple[int, ...] = ()) -> Directive:
    return Directive(func, stage, call, args, branch)


def build_at_root(build: Callable[[], hl.Pipeline]) -> hl.Pipeline:
    pipeline = build()
    for index in range(len(describe_funcs(pipeline))):
        pipeline.get_func(index).compute_root()
    return pipeline


def realize(pipeline: hl.Pipeline, size: tuple[int, ...]) -> list[np.ndarray]:
    # Into buffers of exactly this size: realize(sizes) would enlarge them to whatever the schedule writes.
    types = [type_ for output in pipeline.outputs() for type_ in output.types()]
    buffers = [hl.Buffer(type_, list(size)) for type_ in types]
    pipeline.realize(buffers)
    return [np.array(buffer) for buffer in buffers]


def is_same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def define_source() -> hl.Func:
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.Func("source")
    source[x, y] = hl.u16((x * 7 + y * 13 + x * y) % 251)
    return source


def build_blur(x: hl.Var | None = None, y: hl.Var | None = None) -> hl.Pipeline:
    x = hl.Var("x") if x is None else x
    y = hl.Var("y") if y is None else y
    source, blur_x, blur_y = define_source(), hl.Func("blur_x"), hl.Func("blur_y")
    blur_x[x, y] = source[x, y] + source[x + 1, y] + source[x + 2, y]
    blur_y[x, y] = blur_x[x, y] + blur_x[x, y + 1] + blur_x[x, y + 2]
    return hl.Pipeline(blur_y)


BLUR = Case(
    "blur_y",
    build_blur,
    (
        on(2, 0, Call.COMPUTE_ROOT),
        on(2, 0, Call.SPLIT, X, X_O, X_I, 16, GUARD),
        on(2, 0, Call.SPLIT, Y, Y_O, Y_I, 4, GUARD),
        on(2, 0, Call.REORDER, X_I, Y_I, X_O, Y_O),
        on(2, 0, Call.VECTORIZE, X_I),
        on(2, 0, Call.PARALLEL, Y_O),
        on(1, 0, Call.STORE_IN, "Stack"),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, X_O)),
        on(1, 0, Call.REORDER_STORAGE, Y, X),
        on(1, 0, Call.VECTORIZE, X, 8, ROUND_UP),
        on(0, 0, Call.HOIST_STORAGE, Site(2, 0, Y_O)),
        on(0, 0, Call.COMPUTE_AT, Site(1, 0, Y)),
        on(0, 0, Call.ALIGN_STORAGE, X, 16),
        on(0, 0, Call.UNROLL, X, 2, GUARD),
    ),
    ((40, 20), (33, 7), (1, 1)),
)


def build_reduction() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    taps = hl.RDom([(0, 9), (0, 3)], "taps")
    source, total = define_source(), hl.Func("total")
    total[x, y] = hl.u32(1)
    total[x, y] += hl.u32(source[x + taps.x, y + taps.y])
    total[x, y] += hl.u32(x)
    return hl.Pipeline(total)


REDUCTION = Case(
    "total",
    build_reduction,
    (
        on(1, 0, Call.VECTORIZE, X, 8, GUARD),
        on(1, 1, Call.SPLIT, X, X_O, X_I, 8, GUARD),
        on(1, 1, Call.SPLIT, R, R_O, R_I, 4, GUARD),
        on(1, 1, Call.REORDER, X_I, R_I, RVar("taps$y"), X_O, R_O, Y),
        on(1, 1, Call.VECTORIZE, X_I),
        on(1, 1, Call.UNROLL, R_I),
        on(1, 1, Call.PARALLEL, Y),
        on(1, 2, Call.UNSCHEDULED),
        on(0, 0, Call.COMPUTE_AT, Site(1, 1, R_O)),
        on(0, 0, Call.STORE_AT, Site(1, 1, Y)),
    ),
    ((24, 5), (13, 3), (1, 1)),
)

REDUCTION_AT_RVAR = Case(
    "total",
    build_reduction,
    (
        on(1, 1, Call.UNROLL, R),
        on(1, 2, Call.UNSCHEDULED),
        on(0, 0, Call.COMPUTE_AT, Site(1, 1, RVar("taps$y"))),
    ),
    ((6, 4), (1, 1)),
)


def build_tuple() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    source, pair = define_source(), hl.Func("pair")
    pair[x, y] = (source[x, y] + source[x, y + 1], hl.i32(source[x, y]) - x)
    return hl.Pipeline(pair)


TUPLE = Case(
    "pair",
    build_tuple,
    (
        on(1, 0, Call.SPECIALIZE, 0, 8),
        on(1, 0, Call.SPLIT, X, X_O, X_I, 8, SHIFT, branch=(0,)),
        on(1, 0, Call.VECTORIZE, X_I, branch=(0,)),
        on(1, 0, Call.PARALLEL, Y, branch=(0,)),
        on(1, 0, Call.PARALLEL, Y),
        on(0, 0, Call.COMPUTE_AT, Site(1, 0, Y)),
    ),
    ((20, 4), (5, 3)),
)


def build_two_outputs() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    source, sums, products = define_source(), hl.Func("sums"), hl.Func("products")
    sums[x, y] = source[x, y] + source[x, y + 1]
    products[x, y] = hl.u32(source[x, y]) * 3
    return hl.Pipeline([sums, products])


TWO_OUTPUTS = Case(
    "sums",
    build_two_outputs,
    (
        on(1, 0, Call.VECTORIZE, X, 8, GUARD),
        on(2, 0, Call.VECTORIZE, X, 8, GUARD),
        on(2, 0, Call.COMPUTE_WITH, Site(1, 0, Y)),
        on(0, 0, Call.COMPUTE_AT, Site(1, 0, Y)),
    ),
    ((20, 6), (3, 2)),
)

SLIDING = Case(
    "blur_y",
    build_blur,
    (
        on(2, 0, Call.SPLIT, Y, Y_O, Y_I, 8, GUARD),
        on(2, 0, Call.PARALLEL, Y_O),
        on(2, 0, Call.PREFETCH, 1, Y_I, Y_I, 2),
        on(1, 0, Call.STORE_AT, Site(2, 0, Y_O)),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, Y_I)),
        on(0, 0, Call.STORE_ROOT),
        on(0, 0, Call.COMPUTE_ROOT),
        on(0, 0, Call.FUSE, X, Y, Var("xy")),
        on(0, 0, Call.PARALLEL, Var("xy")),
    ),
    ((17, 25), (1, 1)),
)

SPECIALIZED = Case(
    "blur_y",
    build_blur,
    (
        on(2, 0, Call.SPLIT, X, X_O, X_I, 8, GUARD),
        on(2, 0, Call.SPECIALIZE, 0, 8, 1, 4),
        on(2, 0, Call.SPLIT, Y, Y_O, Y_I, 4, SHIFT, branch=(0,)),
        on(2, 0, Call.SPECIALIZE, 0, 32, branch=(0,)),
        on(2, 0, Call.VECTORIZE, X_I, branch=(0, 0)),
        on(2, 0, Call.UNROLL, Y_I, branch=(0,)),
        on(2, 0, Call.SPECIALIZE, 1, 2),
        on(2, 0, Call.VECTORIZE, X_I, branch=(1,)),
        on(2, 0, Call.NEVER_PARTITION, X_O, branch=(1,)),
        on(2, 0, Call.PARALLEL, Y),
        on(2, 0, Call.NEVER_PARTITION, X_O, Y),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, X_O)),
        on(1, 0, Call.SPECIALIZE, 0, 16),
        on(1, 0, Call.VECTORIZE, X, 8, ROUND_UP, branch=(0,)),
    ),
    ((40, 20), (9, 5), (20, 3), (1, 1)),
)


EXACT_SIZE = Case(
    "blur_y",
    build_blur,
    (
        on(2, 0, Call.SPECIALIZE_SIZE, 0, 0, 40, 1, 0, 20),
        on(2, 0, Call.SPLIT, X, X_O, X_I, 8, ROUND_UP, branch=(0,)),
        on(2, 0, Call.VECTORIZE, X_I, branch=(0,)),
        on(2, 0, Call.UNROLL, X_O, branch=(0,)),  # refused where the extent is not constant
        on(2, 0, Call.SPLIT, X, X_O, X_I, 8, GUARD),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, Y)),
    ),
    ((40, 20), (41, 20), (39, 20), (1, 1)),
)


def build_sum() -> hl.Pipeline:
    x, taps = hl.Var("x"), hl.RDom([(0, 50), (0, 6)], "taps")
    source, total = define_source(), hl.Func("total")
    total[x] = hl.u32(0)
    total[x] += hl.u32(source[x + taps.x, taps.y])
    total[x] += hl.u32(7)
    return hl.Pipeline(total)


LANE, ROW = Var("lane"), Var("row")
RFACTOR = Case(
    "total",
    build_sum,
    (
        on(1, 1, Call.SPLIT, R, R_O, R_I, 8, GUARD),
        on(1, 1, Call.RFACTOR, 2, R_I, LANE),
        on(1, 1, Call.UNROLL, R_I),
        on(1, 2, Call.VECTORIZE, X, 4, GUARD),
        on(2, 0, Call.COMPUTE_AT, Site(1, 1, X)),
        on(2, 0, Call.VECTORIZE, LANE),
        on(2, 1, Call.REORDER, LANE, R_O, RVar("taps$y"), X),
        on(2, 1, Call.VECTORIZE, LANE),
        on(0, 0, Call.COMPUTE_AT, Site(2, 1, RVar("taps$y"))),
    ),
    ((5,), (1,)),
)

RFACTOR_TWO = Case(
    "total",
    build_sum,
    (
        on(1, 1, Call.SPLIT, R, R_O, R_I, 8, GUARD),
        on(1, 1, Call.RFACTOR, 2, R_I, LANE, RVar("taps$y"), ROW),
        on(1, 2, Call.UNSCHEDULED),
        on(2, 0, Call.COMPUTE_ROOT),
        on(2, 1, Call.PARALLEL, ROW),
        on(0, 0, Call.COMPUTE_ROOT),
    ),
    ((5,), (1,)),
)

ATOMIC = Case(
    "total",
    build_sum,
    (
        on(1, 1, Call.ATOMIC),
        on(1, 1, Call.PARALLEL, RVar("taps$y")),
        on(1, 2, Call.UNSCHEDULED),
        on(0, 0, Call.COMPUTE_ROOT),
    ),
    ((5,),),
)

STAGED = Case(
    "blur_y",
    build_blur,
    (
        on(1, 0, Call.IN, 3, 2),
        on(0, 0, Call.IN, 4, 1),
        on(2, 0, Call.SPLIT, X, X_O, X_I, 16, GUARD),
        on(2, 0, Call.VECTORIZE, X_I),
        on(2, 0, Call.PARALLEL, Y),
        on(3, 0, Call.COMPUTE_AT, Site(2, 0, X_O)),
        on(3, 0, Call.REORDER_STORAGE, Y, X),
        on(3, 0, Call.SPLIT, X, X_O, X_I, 8, ROUND_UP),
        on(3, 0, Call.VECTORIZE, X_I),
        on(1, 0, Call.COMPUTE_ROOT),
        on(4, 0, Call.COMPUTE_AT, Site(1, 0, Y)),
        on(4, 0, Call.UNROLL, X, 2, GUARD),
        on(0, 0, Call.COMPUTE_ROOT),
    ),
    ((40, 20), (17, 3), (1, 1)),
)

RFACTOR_STAGED = Case(
    "total",
    build_sum,
    (
        on(1, 1, Call.SPLIT, R, R_O, R_I, 8, GUARD),
        on(1, 1, Call.RFACTOR, 2, R_I, LANE),
        on(0, 0, Call.IN, 3, 2),
        on(1, 2, Call.UNSCHEDULED),
        on(2, 0, Call.COMPUTE_AT, Site(1, 1, X)),
        on(3, 0, Call.COMPUTE_AT, Site(2, 1, RVar("taps$y"))),
        on(0, 0, Call.COMPUTE_ROOT),
    ),
    ((5,), (1,)),
)

R_ALL = RVar("taps_all")
RENAMED = Case(
    "total",
    build_sum,
    (
        on(1, 0, Call.RENAME, X, Var("x_all")),
        on(1, 0, Call.SPLIT, Var("x_all"), X_O, X_I, 4, GUARD),
        on(1, 0, Call.VECTORIZE, X_I),
        on(1, 1, Call.RENAME, R, R_ALL),
        on(1, 1, Call.REORDER, X, R_ALL, RVar("taps$y")),
        on(1, 1, Call.SPLIT, R_ALL, R_O, R_I, 8, GUARD),
        on(1, 1, Call.SPECIALIZE, 0, 4),
        on(1, 1, Call.RENAME, X, Var("x_all"), branch=(0,)),
        on(1, 1, Call.SPLIT, Var("x_all"), X_O, X_I, 4, GUARD, branch=(0,)),
        on(1, 1, Call.VECTORIZE, X_I, branch=(0,)),
        on(1, 2, Call.RENAME, X, LANE),
        on(0, 0, Call.COMPUTE_AT, Site(1, 1, R_O)),
    ),
    ((5,), (4,), (1,)),
)

CASES = {
    "renamed": RENAMED,
    "blur": BLUR,
    "reduction": REDUCTION,
    "reduction_at_rvar": REDUCTION_AT_RVAR,
    "tuple": TUPLE,
    "two_outputs": TWO_OUTPUTS,
    "sliding": SLIDING,
    "specialized": SPECIALIZED,
    "exact_size": EXACT_SIZE,
    "rfactor": RFACTOR,
    "rfactor_two": RFACTOR_TWO,
    "atomic": ATOMIC,
    "staged": STAGED,
    "rfactor_staged": RFACTOR_STAGED,
}


def without_renames(directives: Iterable[Directive]) -> Iterator[Directive]:
    """The directives as they would be if no loop had got a name of its own before it is split."""
    old_names: dict[Argument, Argument] = {}
    for directive in directives:
        if directive.call is Call.RENAME:
            old, new = directive.args
            old_names = {new: old}
        else:
            yield replace(directive, args=tuple(old_names.get(arg, arg) for arg in directive.args))
            old_names = {}
