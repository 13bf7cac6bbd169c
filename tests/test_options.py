"""What a user can choose about a search is checked at once."""

from dataclasses import replace
from typing import Any

import pytest
from small_pipelines import pyramid

from metol import autoschedule
from metol.errors import SearchError
from metol.lower import Call
from metol.options import STRATEGIES, SearchOptions
from metol.targets.gpu import GpuMachine


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"strategy": "oracle"}, "no search strategy `oracle`; there are beam, greedy, random"),
        ({"beam_width": 0}, "width of at least 1, not 0"),
        ({"passes": 0}, "at least 1 pass"),
        ({"dropout": 1.0}, "below 1"),
        ({"budget_seconds": 0.0}, "more than 0 seconds"),
        ({"budget_seconds": -1.0}, "more than 0 seconds"),
        ({"budget_seconds": float("nan")}, "more than 0 seconds"),
        ({"seed": -1}, "0 or more"),
    ],
)
def test_options_that_make_no_sense_raise(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(SearchError, match=message):
        SearchOptions(**bad)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("refine", [True, False])
def test_every_strategy_can_be_made(strategy: str, *, refine: bool) -> None:
    options = SearchOptions(strategy=strategy, refine=refine, budget_seconds=None)
    machine = GpuMachine.preset("a100") if strategy == "grouping" else None
    assert hasattr(options.make(machine), "search")


@pytest.mark.parametrize(
    ("machine", "strategy", "width", "passes"),
    [
        (None, "beam", 16, 3),
        (GpuMachine.preset("a100"), "beam", 32, 5),
        (None, "batch", 32, 5),
        (None, "mcts", 32, None),
    ],
)
def test_beams_are_as_wide_as_suits_the_strategy_and_the_machine(
    machine: GpuMachine | None, strategy: str, width: int, passes: int | None
) -> None:
    told = SearchOptions(strategy=strategy, beam_width=width, passes=passes)
    assert SearchOptions(strategy=strategy).make(machine) == told.make(machine)
    assert SearchOptions(strategy=strategy).make(machine) != replace(told, beam_width=8).make(machine)


GREEDY = SearchOptions(strategy="greedy", refine=False)
SWITCHES = ("sliding", "reductions", "vector_widths", "storage", "nested_parallel", "fuse", "iterations")


@pytest.mark.parametrize("name", SWITCHES)
def test_each_kind_of_decision_can_be_switched_off(name: str) -> None:
    assert getattr(SearchOptions().space, f"allow_{name}")
    space = SearchOptions(**{name: False}).space
    assert [other for other in SWITCHES if not getattr(space, f"allow_{other}")] == [name]


@pytest.mark.parametrize("name", ["align_storage", "prefetch"])
def test_what_is_off_by_default_can_be_switched_on(name: str) -> None:
    assert not getattr(SearchOptions().space, f"allow_{name}")
    assert getattr(SearchOptions(**{name: True}).space, f"allow_{name}")


def test_what_is_switched_off_is_not_in_the_schedule() -> None:
    found = [
        {directive.call for directive in autoschedule(pyramid(), threads=2, options=options).schedule.directives}
        for options in (GREEDY, replace(GREEDY, storage=False))
    ]
    assert Call.STORE_IN in found[0]
    assert Call.STORE_IN not in found[1]
