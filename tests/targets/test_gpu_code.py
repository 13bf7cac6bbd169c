"""What compilers make of kernels: loops of PTX, read as text."""

from pathlib import Path

import halide as hl
import pytest
from ptx_loops import loops_of
from slow_cases import slow_but
from small_pipelines import PIPELINES

import metol
import metol_apps
from metol.lower import Call, Tail, Var
from metol.options import SearchOptions

BATCH = SearchOptions(strategy="batch")


@pytest.mark.slow
def test_sums_of_several_points_stay_in_registers(tmp_path: Path) -> None:
    pipeline = metol_apps.get("matmul").build()
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", options=BATCH, threads=2)
    points = [
        d.args[3] for d in result.schedule.directives if d.call is Call.SPLIT and str(d.args[2].name).endswith("point")
    ]
    assert max(points) > 1
    code = tmp_path / "kernels.ptx"
    outputs = {hl.OutputFileType.device_code: str(code)}
    pipeline.compile_to(outputs, pipeline.infer_arguments(), "matmul", hl.Target(result.schedule.target))
    of_large_outputs = code.read_text(encoding="utf-8").split(".visible .entry")[1]
    sums = [body for body in loops_of(of_large_outputs) if "fma" in body]
    assert sums
    for body in sums:
        assert body.count("fma.rn.f32") > body.count("ld.") / 2
        assert "st." not in body


@pytest.mark.slow
def test_outputs_have_a_kernel_without_guards() -> None:
    pipeline = metol_apps.get("harris").build()
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", options=BATCH, threads=2)
    output = len(result.schedule.funcs) - 1
    tails = {
        branch: {
            d.args[4]
            for d in result.schedule.directives
            if d.func == output and d.branch == branch and d.call is Call.SPLIT
        }
        for branch in ((), (0,))
    }
    assert Tail.SHIFT_INWARDS not in tails[()]
    assert Tail.GUARD_WITH_IF in tails[()]
    assert Tail.GUARD_WITH_IF not in tails[0,]
    assert Tail.SHIFT_INWARDS in tails[0,]
    (condition,) = (d for d in result.schedule.directives if d.call is Call.SPECIALIZE)
    blocks = {d.args[3] for d in result.schedule.directives if d.branch == (0,) and Tail.SHIFT_INWARDS in d.args}
    assert set(condition.args[1::2]) == blocks


@pytest.mark.slow
def test_outputs_that_may_be_their_input_compute_no_point_twice() -> None:
    x = hl.Var("x")
    source, output = hl.ImageParam(hl.Float(32), 1), hl.Func("output")
    output[x] = source[x] * 2
    source.set_estimates([(0, 100_000)])
    output.set_estimates([(0, 100_000)])
    options = SearchOptions(strategy="greedy", may_alias=True)
    result = metol.autoschedule(output, target="cuda", gpu="a100", options=options, threads=2)
    into_blocks = [d.args for d in result.schedule.directives if d.call is Call.SPLIT and Var("x_block") in d.args]
    assert [args[4] for args in into_blocks] == [Tail.GUARD_WITH_IF]
    assert not any(d.call is Call.SPECIALIZE for d in result.schedule.directives)
    assert any(d.call is Call.GPU_BLOCKS and Var("x_block") in d.args for d in result.schedule.directives)


def test_outputs_of_a_promised_size_have_one_kernel() -> None:
    pipeline = metol_apps.get("harris").build()
    options = SearchOptions(strategy="batch", fixed_sizes=True)
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", options=options, threads=2)
    assert result.schedule.has_fixed_sizes
    assert not any(d.branch or d.call is Call.SPECIALIZE for d in result.schedule.directives)
    output = len(result.schedule.funcs) - 1
    tails = {d.args[4] for d in result.schedule.directives if d.func == output and d.call is Call.SPLIT}
    assert tails <= {Tail.ROUND_UP, Tail.SHIFT_INWARDS}


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", slow_but(["in_place"], ["matmul_output", "convolution", "in_place"]))
def test_outputs_of_a_promised_size_are_right(name: str) -> None:
    options = SearchOptions(strategy="greedy", fixed_sizes=True)
    result = metol.autoschedule(PIPELINES[name](), target="host-opencl", options=options, verify=True)
    assert result.schedule.has_fixed_sizes
    assert "estimated size" in result.verification
