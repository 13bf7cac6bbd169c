"""Loop nests to learn from: as many as wanted, all different, each known by its decisions."""

import halide as hl
import pytest
from measured_programs import drawn_of, planner_of, program_of
from small_pipelines import PIPELINES, SOME_TARGET, some_machine

from metol import _core
from metol.candidates import Nest
from metol.options import SearchOptions
from metol.planner import Planner
from metol.train import Drawn, DrawPlan, draw_nests
from metol.train.draw import ORIGINS

SEARCH = SearchOptions(beam_width=2, passes=1, discrepancies=False, weights="analytical", budget_seconds=None)


def drawn(name: str, count: int = 12, seed: int = 0, **plan: object) -> tuple[Planner, list[Drawn]]:
    planner = Planner(PIPELINES[name](), SEARCH, target=SOME_TARGET, machine=some_machine())
    return planner, draw_nests(planner, planner.search(), _core.CostModel(), DrawPlan(count, **plan), seed)


@pytest.mark.parametrize("name", ["chain", "matmul", "channels"])
def test_as_many_are_drawn_as_wanted_and_all_differ(name: str) -> None:
    planner, draws = drawn(name)
    assert len(draws) == 12
    assert len({one.schedule.directives for one in draws}) == 12
    assert {one.origin for one in draws} <= set(ORIGINS)
    assert draws[0].origin == "search"
    assert {one.schedule.algorithm_hash for one in draws} == {planner.frame.algorithm_hash}


@pytest.mark.parametrize("name", ["chain", "matmul"])
def test_each_leads_back_to_its_schedule(name: str) -> None:
    planner, draws = drawn(name)
    other = Planner(PIPELINES[name](), SEARCH, target=SOME_TARGET, machine=some_machine())
    for one in draws:
        nest = Nest.from_json(one.nest.to_json())
        for each in (planner, other):
            assert each.schedule_of(*each.state_of(nest), nest).directives == one.schedule.directives


def test_no_more_are_drawn_than_wanted() -> None:
    for count in (1, 2, 3):
        assert len(drawn("matmul", count)[1]) == count


@pytest.mark.parametrize("origin", ["sample", "dropout", "distorted", "neighbour", "rollout"])
def test_all_that_follow_are_drawn_as_the_plan_says(origin: str) -> None:
    _, draws = drawn("chain", 8, shares=((origin, 1.0),))
    # A greedy search may find what the search found.
    assert {one.origin for one in draws} - {"greedy"} == {"search", origin}


def test_the_default_plan_draws_in_every_way() -> None:
    assert {one.origin for one in drawn("channels", 40)[1]} | {"greedy"} == set(ORIGINS)


def test_a_seed_gives_the_same_draws() -> None:
    def decisions(seed: int) -> list[tuple[str, Nest]]:
        return [(one.origin, one.nest) for one in drawn("blur", 8, seed=seed)[1]]

    assert decisions(3) == decisions(3)
    assert decisions(3) != decisions(4)


def test_a_pipeline_with_few_loop_nests_ends_without_its_count() -> None:
    constant = hl.Func("constant")
    constant[()] = 3
    planner = Planner(hl.Pipeline(constant), SEARCH, target=SOME_TARGET, machine=some_machine())
    draws = draw_nests(planner, planner.search(), _core.CostModel(), DrawPlan(40), 0)
    assert 1 <= len(draws) < 40
    assert len({one.schedule.directives for one in draws}) == len(draws)


def test_a_planner_that_can_write_nothing_down_ends_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "schedule_of", lambda *_: None)
    assert drawn("chain", 4)[1] == []


def test_draws_of_random_programs_differ_from_program_to_program() -> None:
    nests = [one.nest for seed in (1, 2) for one in drawn_of(program_of(seed), 6)]
    assert len(nests) == 12
    assert planner_of(program_of(1)).frame.algorithm_hash != planner_of(program_of(2)).frame.algorithm_hash


def test_forms_that_did_not_win_are_drawn_from_too() -> None:
    planner = Planner(PIPELINES["histogram"](), SEARCH, target=SOME_TARGET, machine=some_machine())
    found = planner.search()
    others = [form for form in planner.forms if form is not found.form]
    assert others
    drawn = draw_nests(planner, found, _core.CostModel(), DrawPlan(24), 0)
    forms = [planner.state_of(one.nest)[0] for one in drawn]
    assert 6 <= sum(form is planner.form() for form in forms) <= 21
    assert any(form in others for form in forms)
