"""Schedules for CUDA, run on the emulated GPU: the code that a GPU would run gives what plain schedules give."""

import halide as hl
import pytest
from slow_cases import half_of, marks_of, slow_but
from small_pipelines import EMULATED_TARGET, PIPELINES, ExactRuns, gpu_space, schedule_with

import metol
from metol.lower import gpu_directives
from metol.options import SearchOptions

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


def test_the_emulated_gpu_adds_nothing_to_a_target() -> None:
    assert str(hl.Target("x86-64-linux-cuda")) == "x86-64-linux-cuda"
    assert "capability" not in str(hl.Target("host-cuda"))
