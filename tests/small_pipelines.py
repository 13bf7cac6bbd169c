"""Small pipelines with estimates, one for each thing that lowering must get right, and exact runs of them.

Integers throughout, so that every schedule has the same result to the last bit; fresh Funcs at each call.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import halide as hl
import numpy as np

from metol import _core
from metol.lower import Directive, Schedule, cpu_directives, describe_funcs
from metol.measure import BlockLimits, schedule_at_root
from metol.measure.case import BufferShape, Case, Input
from metol.measure.compiled import CompiledPipeline
from metol.measure.fence import fence_inputs
from metol.measure.gate import BufferSizes, Gate
from metol.measure.tolerance import Tolerance
from metol.pipeline import PipelineDag, copy_pipeline, extract
from metol.targets.cpu import CpuMachine, cpu_parameters
from metol.targets.gpu import GpuMachine, gpu_parameters

X, Y, C = hl.Var("x"), hl.Var("y"), hl.Var("c")
WIDTH, HEIGHT = 40, 24
SIDE = 96
EMULATED_TARGET = "host-cuda-cuda_capability_80"
# Of 32-bit integers in the widest vectors.
LANES = 16

Size = tuple[int, ...]


def image(*sizes: int, name: str = "source", pixel: hl.Type | None = None) -> hl.ImageParam:
    param = hl.ImageParam(pixel or hl.Int(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def finish(*outputs: hl.Func, sizes: Size = (WIDTH, HEIGHT)) -> hl.Pipeline:
    for output in outputs:
        output.set_estimates([(0, size) for size in sizes])
    return hl.Pipeline(list(outputs))


def blur() -> hl.Pipeline:
    source = image(WIDTH + 2, HEIGHT + 2, pixel=hl.UInt(16))
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")
    blur_x[X, Y] = (source[X, Y] + source[X + 1, Y] + source[X + 2, Y]) // 3
    blur_y[X, Y] = (blur_x[X, Y] + blur_x[X, Y + 1] + blur_x[X, Y + 2]) // 3
    return finish(blur_y)


def chain() -> hl.Pipeline:
    """Three stencils whose windows can slide."""
    func: hl.Func | hl.ImageParam = image(WIDTH + 6, HEIGHT + 6)
    for step in range(3):
        stencil = hl.Func(f"step_{step}")
        stencil[X, Y] = func[X, Y] + 2 * func[X + 1, Y + 1] - func[X + 2, Y + 2] + func[X, Y + 2]
        func = stencil
    return finish(func)


def matmul() -> hl.Pipeline:
    a, b = image(24, HEIGHT, name="a"), image(WIDTH, 24, name="b")
    k = hl.RDom([(0, 24)], "k")
    product, output = hl.Func("product"), hl.Func("output")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    output[X, Y] = hl.max(product[X, Y], 0)
    return finish(output)


def matmul_output() -> hl.Pipeline:
    """The output itself has the update."""
    a, b = image(24, HEIGHT, name="a"), image(WIDTH, 24, name="b")
    k = hl.RDom([(0, 24)], "k")
    product = hl.Func("product")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    return finish(product)


def convolution() -> hl.Pipeline:
    """A window of 3 by 3 over channels, then a bias."""
    source, weights = image(WIDTH + 2, HEIGHT + 2, 4), image(3, 3, 4, 4, name="weights")
    r = hl.RDom([(0, 3), (0, 3), (0, 4)], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y, C] = C
    sums[X, Y, C] += weights[r.x, r.y, r.z, C] * source[X + r.x, Y + r.y, r.z]
    output[X, Y, C] = hl.max(0, sums[X, Y, C])
    return finish(output, sizes=(WIDTH, HEIGHT, 4))


def histogram() -> hl.Pipeline:
    """A scatter, a scan of it, and a look-up in the scan."""
    source = image(WIDTH, HEIGHT, pixel=hl.UInt(8))
    counts, sums, output = hl.Func("counts"), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    counts[X] = hl.u32(0)
    counts[hl.clamp(hl.i32(source[r.x, r.y]), 0, 255)] += hl.u32(1)
    bins = hl.RDom([(1, 255)], "bins")
    sums[X] = counts[X]
    sums[bins.x] = sums[bins.x - 1] + counts[bins.x]
    output[X, Y] = sums[hl.i32(source[X, Y])]
    return finish(output)


def scan() -> hl.Pipeline:
    """Down each column and up again, over the whole height of the input."""
    source = image(WIDTH, HEIGHT)
    down, up, output = hl.Func("down"), hl.Func("up"), hl.Func("output")
    r = hl.RDom([(1, HEIGHT - 1)], "r")
    down[X, Y] = source[X, Y]
    down[X, r.x] += 3 * down[X, r.x - 1]
    up[X, Y] = down[X, Y]
    up[X, HEIGHT - 1 - r.x] -= up[X, HEIGHT - r.x]
    output[X, Y] = up[X, hl.clamp(Y, 0, HEIGHT - 1)]
    return finish(output)


def pyramid() -> hl.Pipeline:
    """Down by two, a stencil there, and up again."""
    source = image(WIDTH + 8, HEIGHT + 8)
    down, small, up, output = hl.Func("down"), hl.Func("small"), hl.Func("up"), hl.Func("output")
    down[X, Y] = source[2 * X, 2 * Y] + source[2 * X + 1, 2 * Y] + source[2 * X, 2 * Y + 1]
    small[X, Y] = down[X, Y] - 2 * down[X + 1, Y] + down[X, Y + 1]
    up[X, Y] = small[X // 2, Y // 2] + small[(X + 1) // 2, (Y + 1) // 2]
    output[X, Y] = source[X, Y] - up[X, Y]
    return finish(output)


def boundary() -> hl.Pipeline:
    source = image(WIDTH, HEIGHT)
    padded = hl.BoundaryConditions.repeat_edge(source)
    edges, output = hl.Func("edges"), hl.Func("output")
    edges[X, Y] = padded[X - 1, Y] - padded[X + 1, Y] + padded[X, Y - 2]
    output[X, Y] = edges[X, Y - 1] + edges[X + 1, Y + 1]
    return finish(output)


def half_boundary() -> hl.Pipeline:
    """Clamped along x alone: along y, nothing beyond what is needed may be read."""
    source = image(WIDTH, HEIGHT + 2)
    clamped, edges, output = hl.Func("clamped"), hl.Func("edges"), hl.Func("output")
    clamped[X, Y] = source[hl.clamp(X, 0, 31), Y]
    edges[X, Y] = clamped[X + 1, Y] - clamped[X - 1, Y + 1]
    output[X, Y] = edges[X, Y] + edges[X, Y + 1]
    return finish(output)


def input_read_twice() -> hl.Pipeline:
    """A Func that reads the input, and another one that does, which may be computed inside its loops."""
    source = image(WIDTH + 2, HEIGHT + 2)
    inner, outer, output = hl.Func("inner"), hl.Func("outer"), hl.Func("output")
    inner[X, Y] = source[X, Y] - 3 * source[X + 1, Y]
    outer[X, Y] = inner[X, Y] * inner[X, Y] + source[X, Y + 1]
    output[X, Y] = outer[X, Y] - outer[X + 1, Y + 1]
    return finish(output)


def product_inside() -> hl.Pipeline:
    """A Func that loads the input twice at one place, and one that is a name for it: both are cheap to inline."""
    source = image(WIDTH + 2, HEIGHT + 2)
    name, product, mixed, output = (hl.Func(each) for each in ("name", "product", "mixed", "output"))
    name[X, Y] = source[X, Y + 1]
    product[X, Y] = source[X, Y] * (source[X, Y] + 1)
    mixed[X, Y] = product[X, Y] % 7 + name[X, Y]
    output[X, Y] = mixed[X, Y] - 2 * mixed[X + 1, Y] + mixed[X + 2, Y + 1]
    return finish(output)


def tuples() -> hl.Pipeline:
    source = image(WIDTH + 1, HEIGHT + 1)
    pair, output = hl.Func("pair"), hl.Func("output")
    pair[X, Y] = hl.Tuple((source[X, Y], hl.i16(source[X + 1, Y + 1] // 3)))
    output[X, Y] = pair[X, Y][0] + hl.i32(pair[X, Y][1])
    return finish(output)


def tuple_output() -> hl.Pipeline:
    source = image(WIDTH + 1, HEIGHT)
    output = hl.Func("output")
    output[X, Y] = hl.Tuple((source[X, Y] * 2, hl.u8(source[X + 1, Y] & 255)))
    return finish(output)


def two_outputs() -> hl.Pipeline:
    source = image(WIDTH + 3, HEIGHT + 3)
    shared, first, second = hl.Func("shared"), hl.Func("first"), hl.Func("second")
    shared[X, Y] = source[X, Y] * 3 - source[X + 1, Y + 1]
    first[X, Y] = shared[X, Y] + shared[X + 2, Y]
    second[X, Y] = shared[X, Y + 2] - shared[X, Y]
    return finish(first, second)


def one_dimension() -> hl.Pipeline:
    source = image(400)
    smooth, output = hl.Func("smooth"), hl.Func("output")
    smooth[X] = source[X] + source[X + 1] + source[X + 2]
    output[X] = smooth[X] * smooth[X + 3]
    return finish(output, sizes=(390,))


def sums_output() -> hl.Pipeline:
    """An output of one dimension that has an update."""
    source = image(390, 5)
    r = hl.RDom([(0, 5)], "r")
    output = hl.Func("output")
    output[X] = X
    output[X] += source[X, r.x]
    return finish(output, sizes=(390,))


def no_dimension() -> hl.Pipeline:
    source = image(300)
    r = hl.RDom([(0, 300)], "r")
    double, total, output = hl.Func("double"), hl.Func("total"), hl.Func("output")
    double[X] = source[X] * 2
    total[()] = 0
    total[()] += double[r.x]
    output[()] = total[()] + 1
    return finish(output, sizes=())


def transpose() -> hl.Pipeline:
    source = image(HEIGHT + 1, WIDTH + 1)
    turned, output = hl.Func("turned"), hl.Func("output")
    turned[X, Y] = source[Y, X] * source[Y + 1, X + 1]
    output[X, Y] = turned[Y, X] + turned[Y, X + 1]
    return finish(output, sizes=(HEIGHT - 1, WIDTH - 1))


def symmetric() -> hl.Pipeline:
    """A matrix plus its transpose, large enough for what a tile reads of the two to lie far apart."""
    source = image(SIDE, SIDE)
    once, output = hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * 3 + Y
    output[X, Y] = once[X, Y] - once[Y, X]
    return finish(output, sizes=(SIDE, SIDE))


def look_up() -> hl.Pipeline:
    """An index that is computed, and the table that it goes into."""
    source, table = image(WIDTH, HEIGHT, pixel=hl.UInt(8)), hl.Func("table")
    index, output = hl.Func("index"), hl.Func("output")
    table[X] = X * X
    index[X, Y] = hl.i32(source[X, Y]) // 2 + 3
    output[X, Y] = table[hl.clamp(index[X, Y], 0, 255)] + table[hl.clamp(index[X, Y] * 2, 0, 255)]
    return finish(output)


def in_place() -> hl.Pipeline:
    """Updates of single rows and columns, and one that reads its own Func elsewhere; then a stencil on it."""
    source = image(WIDTH + 2, HEIGHT + 2)
    changed, output = hl.Func("changed"), hl.Func("output")
    r = hl.RDom([(0, 5)], "r")
    changed[X, Y] = source[X, Y]
    changed[X, Y] += source[X, Y] * 2
    changed[X, 3] = 7
    changed[r.x, Y] += 100 + r.x
    output[X, Y] = changed[X, Y] + changed[X + 1, Y + 2] - changed[X + 2, Y]
    return finish(output)


def where() -> hl.Pipeline:
    """A triangular reduction."""
    source = image(16, HEIGHT)
    r = hl.RDom([(0, 16), (0, 16)], "r")
    r.where(r.x <= r.y)
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y] = X
    sums[X, Y] += source[r.x, Y] * (X + r.y)
    output[X, Y] = sums[X, Y] - sums[X + 1, Y]
    return finish(output)


def counted() -> hl.Pipeline:
    """Sums of as many values as another input says."""
    source, counts = image(WIDTH + 16, HEIGHT), image(HEIGHT, name="counts")
    sums, output = hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, 16)], "r")
    r.where(r.x < hl.clamp(counts[Y], 0, 16))
    sums[X, Y] = 0
    sums[X, Y] += source[X + r.x, Y]
    output[X, Y] = sums[X, Y] + sums[X + 1, Y]
    return finish(output)


def channels() -> hl.Pipeline:
    """Three channels outermost, mixed to one and spread again."""
    source = image(WIDTH, HEIGHT, 3, pixel=hl.UInt(8))
    gray, wide, output = hl.Func("gray"), hl.Func("wide"), hl.Func("output")
    wide[X, Y, C] = hl.i32(source[X, Y, C])
    gray[X, Y] = (3 * wide[X, Y, 0] + 6 * wide[X, Y, 1] + wide[X, Y, 2]) // 10
    output[X, Y, C] = hl.u8(hl.clamp(2 * gray[X, Y] - wide[X, Y, C], 0, 255))
    return finish(output, sizes=(WIDTH, HEIGHT, 3))


PIPELINES: dict[str, Callable[[], hl.Pipeline]] = {
    build.__name__: build
    for build in (
        blur,
        chain,
        matmul,
        matmul_output,
        convolution,
        histogram,
        scan,
        pyramid,
        boundary,
        half_boundary,
        input_read_twice,
        product_inside,
        tuples,
        tuple_output,
        two_outputs,
        one_dimension,
        sums_output,
        no_dimension,
        transpose,
        symmetric,
        look_up,
        in_place,
        where,
        channels,
    )
}

# Inputs whose size the algorithm itself mentions, or whose every element it reads by value: these keep their estimate.
_FIXED_INPUTS = {"histogram": (WIDTH, HEIGHT), "boundary": (WIDTH, HEIGHT)}


@cache
def cpu_space(build: Callable[[], hl.Pipeline], cores: int = 2, threads: int = 1) -> tuple[PipelineDag, _core.Space]:
    """The DAG of a pipeline and its whole search space on an uncalibrated CPU."""
    dag = extract(build())
    return dag, make_space(dag, cores=cores, threads=threads)


SOME_TARGET = "x86-64-linux-avx-avx2-f16c-fma-sse41"
"""What each machine that runs the tests can run."""

WIDE_TARGET = f"{SOME_TARGET}-avx512-avx512_skylake"
"""A target whose vectors can leave lanes out; code for it is looked at, not run."""

BARE_TARGET = f"{SOME_TARGET}-no_runtime"
"""The same, for code that is looked at: Halide's runtime takes a second to compile, and has instructions of its own."""


def some_machine(threads: int = 2, target: str = SOME_TARGET) -> CpuMachine:
    """A CPU that is the same wherever the tests run: what is best for it does not change with the machine."""
    machine = CpuMachine.default(target, threads=threads)
    return replace(machine, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=32 << 20, cache_line_bytes=64)


def make_space(
    dag: PipelineDag,
    *,
    target: str = "host",
    cores: int = 2,
    threads: int = 1,
    options: _core.SpaceOptions | None = None,
) -> _core.Space:
    parameters = cpu_parameters(CpuMachine.default(target, threads=cores), dag)
    return _core.Space(dag, parameters, options or _core.SpaceOptions(), threads)


@cache
def gpu_space(build: Callable[[], hl.Pipeline]) -> tuple[PipelineDag, _core.Space]:
    """The DAG of a pipeline and its whole search space on a GPU."""
    dag = extract(build())
    return dag, make_gpu_space(dag)


def make_gpu_space(dag: PipelineDag, *, machine: str = "rtx-2080-ti", allow_inline: bool = True) -> _core.Space:
    options = _core.SpaceOptions()
    options.allow_inline = allow_inline
    return _core.Space(dag, gpu_parameters(GpuMachine.preset(machine, threads=2), dag), options, 1)


def schedule_of(build: Callable[[], hl.Pipeline], dag: PipelineDag, state: _core.States) -> Schedule:
    return schedule_with(build, cpu_directives(dag, state.describe()))


def schedule_with(build: Callable[[], hl.Pipeline], directives: tuple[Directive, ...]) -> Schedule:
    return Schedule(
        funcs=describe_funcs(build()),
        directives=directives,
        algorithm_hash="",
        halide_version="",
        metol_version="",
        target="",
        estimates=(),
    )


def func_named(dag: PipelineDag, name: str) -> int:
    """The id of a Func, without what Halide adds to tell namesakes apart."""
    return next(i for i, func in enumerate(dag.funcs) if func.name.split("$")[0] == name)


def is_one_tile(nest: _core.StageNest) -> bool:
    """Is all of a Stage in its tile?"""
    return all(trips == 1 for level in nest.levels[:-1] for trips in level)


def sizes_of(build: Callable[[], hl.Pipeline]) -> BufferSizes:
    """What the schedules of a pipeline are made for."""
    dag = extract(build())

    def region(func: object) -> tuple[tuple[int, int], ...]:
        return tuple((side.min, side.extent) for side in func.estimate)  # type: ignore[attr-defined]

    inputs = {func.name.split("$")[0]: region(func) for func in dag.funcs if func.is_input}
    return BufferSizes(tuple(region(dag.funcs[output]) for output in dag.outputs), inputs, {})


def make_gate(build: Callable[[], hl.Pipeline], target: str = "", limits: BlockLimits | None = None) -> Gate:
    """Judge schedules of a pipeline in this process, for this machine or another target."""
    pipeline = build()
    return Gate(lambda: copy_pipeline(pipeline), sizes_of(build), target or str(hl.get_host_target()), limits)


def output_sizes(name: str) -> Iterator[Size]:
    """The estimated size, a single point, sizes around a vector, and an odd one; as far as the pipeline has them."""
    full = {
        "one_dimension": (390,),
        "sums_output": (390,),
        "no_dimension": (),
        "transpose": (HEIGHT - 1, WIDTH - 1),
        "symmetric": (SIDE, SIDE),
        "panels": (192, 96),
    }.get(name, (WIDTH, HEIGHT))
    channel_count = {"convolution": (4,), "channels": (3,)}.get(name, ())
    yield (*full, *channel_count)
    if not full:
        return
    for size in ((1, 1), (LANES - 1, 2), (LANES + 1, 3), (37, 13)):
        yield (*size[: len(full)], *channel_count)


@cache
def _exact_cases(name: str, build: Callable[[], hl.Pipeline]) -> tuple[Case, ...]:
    """Inputs for outputs of each size, and what everything at root makes of them."""
    pipeline = build()
    schedule_at_root(pipeline)
    reference = CompiledPipeline.compile(pipeline, hl.get_host_target())
    types = [str(t) for func in pipeline.outputs() for t in func.types()]
    return tuple(_exact_case(reference, size, types, _FIXED_INPUTS.get(name)) for size in output_sizes(name))


def _exact_case(reference: CompiledPipeline, size: Size, types: list[str], fixed: Size | None) -> Case:
    outputs = tuple(_shape(type_, size) for type_ in types)
    wanted = [_shape(str(a.type), fixed or (1,) * a.dimensions) for a in reference.arguments]
    if fixed is None:
        wanted = list(reference.query_inputs(wanted, outputs)[0])
    rng = np.random.default_rng(0)
    inputs = tuple(
        Input(a.name, array=shape.view(_random(shape, rng)), mins=shape.mins)
        for a, shape in zip(reference.arguments, wanted, strict=True)
    )
    case = Case("x".join(map(str, size)), inputs, outputs)
    expected, _ = reference.run_once(case)
    case = Case(case.name, inputs, outputs, expected, (Tolerance(0, 0),) * len(expected))
    # A schedule that reads beyond an input dies of it.
    return fence_inputs(case, at_end=bool(sum(size) % 3))


class ExactRuns:
    """Runs schedules of one pipeline on outputs and inputs of exactly the sizes that are needed."""

    def __init__(self, name: str, build: Callable[[], hl.Pipeline] | None = None, target: str = "host") -> None:
        self.build = build or PIPELINES[name]
        self.target = hl.Target(target)
        self.cases = _exact_cases(name, self.build)

    def check(self, schedule: Schedule) -> None:
        """Apply, compile, run at every size, and compare every element."""
        pipeline = self.build()
        schedule.apply(pipeline)
        compiled = CompiledPipeline.compile(pipeline, self.target)
        for case in self.cases:
            results, is_intact = compiled.run_once(case)
            assert is_intact, f"wrote outside of an output of {case.name}"
            for result, expected in zip(results, case.expected, strict=True):
                np.testing.assert_array_equal(result, expected, err_msg=f"at {case.name}")


def _shape(dtype: str, extents: Size) -> BufferShape:
    return BufferShape(dtype, (0,) * len(extents), extents, tuple(range(len(extents))))


def _random(shape: BufferShape, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 200, shape.memory_shape).astype(shape.dtype)
