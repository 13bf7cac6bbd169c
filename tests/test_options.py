"""What a user can choose about a search is checked at once."""

from typing import Any

import pytest

from metol.errors import SearchError
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
