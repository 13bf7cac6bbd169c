"""What Halide offers for GPUs and the space leaves out, and why: what becomes of it on the emulated GPU.

Where one of these tests fails, Halide has learned something: look at docs/architecture.md, and at the space.
"""

import re
from pathlib import Path

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, Y

from metol.emulated_cuda import last_fault, load_emulated_cuda

TARGET = hl.Target("host-cuda-cuda_capability_80")
ROWS, COLUMNS, LANES = 8, 200, 32


@pytest.fixture(scope="module", autouse=True)
def _emulated_gpu() -> None:
    load_emulated_cuda()


def sums_of_rows(lanes: int) -> np.ndarray:
    """Sum rows, each by a warp whose lanes hold partial results, which are halved until there are so many."""
    y, block, row, lane = (hl.Var(name) for name in ("y", "block", "row", "lane"))
    source, total = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("total")
    over = hl.RDom([(0, COLUMNS)], "over")
    total[y] = 0
    total[y] += source[over.x, y]
    outer, kept = hl.RVar("outer"), hl.RVar("kept")
    total.update().split(over.x, outer, kept, LANES, hl.TailStrategy.GuardWithIf)
    partials = [total.update().rfactor(kept, lane)]
    count = LANES
    while count > lanes:
        count //= 2
        halves, rest = hl.RVar(f"halves_{count}"), hl.RVar(f"rest_{count}")
        total.update().split(kept, halves, rest, count)
        partials.append(total.update().rfactor(rest, lane))
        kept = rest
    guard = hl.TailStrategy.GuardWithIf
    total.split(y, block, row, 4, guard).gpu_blocks(block).gpu_threads(row)
    total.update().split(y, block, row, 4, guard).reorder(kept, row, block).gpu_blocks(block).gpu_threads(row)
    for partial in partials:
        partial.compute_at(total, row).gpu_lanes(lane)
    partials[0].update().reorder(outer, lane).gpu_lanes(lane)
    for partial in partials[1:]:
        partial.update().gpu_lanes(lane)
    compiled = total.compile_to_callable([source], TARGET)
    sums = hl.Buffer(hl.Int(32), [ROWS])
    compiled(hl.Buffer(np.ones((ROWS, COLUMNS), np.int32)), sums)
    sums.copy_to_host()
    return np.array(sums)


def test_all_lanes_of_a_warp_add_to_the_sum_that_they_share() -> None:
    assert list(sums_of_rows(LANES)) == [LANES * COLUMNS] * ROWS


def test_lanes_that_halve_partial_results_exchange_values_with_absent_ones() -> None:
    with pytest.raises(hl.HalideError, match="cuLaunchKernel failed"):
        sums_of_rows(1)
    assert "lanes exchange values with one that is elsewhere" in last_fault()


def test_halide_makes_hardly_a_vector_of_rows_that_several_read(tmp_path: Path) -> None:
    block, row_block, thread, row, point = (hl.Var(name) for name in ("block", "row_block", "thread", "row", "point"))
    source = hl.ImageParam(hl.Float(32), 2, "source")
    fine, half, coarse, up, output = (hl.Func(name) for name in ("fine", "half", "coarse", "up", "output"))
    fine[X, Y] = hl.sqrt(source[X, Y])
    half[X, Y] = fine[2 * X, Y] + fine[2 * X + 1, Y]
    coarse[X, Y] = half[X, 2 * Y] + half[X, 2 * Y + 1]
    up[X, Y] = coarse[X / 2, Y / 2] + fine[X, Y]
    output[X, Y] = up[X, Y]
    for func in (fine, half, coarse, up):
        func.compute_root().split(X, block, thread, 128, hl.TailStrategy.RoundUp).split(thread, thread, point, 4)
        func.split(Y, row_block, row, 4, hl.TailStrategy.RoundUp).reorder(point, thread, row, block, row_block)
        func.vectorize(point).gpu_blocks(block, row_block).gpu_threads(thread, row)
    output.gpu_tile(X, Y, block, row_block, thread, row, 32, 8)
    file = tmp_path / "pyramid.ptx"
    output.compile_to({hl.OutputFileType.device_code: str(file)}, [source], "pyramid", TARGET)
    *vectorized, _ = file.read_text(encoding="utf-8").split(".visible .entry")[1:]
    accesses = [found for code in vectorized for found in re.findall(r"(?:ld|st)\.global[.\w]*", code)]
    assert len(accesses) > 30
    assert sum("v4" in access for access in accesses) <= 1


def test_vectors_of_the_callers_memory_are_taken_for_aligned() -> None:
    block, thread, point = hl.Var("block"), hl.Var("thread"), hl.Var("point")
    before, output = hl.Func("before"), hl.Func("output")
    before[X] = hl.f32(X) * 3
    output[X] = before[X] + 1
    before.compute_root().gpu_tile(X, block, thread, 32)
    output.split(X, block, thread, 128, hl.TailStrategy.GuardWithIf).split(thread, thread, point, 4)
    output.vectorize(point).gpu_blocks(block).gpu_threads(thread)
    compiled = output.compile_to_callable([], TARGET)
    whole = hl.Buffer(hl.Float(32), [512])
    compiled(whole)
    assert whole.has_device_allocation()
    part = whole.cropped(0, 1, 256)
    with pytest.raises(hl.HalideError, match="CUDA_ERROR_MISALIGNED_ADDRESS"):
        compiled(part)
    assert "no multiple of 16" in last_fault()
