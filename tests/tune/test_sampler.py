"""Schedules by random dropout: different, new, and what they say they are."""

import pytest
from small_pipelines import chain

from metol import _core
from metol.options import SearchOptions
from metol.pipeline import Staging
from metol.planner import Planner
from metol.tune.proposals import Proposal
from metol.tune.sampler import Sampler

QUICK = SearchOptions(strategy="greedy", budget_seconds=None)
MODEL = _core.CostModel()


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(chain(), QUICK, threads=2)


def draw(planner: Planner, count: int, seed: int = 0, tried: frozenset[str] = frozenset()) -> list[Proposal]:
    return Sampler(planner, [planner.form()], seed).draw(count, tried, MODEL)


def texts(proposals: list[Proposal]) -> list[str]:
    return [proposal.text for proposal in proposals]


def test_samples_differ_and_the_cheapest_come_first(planner: Planner) -> None:
    samples = draw(planner, 6)
    assert len(set(texts(samples))) == len(samples) == 6
    assert {sample.origin for sample in samples} == {"sample"}
    costs = [sample.predicted_seconds for sample in samples]
    assert costs == sorted(costs)


def test_a_sample_is_what_its_decisions_lead_to(planner: Planner) -> None:
    for sample in draw(planner, 4):
        form, state = planner.state_of(sample.nest)
        assert planner.schedule_of(form, state, sample.nest) == sample.schedule
        assert float(form.space.cost(state, MODEL)[0]) == pytest.approx(sample.predicted_seconds)


def test_nothing_is_drawn_twice(planner: Planner) -> None:
    sampler = Sampler(planner, [planner.form()], 0)
    first, second = sampler.draw(4, (), MODEL), sampler.draw(4, (), MODEL)
    assert first
    assert second
    assert not set(texts(first)) & set(texts(second))


def test_nothing_that_was_tried_is_drawn(planner: Planner) -> None:
    tried = frozenset(texts(draw(planner, 4)))
    assert not tried & set(texts(draw(planner, 4, tried=tried)))


def test_a_seed_tells_what_is_drawn(planner: Planner) -> None:
    assert texts(draw(planner, 4, seed=1)) == texts(draw(planner, 4, seed=1))
    assert texts(draw(planner, 4, seed=1)) != texts(draw(planner, 4, seed=2))


def test_every_form_of_the_pipeline_is_drawn_from(planner: Planner) -> None:
    staged = planner.form(stagings=(Staging(0, 1),))
    samples = Sampler(planner, [staged, planner.form()], 0).draw(16, (), MODEL)
    assert {sample.nest.stagings for sample in samples} == {((0, 1),), ()}
    for sample in samples:
        form, state = planner.state_of(sample.nest)
        assert planner.schedule_of(form, state, sample.nest) == sample.schedule
