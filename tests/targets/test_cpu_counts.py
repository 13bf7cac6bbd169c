"""What the features count, over random loop nests: no work is lost, and memory is gone through in the order it is."""

import math
from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import PIPELINES, X, Y, make_space

from metol import _core
from metol.pipeline import extract
from metol.targets.cpu import CpuMachine, cpu_parameters

WIDE, HIGH = 256, 16384  # floats; a row is a KiB
LEAVES = 150
# Nothing is run: wherever the tests do, tiles are to be as wide.
WIDE_VECTORS = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"


def leaves_of(space: _core.Space) -> list[_core.States]:
    leaves = space.rollout(space.root(), range(LEAVES))
    return [leaves.take([i]) for i in range(LEAVES)]


def column(space: _core.Space, state: _core.States, name: str) -> np.ndarray:
    return space.featurize(state)[0][:, list(space.feature_table()).index(name)]


@pytest.mark.parametrize("name", ["chain", "convolution", "pyramid", "boundary", "input_read_twice", "histogram"])
def test_no_point_that_is_needed_is_left_out(name: str) -> None:
    # What slides computes its first window whole; counted by its steps alone, it would seem nearly free.
    space = make_space(extract(PIPELINES[name]()))
    has_slid = False
    for leaf in leaves_of(space):
        total, least = (column(space, leaf, f"points_computed_{which}") for which in ("total", "minimum"))
        # The mean over the turns of a window is rounded to whole points.
        assert (total[total > 0] >= 0.66 * least[total > 0]).all()
        has_slid = has_slid or any(schedule.slide_dim >= 0 for schedule in leaf.describe())
    assert has_slid or name == "histogram"


def twice() -> hl.Pipeline:
    source, output = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("output")
    output[X, Y] = source[X, Y] * 2
    source.set_estimates([(0, WIDE), (0, HIGH)])
    output.set_estimates([(0, WIDE), (0, HIGH)])
    return hl.Pipeline(output)


@pytest.mark.parametrize(("name", "is_whole"), [("chain", True), ("matmul_output", False)])
def test_tasks_that_cover_more_than_there_is_run_whole_unless_they_are_guarded(name: str, is_whole: bool) -> None:
    # 24 rows in tiles of 4 for four tasks: two tiles each, and eight run where six are needed.
    dag = extract(PIPELINES[name]())
    parameters = cpu_parameters(CpuMachine.default(threads=16), dag)
    options = _core.SpaceOptions()
    options.allow_inline = options.allow_compute_at = False
    space = _core.Space(dag, parameters, options, 1)
    wasted = 0
    for leaf in leaves_of(space):
        iterations = column(space, leaf, "loop_iterations")
        unrolled = column(space, leaf, "unrolled_loop_extent")
        for schedule in leaf.describe():
            func = dag.funcs[schedule.func]
            region = [side.extent for side in func.root_region]
            for stage, nest in zip(func.stages, schedule.stages, strict=True):
                loops = [loop.pure_dim for loop in dag.stages[stage].loops]
                is_rolled = unrolled[stage] == 1 and math.prod(nest.levels[-1]) > nest.vector_width
                if is_rolled or any(dim < 0 for dim in loops):
                    continue
                needed = math.prod(-(-region[dim] // nest.levels[-1][i]) for i, dim in enumerate(loops))
                run = math.prod(math.prod(level) for level in nest.levels[:-1])
                assert iterations[stage] == (run if is_whole else needed)
                wasted += run > needed
    assert wasted


def transposed() -> hl.Pipeline:
    source, output = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("output")
    output[X, Y] = source[Y, X] * 2
    source.set_estimates([(0, HIGH // 4), (0, HIGH // 4)])
    output.set_estimates([(0, HIGH // 4), (0, HIGH // 4)])
    return hl.Pipeline(output)


def traffic(build: Callable[[], hl.Pipeline]) -> list[tuple[int, dict[str, float]]]:
    """Of random loop nests: the widest run along x that stays in the second cache, and the bytes to and from memory."""
    dag = extract(build())
    parameters = cpu_parameters(CpuMachine.default(WIDE_VECTORS, threads=1), dag)
    parameters.cores = 1
    parameters.l2_bytes, parameters.l3_bytes = 1 << 20, 4 << 20
    space = _core.Space(dag, parameters, _core.SpaceOptions(), 1)
    names = [f"{kind}bytes_{way}_l3" for kind in ("", "tiled_") for way in ("into", "written_beyond")]
    found = []
    for leaf in leaves_of(space):
        (nest,) = next(schedule for schedule in leaf.describe() if schedule.func == dag.outputs[0]).stages
        sides = np.cumprod(np.array([level[:2] for level in nest.levels])[::-1], axis=0)
        inside = [side for side in sides if 2 * 4 * side.prod() <= parameters.l2_bytes]
        found.append((int(inside[-1][0]), {name: float(column(space, leaf, name).sum()) for name in names}))
    return found


def test_runs_are_as_long_as_the_prefetcher_follows_them() -> None:
    # 32 runs at once, each without end from a page on, or where rows go on to the next; a tile with more rows around it
    # is left each time.
    dag = extract(twice())
    parameters = cpu_parameters(CpuMachine.default(WIDE_VECTORS, threads=1), dag)
    parameters.cores = 1
    parameters.l2_bytes, parameters.l3_bytes = 1 << 20, 4 << 20
    space = _core.Space(dag, parameters, _core.SpaceOptions(), 1)
    pairs = (("segments_into_l2", "bytes_into_l2"), ("segments_written_beyond_l3", "bytes_written_beyond_l3"))
    seen = set()
    for leaf in leaves_of(space):
        (nest,) = next(schedule for schedule in leaf.describe() if schedule.func == dag.outputs[0]).stages
        (columns_around, rows_around), (width, rows) = (level[:2] for level in nest.levels[-2:])
        run = max(64, 4 * width)
        for segments, of in pairs:
            found, total = (float(column(space, leaf, name).sum()) for name in (segments, of))
            if width >= WIDE:
                assert found == 0
                seen.add("long")
            elif columns_around == 1 and rows * rows_around > 32:
                assert found == pytest.approx(total / run * (1 - run / 4096), rel=1e-3)
                seen.add("many")
    assert seen == {"long", "many"}


def test_rows_read_and_written_whole_are_not_tiled() -> None:
    found = traffic(twice)
    assert {run >= WIDE for run, _ in found} == {True, False}
    for run, seen in found:
        assert seen["bytes_into_l3"] > 0 < seen["bytes_written_beyond_l3"]
        if run >= WIDE:
            assert seen["tiled_bytes_into_l3"] == seen["tiled_bytes_written_beyond_l3"] == 0


def test_narrow_tiles_are_tiled_in_all_they_read_and_write() -> None:
    narrow = [seen for run, seen in traffic(twice) if run <= WIDE // 4]
    assert any(seen["tiled_bytes_into_l3"] == seen["bytes_into_l3"] for seen in narrow)
    assert any(seen["tiled_bytes_written_beyond_l3"] == seen["bytes_written_beyond_l3"] for seen in narrow)


def test_a_transposition_is_tiled_on_one_side_at_least() -> None:
    for _, seen in traffic(transposed):
        assert seen["tiled_bytes_into_l3"] + seen["tiled_bytes_written_beyond_l3"] > 0
