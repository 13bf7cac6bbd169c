"""Loop nests that leave behind more memory than glibc keeps: another is found."""

import math
from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, some_machine

from metol import planner
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.planner import Planner
from metol.returned_memory import charging_machine, exceeds_what_is_kept, gives_memory_back

EVERYDAY = Path(__file__).parents[1] / "examples" / "everyday.py"
MB = 1 << 20
MACHINE = some_machine()
# A page takes 2.8 us, as on a virtual machine that was measured.
SLOW_PAGES = replace(
    MACHINE,
    memory=replace(
        MACHINE.memory,
        page_fault_seconds_per_byte=2.8e-6 / 4096,
        page_fault_seconds_per_byte_all_threads=2.8e-6 / 4096,
    ),
)


def smoothed() -> hl.Pipeline:
    """Two windows of a picture, and two of what comes of them, each as large as the picture."""
    return PipelineSource.parse(f"{EVERYDAY}:guided_filter").build()


def planner_of(pipeline: hl.Pipeline) -> Planner:
    return Planner(
        pipeline,
        SearchOptions(budget_seconds=None, restarts=False, anneal=False),
        target=SOME_TARGET,
        machine=SLOW_PAGES,
    )


@pytest.mark.slow
def test_what_the_system_takes_back_is_charged_where_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planner_of(smoothed())
    monkeypatch.setattr(planner, "_CHARGED_FACTOR", math.inf)
    uncharged = plan.search()
    monkeypatch.undo()
    charged = plan.search()
    assert uncharged.result is not None
    assert charged.result is not None
    assert gives_memory_back(uncharged.form, uncharged.result.state)
    assert charged.count > uncharged.count
    # By the price of new pages the one is better, and by what the search goes by otherwise the other.
    dear = Planner(smoothed(), SearchOptions(), target=SOME_TARGET, machine=charging_machine(SLOW_PAGES))
    costs = []
    for found in (uncharged, charged):
        form, state = dear.state_of(plan.nest_of(found.form, found.result.state))
        costs.append(float(form.space.cost(state, dear.model)[0]))
    assert costs[1] < 0.8 * costs[0]
    assert charged.result.cost_seconds == pytest.approx(costs[1])
    assert next(charged.candidates).origin == "search"


@pytest.mark.parametrize(
    ("blocks", "exceeds"),
    [
        ((), False),
        ((4 * MB,), False),
        ((4 * MB, 4 * MB), False),
        ((4 * MB, 4 * MB, 4 * MB), True),
        ((8 * MB, 4 * MB, 4 * MB), False),
        ((60 * MB, 8 * MB, 8 * MB), False),  # mapped, and new each time whatever the others are
        ((1000.0,) * 5000, False),
    ],
)
def test_glibc_keeps_twice_its_largest_block(blocks: tuple[float, ...], exceeds: bool) -> None:
    assert exceeds_what_is_kept(blocks) == exceeds
