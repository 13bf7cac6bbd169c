"""The weights that come with Metol."""

import pytest
from small_pipelines import SOME_TARGET, chain, cpu_space, some_machine

from metol.cost import Weights
from metol.cost_choice import _SHIPPED, ANALYTICAL, AUTO, own_weights_path
from metol.options import SearchOptions
from metol.planner import Planner


@pytest.fixture(scope="module")
def shipped() -> Weights:
    return Weights.load(_SHIPPED)


def test_they_are_about_the_features_of_today(shipped: Weights) -> None:
    shipped.require_fit(cpu_space(chain)[1])


def test_a_search_goes_by_them_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = some_machine()
    assert not own_weights_path(machine).exists()

    def predicted(weights: str) -> float:
        options = SearchOptions(weights=weights)
        found = Planner(chain(), options, target=SOME_TARGET, machine=machine).search()
        assert found.result is not None
        return found.result.cost_seconds

    assert predicted(AUTO) == predicted(str(_SHIPPED)) != predicted(ANALYTICAL)


def test_they_tell_what_they_were_fitted_to_and_how_good_they_are(shipped: Weights) -> None:
    notes = shipped.notes
    assert notes["data"]["programs"] >= 300
    assert notes["data"]["samples"] >= 9000
    assert len(notes["data"]["machines"]) >= 2
    ours, analytical = notes["scores"]["analytical and network"], notes["scores"]["analytical"]
    assert ours["r2"] > analytical["r2"]
    assert ours["rank_correlation"] > analytical["rank_correlation"]
