"""Schedules for GPUs, compiled and run: OpenCL on the CPU, and code for CUDA."""

from collections.abc import Callable
from pathlib import Path

import halide as hl
import pytest
from slow_cases import half_of, marks_of, slow_but
from small_pipelines import PIPELINES, ExactRuns, X, Y, chain, finish, gpu_space, image, schedule_with

import metol
from metol import _core
from metol.lower import Call, gpu_directives
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.targets.gpu import host_funcs

QUICK = SearchOptions(strategy="greedy")
BLOCKS, THREADS = 0, 1  # levels of a loop nest
# The other pipelines run with the slow tests. Of each the gate has one schedule of a search or one at random here, and
# on the emulated GPU (tests/emulated_cuda/test_pipelines.py) one at random and, where none is here, one of a search.
QUICK_NAMES = ("tuples", "scan", "histogram")
SEARCHED = {*QUICK_NAMES, *half_of(PIPELINES, ())}
KERNEL_CALLS = (Call.GPU_BLOCKS, Call.GPU_SINGLE_THREAD)


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", slow_but(QUICK_NAMES, PIPELINES, further=PIPELINES.keys() - SEARCHED))
def test_schedules_for_opencl_keep_the_result(name: str) -> None:
    runs = ExactRuns(name, target="host-opencl")
    runs.check(metol.autoschedule(PIPELINES[name](), target="host-opencl", options=QUICK).schedule)


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize(
    ("name", "seeds"),
    [(name, (1,)) for name in QUICK_NAMES[:2]]
    + [pytest.param(name, (2,), marks=marks_of(name, SEARCHED)) for name in PIPELINES],
)
def test_random_loop_nests_keep_the_result(name: str, seeds: tuple[int, ...]) -> None:
    dag, space = gpu_space(PIPELINES[name])
    runs = ExactRuns(name, target="host-opencl")
    for seed in seeds:
        random = space.rollout(space.root(), [seed])
        runs.check(schedule_with(PIPELINES[name], gpu_directives(dag, random.describe())))


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("level", [BLOCKS, THREADS])
@pytest.mark.parametrize(
    "name", slow_but(["tuples"], ["blur", "chain", "matmul", "convolution", "tuples"], further=["chain", "convolution"])
)
def test_funcs_in_blocks_and_threads_keep_the_result(name: str, level: int) -> None:
    dag, space = gpu_space(PIPELINES[name])
    leaves = space.rollout(space.root(), range(200))
    chosen = next(
        described
        for described in (leaves.take([place]).describe() for place in range(len(leaves)))
        if any(one.placement == _core.Placement.AT and one.compute.level == level for one in described)
    )
    ExactRuns(name, target="host-opencl").check(schedule_with(PIPELINES[name], gpu_directives(dag, chosen)))


def five_dimensions() -> hl.Pipeline:
    """More loops than a grid has dimensions, in the pure definition and in an update."""
    names = [hl.Var(name) for name in "xyztu"]
    x, y, z, t, u = names
    source = image(*(6,) * 5)
    turned, output = hl.Func("turned"), hl.Func("output")
    turned[x, y, z, t, u] = source[x, y, z, t, u] * 2
    turned[x, y, z, t, u] += source[u, y, z, t, x]
    output[x, y, z, t, u] = turned[x, y, z, t, u] - turned[y, x, z, t, u]
    return finish(output, sizes=(6,) * 5)


def tall() -> hl.Pipeline:
    """More rows than the second dimension of a grid holds blocks."""
    source, output = image(4, 200_000, pixel=hl.UInt(8)), hl.Func("output")
    output[X, Y] = source[X, Y] + hl.u8(1)
    return finish(output, sizes=(4, 200_000))


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("build", [five_dimensions, pytest.param(tall, marks=pytest.mark.slow)])
def test_loops_that_do_not_fit_a_grid_are_fused(build: Callable[[], hl.Pipeline]) -> None:
    machine = metol.GpuMachine.preset("opencl-cpu")
    result = metol.autoschedule(build(), target="host-opencl", machine=machine, options=QUICK, verify=True)
    assert "estimated size" in result.verification
    assert any(directive.call is Call.FUSE for directive in result.schedule.directives)


def bit_counts() -> hl.Pipeline:
    """What OpenCL code of Halide lacks, before a stencil that it does not."""
    source = image(42, 26, pixel=hl.UInt(32))
    zeros, output = hl.Func("zeros"), hl.Func("output")
    zeros[X, Y] = hl.count_leading_zeros(source[X, Y] | hl.u32(1))
    output[X, Y] = zeros[X, Y] * zeros[X + 1, Y + 1] - zeros[X + 2, Y + 2]
    return finish(output)


def of_values(value: Callable[[hl.Expr], hl.Expr]) -> hl.Pipeline:
    """An operation that OpenCL code of Halide has wrong, before a stencil."""
    source = image(42, 26)
    values, output = hl.Func("zeros"), hl.Func("output")
    values[X, Y] = value(source[X, Y] - 100)
    output[X, Y] = values[X, Y] * values[X + 1, Y + 1] - values[X + 2, Y + 2]
    return finish(output)


def negations() -> hl.Pipeline:
    return of_values(lambda pixel: hl.select(~(pixel > 7), pixel, 3))


def float_remainders() -> hl.Pipeline:
    return of_values(lambda pixel: hl.i32(hl.f32(pixel) % 7.0))


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("build", [negations, float_remainders])
def test_what_opencl_has_wrong_stays_on_the_host(build: Callable[[], hl.Pipeline]) -> None:
    ExactRuns("chain", build, "host-opencl").check(
        metol.autoschedule(build(), target="host-opencl", options=QUICK).schedule
    )


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("strategy", ["greedy", "grouping"])
def test_what_opencl_lacks_stays_on_the_host(strategy: str) -> None:
    options = SearchOptions(strategy=strategy)
    result = metol.autoschedule(bit_counts(), target="host-opencl", options=options, verify=True)
    assert result.fallbacks == ()
    calls = {}
    for directive in result.schedule.directives:
        calls.setdefault(result.schedule.funcs[directive.func].name, set()).add(directive.call)
    assert calls["zeros"] == {Call.COMPUTE_ROOT}
    assert Call.GPU_BLOCKS in calls["output"]


def test_cuda_counts_bits_in_kernels() -> None:
    result = metol.autoschedule(bit_counts(), target="host-cuda", options=QUICK)
    assert not any(directive.call is Call.GPU_SINGLE_THREAD for directive in result.schedule.directives)
    assert host_funcs(metol.GpuMachine.preset("a100"), extract(bit_counts())) == frozenset()


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_results_reach_the_host_through_realize() -> None:
    output = hl.Func("output")
    output[X, Y] = X + 100 * Y
    output.set_estimates([(0, 40), (0, 24)])
    metol.autoschedule(output, target="host-opencl", options=QUICK)
    buffer = hl.Buffer(hl.Int(32), [37, 13])
    output.realize(buffer, hl.Target("host-opencl"))
    buffer.copy_to_host()
    assert all(buffer[x, y] == x + 100 * y for x in range(37) for y in range(13))


@pytest.mark.parametrize("name", ["chain", "matmul", "histogram", "in_place", "no_dimension"])
def test_every_stage_becomes_a_cuda_kernel(name: str, tmp_path: Path) -> None:
    pipeline = PIPELINES[name]()
    result = metol.autoschedule(pipeline, target="host-cuda", options=QUICK)
    kernels = [directive for directive in result.schedule.directives if directive.call in KERNEL_CALLS]
    of_any_size = [directive for directive in kernels if not directive.branch]
    at_root = {directive.func for directive in result.schedule.directives if directive.call is Call.COMPUTE_ROOT}
    refs = [result.schedule.funcs[func] for func in at_root]
    assert len(of_any_size) == sum(1 + len(ref.rvars) for ref in refs)
    code = tmp_path / "kernels.ptx"
    outputs = {hl.OutputFileType.device_code: str(code)}
    pipeline.compile_to(outputs, pipeline.infer_arguments(), name, hl.Target("host-cuda"))
    assert code.read_text(encoding="utf-8").count(".visible .entry") == len(kernels)


def test_emitted_sources_make_the_same_calls() -> None:
    result = metol.autoschedule(PIPELINES["histogram"](), target="host-cuda", options=QUICK)
    assert ".gpu_single_thread()" in result.to_python()
    assert ".gpu_blocks(" in result.to_cpp()
    assert metol.Schedule.from_json(result.schedule.to_json()) == result.schedule


def test_a_new_search_takes_the_kernels_off_again(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, other = chain(), chain()
    metol.autoschedule(pipeline, target="host-cuda", options=QUICK)
    for each in (pipeline, other):
        metol.autoschedule(each, options=QUICK, threads=2)
    pictures = []
    for each in (pipeline, other):
        capfd.readouterr()
        each.print_loop_nest()
        pictures.append(capfd.readouterr().err)
    assert pictures[0] == pictures[1]
    assert "gpu" not in pictures[0]
