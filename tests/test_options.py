"""What a user can choose about a search is checked at once."""

from typing import Any

import pytest
from small_pipelines import boundary, chain, pyramid

from metol import autoschedule
from metol.errors import SearchError
from metol.lower import Call
from metol.options import STRATEGIES, SearchOptions


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"strategy": "oracle"}, "no search strategy `oracle`; there are beam, greedy, random"),
        ({"beam_width": 0}, "width of at least 1, not 0"),
        ({"passes": 0}, "at least 1 pass"),
        ({"dropout": 1.0}, "below 1"),
        ({"budget_seconds": 0.0}, "more than 0 seconds"),
        ({"budget_seconds": -1.0}, "more than 0 seconds"),
    ],
)
def test_options_that_make_no_sense_raise(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(SearchError, match=message):
        SearchOptions(**bad)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("refine", [True, False])
def test_every_strategy_can_be_made(strategy: str, *, refine: bool) -> None:
    options = SearchOptions(strategy=strategy, refine=refine, budget_seconds=None)
    assert hasattr(options.make(), "search")


SWITCHES = {
    "sliding": Call.STORE_AT,
    "storage": Call.STORE_IN,
    "reductions": None,
    "vector_widths": None,
    "nested_parallel": None,
}


@pytest.mark.parametrize("name", SWITCHES)
def test_each_kind_of_decision_can_be_switched_off(name: str) -> None:
    assert getattr(SearchOptions().space, f"allow_{name}")
    space = SearchOptions(**{name: False}).space
    assert [other for other in SWITCHES if not getattr(space, f"allow_{other}")] == [name]


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, call in SWITCHES.items() if call])
def test_what_is_switched_off_is_not_in_the_schedule(name: str, call: Call) -> None:
    found = {
        is_on: {
            directive.call
            for pipeline in (chain, pyramid, boundary)
            for directive in autoschedule(
                pipeline(), threads=2, options=SearchOptions(strategy="greedy", refine=False, **{name: is_on})
            ).schedule.directives
        }
        for is_on in (True, False)
    }
    assert call in found[True]
    assert call not in found[False]
