"""Schedules for CUDA, run on the emulated GPU: the code that a GPU would run gives what plain schedules give."""

import halide as hl
import pytest
from slow_cases import half_of, marks_of, slow_but
from small_pipelines import EMULATED_TARGET, PIPELINES, ExactRuns, X, finish, gpu_space, image, schedule_with

import metol
from metol import _core
from metol.lower import Call, gpu_directives
from metol.options import SearchOptions

AT = _core.Placement.AT
QUICK = SearchOptions(strategy="greedy")
# The other pipelines run with the slow tests. In the gate half are searched here, the other half on OpenCL
# (tests/targets/test_gpu_runs.py).
QUICK_NAMES = ("chain", "tuples", "scan", "histogram", "two_outputs")
pytestmark = pytest.mark.usefixtures("emulated_gpu")


@pytest.mark.parametrize("name", slow_but(QUICK_NAMES, PIPELINES, further=half_of(PIPELINES, QUICK_NAMES)))
def test_schedules_for_cuda_keep_the_result(name: str) -> None:
    runs = ExactRuns(name, target=EMULATED_TARGET)
    runs.check(metol.autoschedule(PIPELINES[name](), target=EMULATED_TARGET, gpu="a100", options=QUICK).schedule)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [(name, (1,)) for name in QUICK_NAMES[:2]]
    + [pytest.param(name, (2,), marks=marks_of(name, half_of(PIPELINES, ()))) for name in PIPELINES],
)
def test_random_loop_nests_keep_the_result(name: str, seeds: tuple[int, ...]) -> None:
    dag, space = gpu_space(PIPELINES[name])
    runs = ExactRuns(name, target=EMULATED_TARGET)
    for seed in seeds:
        random = space.rollout(space.root(), [seed])
        runs.check(schedule_with(PIPELINES[name], gpu_directives(dag, random.describe())))


def windows_of_all_widths() -> hl.Pipeline:
    """A block needs an odd number of bytes, and of values of two bytes, beside those of four."""
    source, output = image(140), hl.Func("output")
    total = hl.i32(0)
    for pixel, points in ((hl.UInt(8), 6), (hl.UInt(16), 4), (hl.Int(32), 3)):
        values = hl.Func(f"values{pixel.bits()}")
        values[X] = hl.cast(pixel, source[X] * 3)
        total += hl.i32(values[X]) - hl.i32(values[X + points - 1])
    output[X] = total
    return finish(output, sizes=(130,))


def test_shared_memory_has_room_for_values_of_all_widths() -> None:
    dag, space = gpu_space(windows_of_all_widths)
    runs = ExactRuns("one_dimension", windows_of_all_widths, EMULATED_TARGET)
    leaves = space.rollout(space.root(), range(400))
    nests = (leaves.take([place]).describe() for place in range(len(leaves)))
    together = [nest for nest in nests if [one.compute.level for one in nest if one.placement == AT] == [0, 0, 0]]
    assert len(together) >= 3
    for nest in together[:3]:
        runs.check(schedule_with(windows_of_all_widths, gpu_directives(dag, nest)))


def test_only_narrow_rows_are_padded_and_only_beside_wide_ones() -> None:
    dag, space = gpu_space(windows_of_all_widths)
    leaves = space.rollout(space.root(), range(400))
    seen = set()
    for place in range(len(leaves)):
        nest = leaves.take([place]).describe()
        widths = [dag.funcs[one.func].value_bytes[0] for one in nest if one.placement == AT and one.compute.level == 0]
        directives = gpu_directives(dag, nest)
        padded = {dag.funcs[d.func].value_bytes[0]: d.args[1] for d in directives if d.call is Call.ALIGN_STORAGE}
        assert padded == {width: max(widths) // width for width in widths if width < max(widths)}
        seen.add(tuple(sorted(padded)))
    assert seen == {(), (1,), (2,), (1, 2)}


def test_single_narrow_value_is_in_no_block_beside_wide_ones() -> None:
    def levels(pixel: hl.Type) -> set[int]:
        value, output, r = hl.Func("value"), hl.Func("output"), hl.RDom([(0, 4)])
        value[()] = hl.cast(pixel, 0)
        value[()] += hl.cast(pixel, image(4)[r])
        output[X] = X + hl.i32(value[()])
        _, space = gpu_space(lambda: finish(output, sizes=(130,)))
        leaves = space.rollout(space.root(), range(100))
        nests = (leaves.take([place]).describe() for place in range(len(leaves)))
        return {one.compute.level for nest in nests for one in nest if one.placement == AT}

    assert 0 in levels(hl.Int(32))
    assert 0 not in levels(hl.UInt(16))


def test_the_emulated_gpu_adds_nothing_to_a_target() -> None:
    assert str(hl.Target("x86-64-linux-cuda")) == "x86-64-linux-cuda"
    assert "capability" not in str(hl.Target("host-cuda"))


@pytest.mark.parametrize(("pixel", "scale"), [(hl.Float(32), 1e6), (hl.Float(16), 1e3)])
def test_angles_of_many_turns_are_brought_back_to_one(pixel: hl.Type, scale: float) -> None:
    """Beyond some 10^5 CUDA multiplies by so many digits of 2 / pi, in integers of several registers."""
    x, y = hl.Var("x"), hl.Var("y")
    source, output = hl.ImageParam(pixel, 2, "source"), hl.Func("output")
    source.set_estimates([(0, 64), (0, 16)])
    output[x, y] = hl.sin(source[x, y] * hl.cast(pixel, scale)) + hl.cos(source[x, y] * hl.cast(pixel, -scale))
    output.set_estimates([(0, 64), (0, 16)])
    result = metol.autoschedule(output, target="cuda", gpu="a100", threads=2, options=QUICK, verify=True)
    assert result.is_compared, result.verification
