"""Stages that a C function computes: before, between and after Funcs."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import halide as hl
import pytest
from verified_runs import check, image

import metol
from metol.errors import MetolError, MissingEstimateError
from metol.lower import Call
from metol.options import SearchOptions
from metol.pipeline import extract

X, Y = hl.Var("x"), hl.Var("y")

# Every function answers Halide's question about what it needs, where a buffer has no memory yet.
SOURCE = r"""
#include "HalideRuntime.h"

static int *at(halide_buffer_t *b, int x, int y) {
    int *base = (int *)b->host;
    int64_t place = (int64_t)(x - b->dim[0].min) * b->dim[0].stride;
    return base + place + (b->dimensions > 1 ? (int64_t)(y - b->dim[1].min) * b->dim[1].stride : 0);
}

static int is_query(halide_buffer_t *b) { return !b->host && !b->device; }

int metol_test_twice_right(halide_buffer_t *in, int factor, halide_buffer_t *out) {
    if (is_query(in) || is_query(out)) {
        if (is_query(in)) {
            for (int d = 0; d < 2; d++) {
                in->dim[d].min = out->dim[d].min;
                in->dim[d].extent = out->dim[d].extent + (d == 0);
            }
        }
        return 0;
    }
    for (int y = out->dim[1].min; y < out->dim[1].min + out->dim[1].extent; y++) {
        for (int x = out->dim[0].min; x < out->dim[0].min + out->dim[0].extent; x++) {
            *at(out, x, y) = factor * *at(in, x, y) + *at(in, x + 1, y);
        }
    }
    return 0;
}

int metol_test_row_sums(halide_buffer_t *in, halide_buffer_t *out) {
    if (is_query(in) || is_query(out)) {
        if (is_query(in)) {
            in->dim[0].min = 0;
            in->dim[0].extent = 50;
            in->dim[1].min = out->dim[0].min;
            in->dim[1].extent = out->dim[0].extent;
        }
        return 0;
    }
    for (int y = out->dim[0].min; y < out->dim[0].min + out->dim[0].extent; y++) {
        *at(out, y, 0) = 0;
        for (int x = 0; x < 50; x++) {
            *at(out, y, 0) += *at(in, x, y);
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module", autouse=True)
def functions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile the C functions, and make them known to the whole process, where Halide looks them up."""
    folder: Path = tmp_path_factory.mktemp("extern")
    (folder / "stages.c").write_text(SOURCE)
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed"
    command = [compiler, "-shared", "-fPIC", f"-I{hl.install_dir()}/include", "stages.c", "-o", "stages.so"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    ctypes.CDLL(str(folder / "stages.so"), mode=ctypes.RTLD_GLOBAL)


def extern_between() -> hl.Pipeline:
    """A stencil before, the C function, a stencil and a point after."""
    source = image(hl.Int(32), "source", 100, 60)
    before, external, after, output = (hl.Func(name) for name in ("before", "external", "after", "output"))
    before[X, Y] = source[X, Y] + source[X + 1, Y]
    external.define_extern("metol_test_twice_right", [before, hl.Expr(3)], hl.Int(32), [X, Y])
    after[X, Y] = external[X, Y] - external[X, Y + 1]
    output[X, Y] = after[X, Y] * 2 + after[X + 1, Y]
    output.set_estimates([(0, 80), (0, 50)])
    return hl.Pipeline(output)


def test_extern_between_funcs() -> None:
    result = check(extern_between, [(80, 50)], [(1, 1)], [(37, 5)])
    calls = {d.func: [] for d in result.schedule.directives}
    for directive in result.schedule.directives:
        calls[directive.func].append(directive.call)
    by_name = {ref.name: calls.get(ref.index) for ref in result.schedule.funcs}
    assert by_name["external"] == [Call.COMPUTE_ROOT]
    assert by_name["before"] is not None
    assert Call.COMPUTE_ROOT in by_name["before"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_extern_and_what_it_reads_stay_on_the_host() -> None:
    """Halide 21 does not copy what the function reads from a GPU."""
    grouping = SearchOptions(strategy="grouping")
    result = check(extern_between, [(80, 50)], [(1, 1)], [(37, 5)], options=grouping, target="opencl")
    assert result.origin == "search"
    kernels = {result.schedule.funcs[d.func].name for d in result.schedule.directives if d.call is Call.GPU_BLOCKS}
    assert "output" in kernels
    assert not {"before", "external"} & kernels


def extern_at_both_ends() -> hl.Pipeline:
    """It reads the input itself, and another is the output."""
    source = image(hl.Int(32), "source", 100, 60)
    first, middle, last = hl.Func("first"), hl.Func("middle"), hl.Func("last")
    first.define_extern("metol_test_twice_right", [source, hl.Expr(2)], hl.Int(32), [X, Y])
    middle[X, Y] = first[X, Y] + first[X, Y + 1]
    last.define_extern("metol_test_twice_right", [middle, hl.Expr(5)], hl.Int(32), [X, Y])
    last.set_estimates([(0, 80), (0, 50)])
    return hl.Pipeline(last)


def test_extern_first_and_last() -> None:
    check(extern_at_both_ends, [(80, 50)], [(1, 1)], [(37, 5)])


def row_sums(estimate: bool) -> hl.Pipeline:
    """The C function reads another number of dimensions than it writes."""
    source = image(hl.Int(32), "source", 100, 60)
    before, sums, output = hl.Func("before"), hl.Func("sums"), hl.Func("output")
    before[X, Y] = source[X, Y] * source[X, Y]
    sums.define_extern("metol_test_row_sums", [before], hl.Int(32), [Y])
    output[X, Y] = sums[Y] * X
    if estimate:
        before.set_estimates([(0, 50), (0, 60)])
    output.set_estimates([(0, 80), (0, 60)])
    return hl.Pipeline(output)


def test_extern_of_another_shape() -> None:
    check(lambda: row_sums(True), [(80, 60)], [(1, 1)], [(37, 5)])


def test_extern_of_another_shape_needs_an_estimate() -> None:
    with pytest.raises(MissingEstimateError, match=r"`before`.*external function `metol_test_row_sums`.*set_estimate"):
        extract(row_sums(False))
    dag = extract(row_sums(False), {"before": [(0, 50), (0, 60)]})
    before = next(func for func in dag.funcs if func.name.startswith("before"))
    assert [i.extent for i in before.root_region] == [50, 60]


def extern_output_that_is_read() -> hl.Pipeline:
    """What the C function computes is an output, and read by another."""
    source = image(hl.Int(32), "source", 100, 60)
    external, output = hl.Func("external"), hl.Func("output")
    external.define_extern("metol_test_twice_right", [source, hl.Expr(3)], hl.Int(32), [X, Y])
    output[X, Y] = external[X, Y] * 2 + external[X + 1, Y]
    external.set_estimates([(0, 81), (0, 50)])
    output.set_estimates([(0, 80), (0, 50)])
    return hl.Pipeline([external, output])


def test_what_reads_an_extern_output_stays_on_the_host() -> None:
    """Halide 21 does not copy what the function computes to a GPU where it is an output."""
    result = metol.autoschedule(extern_output_that_is_read(), target="host-cuda", gpu="a100", verify=False)
    assert not any(directive.call is Call.GPU_BLOCKS for directive in result.schedule.directives)


def test_a_child_finds_the_functions_too() -> None:
    """The pipeline goes there as a file, which has the names of functions alone."""
    result = metol.autoschedule(extern_between(), options=SearchOptions(strategy="greedy"), verify=True, threads=1)
    assert result.origin == "search"
    assert result.is_compared


def test_a_function_that_nobody_has_is_told_with_what_to_do() -> None:
    source = image(hl.Int(32), "source", 100, 60)
    external = hl.Func("external")
    external.define_extern("metol_test_nowhere", [source], hl.Int(32), [X, Y])
    external.set_estimates([(0, 80), (0, 50)])
    with pytest.raises(MetolError, match=r"Nothing here defines `metol_test_nowhere`: load the library"):
        metol.autoschedule(external, options=SearchOptions(strategy="greedy"), verify=True, threads=1)
