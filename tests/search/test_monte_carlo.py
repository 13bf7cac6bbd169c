import time
from typing import Any

import pytest
from small_pipelines import PIPELINES, make_space

from metol import _core
from metol.errors import SearchError
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.search import GUIDANCES, SIMULATIONS, UCB_FORMS, BeamSearch, Budget, MonteCarlo, Refined, deviating
from metol.search.refine import improve

MODEL = _core.CostModel()


def space_of(name: str, threads: int = 1) -> _core.Space:
    return make_space(extract(PIPELINES[name]()), threads=threads)


def tree_of(space: _core.Space, seed: int = 0, **options: Any) -> _core.SearchTree:
    chosen = _core.TreeOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    return _core.SearchTree(space, MODEL, chosen, seed)


def test_each_iteration_costs_one_complete_loop_nest() -> None:
    space = space_of("pyramid")
    tree = tree_of(space)
    assert tree.best_state is None
    _core.iterate_trees([tree], [25])
    assert (tree.iterations, tree.costed) == (25, 25)
    assert sum(child.visits for child in tree.children()) == 25
    assert tree.best_state is not None
    assert tree.best_seconds == space.cost(tree.best_state, MODEL)[0]


def test_children_tell_the_best_and_the_mean_below_them() -> None:
    space = space_of("pyramid")
    tree = tree_of(space)
    _core.iterate_trees([tree], [200])
    children = tree.children()
    assert tree.best_seconds == min(child.best_seconds for child in children)
    for child in children:
        assert child.best_seconds <= child.mean_seconds * (1 + 1e-12)
        assert child.best_seconds == space.cost(tree.best_state_of(child), MODEL)[0]
        below = space.path(tree.best_state_of(child))
        assert below[:1] == space.path(tree.state_of(child))


def test_leaves_are_different_complete_and_within_the_limit() -> None:
    space = space_of("pyramid")
    tree = tree_of(space)
    _core.iterate_trees([tree], [200])
    everything, seconds = tree.best_leaves(float("inf"))
    assert list(space.cost(everything, MODEL)) == seconds
    assert len(set(space.identity_hash(everything))) == len(seconds) > 8
    assert set(everything.decisions_made) == {space.decision_count}
    assert min(seconds) == tree.best_seconds
    limit = sorted(seconds)[4]
    assert sorted(tree.best_leaves(limit)[1]) == sorted(seconds)[:5]


def test_leaves_of_an_ensemble_are_spread_over_what_they_cost() -> None:
    ensemble = MonteCarlo(trees=3, greedy_trees=0, beam_width=0).plant(space_of("pyramid"), MODEL)
    ensemble.iterate(200, Budget.start())
    everything = [cost for cost, _ in ensemble.best_leaves(float("inf"), 10**6)]
    assert everything == sorted(everything)
    few = [cost for cost, _ in ensemble.best_leaves(float("inf"), 10)]
    assert few[0] == everything[0]
    assert len(few) <= 10
    # Half of them are from the cheapest quarter.
    quarter = everything[len(everything) // 4]
    assert sum(cost <= quarter for cost in few) >= len(few) // 2
    near = [cost for cost, _ in ensemble.best_leaves(1.5, 10**6)]
    assert near == [cost for cost in everything if cost <= 1.5 * everything[0]]


def forced_through(space: _core.Space, tree: _core.SearchTree) -> None:
    """Go on to the first decision that leaves a choice."""
    while len(children := space.expand(tree.root)[0]) == 1:
        tree.advance(children)


def test_a_tree_that_goes_on_keeps_what_is_below_its_new_root() -> None:
    space = space_of("pyramid")
    tree = tree_of(space)
    forced_through(space, tree)
    _core.iterate_trees([tree], [300])
    size, best = len(tree), tree.best_seconds
    child = max(tree.children(), key=lambda one: one.visits)
    tree.advance(tree.state_of(child))
    assert 1 < len(tree) < size
    assert sum(one.visits for one in tree.children()) >= child.visits - 1
    assert tree.best_seconds == best
    assert space.path(tree.root) == space.path(tree.state_of(child))


def test_a_tree_goes_on_from_a_child_that_it_has_not_seen() -> None:
    space = space_of("pyramid")
    seen, other = tree_of(space, 1), tree_of(space, 2)
    _core.iterate_trees([seen], [10])
    other.advance(seen.state_of(seen.children()[0]))
    assert len(other) == 1
    _core.iterate_trees([other], [10])
    assert other.iterations == 10


@pytest.mark.parametrize("widening", [(1.0, 1.0), (1.5, 0.4)])
def test_a_small_space_is_seen_to_its_end(widening: tuple[float, float]) -> None:
    space = space_of("no_dimension")
    tree = tree_of(space, widening=widening[0], widening_power=widening[1])
    _core.iterate_trees([tree], [100_000])
    assert tree.is_exhausted
    assert tree.iterations < 100_000
    everything = space.root()
    while int(everything.decisions_made[0]) < space.decision_count:
        everything, _ = space.expand(everything)
    assert tree.best_seconds == min(space.cost(everything, MODEL))


def test_widening_bounds_children() -> None:
    space = space_of("pyramid")
    narrow, wide = (tree_of(space, widening=1.0, widening_power=power) for power in (0.3, 1.0))
    for tree in (narrow, wide):
        forced_through(space, tree)
    _core.iterate_trees([narrow, wide], [200, 200])
    assert len(narrow.children()) < len(wide.children())


def test_equal_loop_nests_share_a_node() -> None:
    space = space_of("convolution")
    apart, shared = (tree_of(space, shares_equal=shares) for shares in (False, True))
    _core.iterate_trees([apart, shared], [2000, 2000])
    for tree in (apart, shared):
        hashes = [int(space.identity_hash(tree.state_of(child))[0]) for child in tree.children()]
        assert len(set(hashes)) == len(hashes) or tree is apart


def test_greedy_simulations_take_the_cheapest_child_each_time() -> None:
    space = space_of("pyramid")
    tree = tree_of(space, greedy_share=1.0)
    _core.iterate_trees([tree], [1])
    greedy = BeamSearch(width=1).search(space, MODEL, Budget.start())
    # Its first step, which expansion takes, is random; the first decision has but one child here.
    assert tree.best_seconds == pytest.approx(greedy.cost_seconds, rel=0.5)
    assert tree.costed > space.decision_count


def test_trees_beside_each_other_are_what_they_are_alone() -> None:
    results = []
    for threads in (1, 2, 4):
        space = space_of("pyramid", threads)
        trees = [tree_of(space, seed) for seed in range(5)]
        _core.iterate_trees(trees, [40] * 5)
        results.append([tree.best_seconds for tree in trees])
    space = space_of("pyramid")
    alone = []
    for seed in range(5):
        tree = tree_of(space, seed)
        _core.iterate_trees([tree], [40])
        alone.append(tree.best_seconds)
    assert results == [alone] * 3


def test_the_same_tree_twice_is_refused() -> None:
    space = space_of("pyramid")
    tree = tree_of(space)
    with pytest.raises(ValueError, match="distinct"):
        _core.iterate_trees([tree, tree], [1, 1])
    with pytest.raises(ValueError, match="a count for each"):
        _core.iterate_trees([tree], [1, 1])


@pytest.mark.parametrize("ucb", UCB_FORMS)
@pytest.mark.parametrize("guidance", GUIDANCES)
def test_every_form_beats_chance(ucb: str, guidance: str) -> None:
    space = space_of("pyramid")
    found = MonteCarlo(trees=2, greedy_trees=0, iterations=30, ucb=ucb, guidance=guidance).search(
        space, MODEL, Budget.start()
    )
    drawn = space.rollout(space.root(), range(200))
    assert found.cost_seconds < min(space.cost(drawn, MODEL))


@pytest.mark.parametrize("how", [{"simulation": name} for name in SIMULATIONS] + [{"root_choice": "mean"}])
def test_what_the_paper_tried_works(how: dict[str, str]) -> None:
    space = space_of("two_outputs")
    found = MonteCarlo(trees=2, iterations=4, **how).search(space, MODEL, Budget.start())
    assert found.cost_seconds == space.cost(found.state, MODEL)[0]


def test_time_is_kept_to() -> None:
    space = space_of("pyramid")
    found = MonteCarlo(trees=2).search(space, MODEL, Budget.start(1.0))
    assert found.is_complete
    assert len(found.alternatives) > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"ucb": "none"},
        {"guidance": "luck"},
        {"simulation": "none"},
        {"root_choice": "worst"},
        {"trees": 0},
        {"greedy_trees": 17},
        {"widening": 0.5},
        {"widening_power": 2.0},
        {"iterations": 0},
    ],
)
def test_impossible_ensembles_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(SearchError):
        MonteCarlo(**bad)


def test_a_tree_learns_a_loop_nest_found_elsewhere() -> None:
    space = space_of("pyramid")
    found = BeamSearch(width=4).search(space, MODEL, Budget.start())
    tree = tree_of(space)
    tree.learn(found.state)
    assert tree.best_state is not None
    assert space.path(tree.best_state) == space.path(found.state)
    assert tree.best_seconds == pytest.approx(found.cost_seconds)
    forced_through(space, tree)
    (child,) = tree.children()
    assert space.path(tree.state_of(child)) == space.path(found.state)[: int(child.visits) + len(space.path(tree.root))]


def test_a_tree_learns_complete_loop_nests_alone() -> None:
    space = space_of("pyramid")
    with pytest.raises(ValueError, match="one complete loop nest"):
        tree_of(space).learn(space.root())


def test_what_is_not_below_the_root_teaches_nothing() -> None:
    space = space_of("pyramid")
    tree, other = tree_of(space, 1), tree_of(space, 2)
    forced_through(space, tree)
    forced_through(space, other)
    _core.iterate_trees([tree], [50])
    first, second = tree.children()[:2]
    other.advance(tree.state_of(first))
    other.learn(tree.best_state_of(second))
    assert other.best_state is None


@pytest.mark.parametrize(("own_steps", "most"), [(0.0, 0.3), (-1.0, 1.0)])
def test_simulations_repeat_all_but_their_own_steps(own_steps: float, most: float) -> None:
    space = space_of("pyramid")
    known = BeamSearch(width=4).search(space, MODEL, Budget.start()).state
    tree = tree_of(space, own_steps=own_steps)
    tree.learn(known, repeats=True)
    _core.iterate_trees([tree], [40])
    forced_through(space, tree)
    path = space.path(known)
    changed = [
        sum(mine != theirs for mine, theirs in zip(space.path(tree.best_state_of(child)), path, strict=True))
        for child in tree.children()
    ]
    assert len(changed) > 1
    share = sorted(changed)[len(changed) // 2] / len(path)
    assert share <= most
    assert own_steps >= 0 or share > 0.3


def test_trees_without_time_do_not_take_longer_turns_later() -> None:
    space = space_of("chain")
    ensemble = MonteCarlo(trees=2).plant(space, MODEL)
    for _ in range(80):
        ensemble.iterate_until(time.monotonic(), Budget.start())
    started = time.monotonic()
    ensemble.iterate_until(started + 0.05, Budget.start())
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_walks_go_on_from_the_best_until_they_are_in_vain() -> None:
    space = space_of("pyramid")
    once = MonteCarlo(trees=4, walk_share=1).search(space, MODEL, Budget.start(0.4))
    again = MonteCarlo(trees=4).search(space, MODEL, Budget.start(5))
    assert again.is_complete
    assert again.cost_seconds <= once.cost_seconds * (1 + 1e-12)
    assert again.cost_seconds == space.cost(again.state, MODEL)[0]


@pytest.mark.parametrize("deviates", [True, False])
def test_trees_begin_with_what_beams_find(deviates: bool) -> None:
    space = space_of("boundary")
    beam = BeamSearch(width=4)
    refined = Refined((*beam.narrower(), beam))
    start = (deviating(refined) if deviates else refined).search(space, MODEL, Budget.start())
    plan = MonteCarlo(trees=1, greedy_trees=0, iterations=1, beam_width=4, deviates=deviates)
    found = plan.search(space, MODEL, Budget.start())
    assert found.cost_seconds <= start.cost_seconds
    assert found.candidates > start.candidates


def test_trees_begin_with_as_much_as_the_options_say() -> None:
    trees = SearchOptions(strategy="mcts", refine=False, discrepancies=False).monte_carlo
    assert (trees.descends, trees.deviates) == (False, False)
    assert SearchOptions(strategy="mcts").monte_carlo == MonteCarlo()


@pytest.mark.parametrize("name", ["pyramid", "convolution"])
def test_no_single_decision_makes_better_what_descent_follows(name: str) -> None:
    space = space_of(name)
    plain = MonteCarlo(trees=2, iterations=2, beam_width=0, descends=False).search(space, MODEL, Budget.start())
    found = MonteCarlo(trees=2, iterations=2, beam_width=0).search(space, MODEL, Budget.start())
    assert found.cost_seconds <= plain.cost_seconds
    assert found.is_complete
    assert found.candidates > plain.candidates
    for position in range(space.decision_count):
        assert improve(space, MODEL, found, position).state is found.state


@pytest.mark.parametrize("options", [{"walk_share": 0.0}, {"walk_share": 1.5}, {"beam_width": -1}])
def test_trees_refuse_what_they_cannot_do(options: dict[str, Any]) -> None:
    with pytest.raises(SearchError):
        MonteCarlo(**options)
