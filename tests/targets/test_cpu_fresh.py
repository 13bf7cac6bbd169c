"""Which memory at root comes fresh from the system: what Halide allocates for a Func, and what the model reckons."""

from pathlib import Path

import halide as hl
import pytest
from allocated import allocations
from small_pipelines import X, Y, finish, image, schedule_of

from metol import _core
from metol.pipeline import PipelineDag, extract
from metol.targets.cpu import CpuMachine, cpu_parameters

# What is rounded up hangs on the vectors: of 32 bytes here, whatever this machine has.
TARGET = "x86-64-linux-avx-avx2-f16c-fma-sse41"
WIDE, HIGH = 500, 375
FIRST_BYTES = 4 * WIDE * (HIGH + 2)
# Of the size of a block that may be fresh, what it is short of those that are.
ROUNDING = 0.035


def stencil(*, is_tuple: bool = False) -> hl.Pipeline:
    """A Func of 750 KB, or of two values of as many bytes, below a stencil."""
    source = image(WIDE, HIGH + 2)
    first, output = hl.Func("first"), hl.Func("output")
    if is_tuple:
        first[X, Y] = (source[X, Y] + X, source[X, Y] * Y)
        output[X, Y] = first[X, Y][0] - first[X, Y + 2][1]
    else:
        first[X, Y] = source[X, Y] + X
        output[X, Y] = first[X, Y] - first[X, Y + 2]
    return finish(output, sizes=(WIDE, HIGH))


def everything_at_root(dag: PipelineDag, threshold_bytes: float, seed: int = 0) -> tuple[_core.Space, _core.States]:
    """A loop nest for a machine where blocks of so many bytes are fresh."""
    parameters = cpu_parameters(CpuMachine.default(TARGET, threads=2), dag)
    parameters.fault_threshold_bytes = int(threshold_bytes)
    options = _core.SpaceOptions()
    options.allow_inline = options.allow_compute_at = False
    space = _core.Space(dag, parameters, options, 1)
    return space, space.rollout(space.root(), [seed])


def share_faulted(threshold_bytes: float, *, is_tuple: bool = False) -> float:
    """Of the bytes of `first`, those that are fresh at every run."""
    dag = extract(stencil(is_tuple=is_tuple))
    space, state = everything_at_root(dag, threshold_bytes)
    (rows,) = space.featurize(state)
    first = next(func for func in dag.funcs if func.name.startswith("first"))
    row = dict(zip(space.feature_table(), map(float, rows[first.stages[0]]), strict=True))
    assert row["bytes_at_root"] == FIRST_BYTES * (2 if is_tuple else 1)
    return row["bytes_faulted"] / row["bytes_at_root"]


@pytest.mark.parametrize("is_tuple", [False, True])
def test_block_of_the_threshold_is_fresh_and_one_well_below_it_is_not(is_tuple: bool) -> None:
    assert share_faulted(FIRST_BYTES, is_tuple=is_tuple) == 1
    assert share_faulted(FIRST_BYTES / 2, is_tuple=is_tuple) == 1
    assert share_faulted(FIRST_BYTES * (1 + ROUNDING) + 1, is_tuple=is_tuple) == pytest.approx(0, abs=1e-4)
    assert share_faulted(FIRST_BYTES * 1.5, is_tuple=is_tuple) == 0


def test_block_that_rounding_may_lift_over_the_threshold_counts_for_as_much_as_it_is_near() -> None:
    assert share_faulted(FIRST_BYTES * (1 + ROUNDING / 2)) == pytest.approx(0.5, abs=1e-3)


def test_halide_rounds_what_is_read_up_and_not_by_more(tmp_path: Path) -> None:
    grown = []
    for seed in range(40):
        dag = extract(stencil())
        _, state = everything_at_root(dag, FIRST_BYTES, seed)
        schedule, file = schedule_of(stencil, dag, state), tmp_path / "lowered.stmt"
        allocated = allocations(stencil(), schedule, file, sizes=(WIDE, HIGH), target=TARGET)
        if "first" in allocated:
            grown.append(allocated["first"] / FIRST_BYTES)
    assert len(grown) > 20
    assert min(grown) >= 1
    assert 1 < max(grown) <= 1 + ROUNDING, sorted(grown)
