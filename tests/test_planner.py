"""One pipeline read once: nests go through JSON and lead back to the same schedule, also where names differ."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest
from exact_sides import nest_with_exact_sides
from small_pipelines import (
    HEIGHT,
    PIPELINES,
    SOME_TARGET,
    WIDTH,
    ExactRuns,
    X,
    Y,
    chain,
    finish,
    image,
    product_inside,
    some_machine,
)
from some_weights import some_weights

from metol import _core
from metol.candidates import Nest
from metol.errors import ExtractionError, MetolError, WeightsError
from metol.lower import Schedule
from metol.options import SearchOptions
from metol.pipeline import Rfactor
from metol.planner import Found, Planner

QUICK = SearchOptions(strategy="greedy", budget_seconds=None, weights="analytical")


def total(name: str = "r") -> hl.Pipeline:
    """One sum over an image, which is computed in two steps."""
    source = image(WIDTH, HEIGHT)
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], name)
    whole, output = hl.Func("whole"), hl.Func("output")
    whole[()] = 0
    whole[()] += source[r.x, r.y]
    output[X, Y] = whole[()] + X
    return finish(output)


def product() -> hl.Pipeline:
    """A times the transpose of B, each of which is worth a copy."""
    a, b = image(256, 256, name="a"), image(256, 256, name="b")
    k = hl.RDom([(0, 256)], "k")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y] = 0
    sums[X, Y] += a[k.x, Y] * b[k.x, X]
    output[X, Y] = sums[X, Y]
    return finish(output, sizes=(256, 256))


def unbounded() -> hl.Pipeline:
    """A look-up in an input without bounds, which the search cannot describe."""
    source, table, output = image(WIDTH, HEIGHT), image(100, name="table"), hl.Func("output")
    output[X, Y] = table[source[X, Y]]
    return finish(output)


def planner_of(build: Callable[[], hl.Pipeline], **options: bool | str) -> Planner:
    return Planner(build(), replace(QUICK, **options), target=SOME_TARGET, machine=some_machine())


@pytest.mark.parametrize(("gpu", "feature"), [("a100", "cuda-cuda_capability_80"), ("opencl-cpu", "opencl")])
def test_gpu_is_enough_of_a_target(gpu: str, feature: str) -> None:
    assert f"-{feature}-" in Planner(chain(), QUICK, gpu=gpu).target


def best_nest(planner: Planner) -> Nest:
    best = next(iter(planner.search().candidates))
    assert best.nest is not None
    return best.nest()


def test_forms_are_what_these_pipelines_are_for() -> None:
    assert best_nest(planner_of(chain)).to_form(planner_of(chain).dag) == ((), (), ())
    assert best_nest(planner_of(total)).rfactors
    assert best_nest(planner_of(product)).stagings


@pytest.mark.parametrize("build", [chain, total, product])
def test_a_nest_leads_to_the_schedule_of_its_candidate(build: Callable[[], hl.Pipeline]) -> None:
    planner = planner_of(build)
    candidates = [candidate for candidate in planner.search().candidates if candidate.nest is not None]
    assert candidates[0].origin == "search"
    for candidate in candidates:
        nest = Nest.from_json(candidate.nest().to_json())
        assert nest == candidate.nest()
        form, state = planner.state_of(nest)
        assert planner.nest_of(form, state) == nest
        schedule = planner.schedule_of(form, state, nest)
        assert schedule == replace(planner.frame, directives=candidate.directives())


@pytest.mark.parametrize("build", [chain, total, product])
def test_a_nest_means_the_same_in_another_planner(build: Callable[[], hl.Pipeline]) -> None:
    nest = best_nest(planner_of(build))
    other = planner_of(build)
    assert other.nest_of(*other.state_of(nest)) == nest


def test_a_nest_means_the_same_where_names_that_nobody_chose_differ() -> None:
    nest = best_nest(planner_of(lambda: total("")))
    assert nest.rfactors
    assert "r" not in nest.rfactors[0][2][0][0]
    other = planner_of(lambda: total(""))
    form, state = other.state_of(nest)
    assert other.nest_of(form, state) == nest
    schedule = other.schedule_of(form, state, nest)
    assert schedule is not None
    ExactRuns("histogram", lambda: total("")).check(schedule)


def test_a_nest_tells_by_which_rules_it_is_lowered() -> None:
    planner, other = planner_of(product_inside), planner_of(product_inside, specialize_estimate=False)
    nest = nest_with_exact_sides(planner)
    plain = other.nest_of(other.form(), other.form().space.replay(nest.path))
    assert (nest.specialize_estimate, plain.specialize_estimate) == (True, False)
    assert nest.path == plain.path
    schedule = planner.schedule_of(*planner.state_of(nest), nest)
    assert planner.schedule_of(*planner.state_of(plain), plain) == other.schedule_of(*other.state_of(plain), plain)
    assert planner.schedule_of(*planner.state_of(plain), plain) != schedule


def test_a_nest_of_another_pipeline_is_an_error() -> None:
    nest = best_nest(planner_of(chain))
    for other in (PIPELINES["blur"], total, product, unbounded):
        with pytest.raises(MetolError):
            planner_of(other).state_of(nest)


def test_a_nest_that_is_not_complete_is_an_error() -> None:
    planner = planner_of(chain)
    nest = best_nest(planner)
    with pytest.raises(MetolError, match="end before the loop nest is complete"):
        planner.state_of(replace(nest, path=nest.path[:-1]))


@pytest.mark.parametrize(
    "change",
    [
        {"path": ((1, 2),)},
        {"path": ((1 << 70,) * 22,)},
        {"stagings": ((99, 1),)},
        {"stagings": (("a", "b"),)},
        {"rfactors": ((0, 3, (), ()),)},
        {"rfactors": ((1, 0, (("$0",),), ()),)},
        {"rfactors": ((1, 0, ((),), ()),)},
    ],
)
def test_a_nest_of_nonsense_is_an_error_in_one_line(change: dict) -> None:
    planner = planner_of(total)
    with pytest.raises(MetolError) as caught:
        planner.state_of(replace(best_nest(planner), **change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "spam",
        "null",
        "[]",
        "{}",
        '{"version": 2, "path": [], "rfactors": [], "stagings": [], "specialize_estimate": true}',
        '{"version": 1, "path": 3, "rfactors": [], "stagings": [], "specialize_estimate": true}',
        '{"version": 1, "path": [["x"]], "rfactors": [], "stagings": [], "specialize_estimate": true}',
        '{"version": 1, "path": [], "rfactors": [[1]], "stagings": [], "specialize_estimate": true}',
        '{"version": 1, "path": [], "rfactors": [], "stagings": [1], "specialize_estimate": true}',
    ],
)
def test_text_that_is_no_nest_is_an_error(text: str) -> None:
    with pytest.raises(MetolError, match="is no loop nest"):
        Nest.from_json(text)


def test_a_form_is_read_once() -> None:
    planner = planner_of(chain)
    assert planner.form() is planner.form()


def test_a_form_that_halide_refuses_is_an_error_with_its_reason_every_time() -> None:
    planner = planner_of(total)
    for _ in range(2):
        with pytest.raises(ExtractionError, match="no update 3"):
            planner.form((Rfactor(1, 3, [], []),))


def test_a_pipeline_that_cannot_be_described_is_not_searched_and_says_why() -> None:
    planner = planner_of(unbounded)
    found = planner.search()
    assert (found.form, found.result, found.count, found.pruned) == (None, None, 0, ())
    assert "unbounded" in found.refusals[0]
    assert [(candidate.origin, candidate.nest) for candidate in found.candidates] == [("root", None), ("none", None)]
    for _ in range(2):
        with pytest.raises(ExtractionError, match="unbounded"):
            planner.form()


def test_a_search_tells_what_it_did() -> None:
    planner = planner_of(chain)
    found = planner.search()
    assert found.form is planner.form()
    assert found.count > 0
    assert found.is_complete
    assert found.refusals == ()
    assert all(count > 0 for _, count in found.pruned)


def test_a_search_that_is_cancelled_still_finds_something() -> None:
    planner = planner_of(chain)
    found = planner.search(lambda: True)
    assert not found.is_complete
    nest = next(iter(found.candidates)).nest()
    assert planner.nest_of(*planner.state_of(nest)) == nest


@pytest.mark.parametrize("build", [PIPELINES["pyramid"], total, product])
def test_what_a_search_will_find_is_foreseen(build: Callable[[], hl.Pipeline]) -> None:
    foreseen: list[Schedule] = []
    planner = Planner(build(), SearchOptions(budget_seconds=None, weights="analytical"), threads=2)
    found = planner.search(foresee=foreseen.append)
    assert foreseen
    assert len({schedule.directives for schedule in foreseen}) == len(foreseen)
    if len(planner.forms) == 1:
        assert foreseen[-1] == planner.best(found, 1)[0]


def test_the_analytical_model_can_be_asked_for() -> None:
    planner = planner_of(chain, weights="analytical")
    found = planner.search()
    assert planner.model.id == _core.CostModel().id
    assert found.result is not None
    assert found.result.cost_seconds == planner.form().space.cost(found.result.state, _core.CostModel())[0]


def test_a_search_goes_by_the_weights_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    weights = some_weights(planner_of(chain).form().space, members=2, gain=0.5)
    weights.save(path)
    planner = planner_of(chain, weights=str(path))
    found = planner.search()
    space = planner.form().space
    assert found.result is not None
    assert planner.model.id == weights.model(space).id
    assert found.result.cost_seconds == space.cost(found.result.state, weights.model(space))[0]
    assert found.result.cost_seconds != space.cost(found.result.state, _core.CostModel())[0]
    for candidate in found.candidates:
        if candidate.nest is not None:
            form, state = planner.state_of(candidate.nest())
            assert candidate.cost_seconds == pytest.approx(form.space.cost(state, weights.model(form.space))[0])


def test_a_form_that_rewriting_made_goes_by_the_weights_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    weights = some_weights(planner_of(product).form().space)
    weights.save(path)
    planner = planner_of(product, weights=str(path))
    found = planner.search()
    assert found.form is not None
    assert found.result is not None
    assert found.result.cost_seconds == found.form.space.cost(found.result.state, weights.model(found.form.space))[0]


def test_weights_that_are_missing_or_about_something_else_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"missing.npz. is no file of weights"):
        planner_of(chain, weights=str(tmp_path / "missing.npz")).search()
    weights = some_weights(planner_of(chain).form().space)
    replace(weights, terms=weights.terms[::-1]).save(tmp_path / "other.npz")
    with pytest.raises(WeightsError, match="other cost terms"):
        planner_of(chain, weights=str(tmp_path / "other.npz")).search()


def test_the_best_few_of_a_search_are_different_schedules_best_first() -> None:
    options = SearchOptions(strategy="batch", searches=20, beam_width=4, budget_seconds=None)
    planner = Planner(chain(), options, target="cuda", gpu="a100")
    found = planner.search()
    best = planner.best(found, 5)
    assert len({schedule.directives for schedule in best}) == len(best) == 5
    assert planner.best(found, 2) == best[:2]
    first = next(found.candidates)
    assert best[0].directives == first.directives()
    assert best[0].target == planner.target
    # Whatever filters a search has, what it pruned is told.
    assert sum(count for _, count in found.pruned) > 0


def test_of_what_was_not_searched_there_are_no_best_few() -> None:
    planner = Planner(chain(), QUICK)
    assert planner.best(Found(iter(())), 5) == ()
