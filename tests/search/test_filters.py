"""Filters of strategies: hierarchical sampling and freezing offer fewer candidates, and nothing else."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from small_pipelines import PIPELINES, make_space

from metol import _core
from metol.errors import SearchError
from metol.pipeline import extract
from metol.search import BeamSearch, Budget, Frozen, Sampled, SearchResult

MODEL = _core.CostModel()
GREEDY = BeamSearch(width=1)


@dataclass(slots=True)
class Recorded:
    """A greedy search that remembers the space it was given."""

    spaces: list[_core.Space] = field(default_factory=list)

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        self.spaces.append(space)
        return GREEDY.search(space, model, budget)


def space_of(name: str) -> _core.Space:
    return make_space(extract(PIPELINES[name]()))


def states_on_the_way(space: _core.Space) -> list[_core.States]:
    states = [space.root()]
    for _ in range(space.decision_count - 1):
        children, _ = space.expand(states[-1])
        states.append(children.take([len(children) // 2]))
    return states


def is_legal(space: _core.Space, path: list[tuple[int, ...]]) -> bool:
    try:
        space.replay(path)
    except ValueError:
        return False
    return True


def test_sampling_keeps_log2_of_each_bucket() -> None:
    space = space_of("pyramid")
    inner = Recorded()
    Sampled(inner, depth=2).search(space, MODEL, Budget.start())
    (sampled,) = inner.spaces
    largest = 0
    for state in states_on_the_way(space):
        all_children, _ = space.expand(state)
        kept, _ = sampled.expand(state)
        assert set(space.identity_hash(kept)) <= set(space.identity_hash(all_children))
        before = Counter(space.structural_hash(all_children, 2).tolist())
        after = Counter(space.structural_hash(kept, 2).tolist())
        assert after == {bucket: max(1, size.bit_length() - 1) for bucket, size in before.items()}
        largest = max(largest, *before.values())
    assert largest >= 8


def test_sampling_depends_on_its_seed_alone() -> None:
    kept = []
    for seed in (1, 1, 2):
        space = space_of("pyramid")
        options = space.options
        options.sample_depth, options.sample_seed = 0, seed
        sampled = space.restrict(options)
        state = states_on_the_way(space)[4]
        alone, _ = sampled.expand(state)
        among_others, parents = sampled.expand(space.root().concat(state))
        assert space.identity_hash(among_others)[parents == 1].tolist() == space.identity_hash(alone).tolist()
        kept.append(sorted(space.identity_hash(alone).tolist()))
    assert kept[0] == kept[1] != kept[2]


def test_sampling_of_a_negative_depth_is_refused() -> None:
    with pytest.raises(SearchError, match="at least 0, not -1"):
        Sampled(GREEDY, depth=-1)


def test_freezing_leaves_log2_of_the_funcs_free() -> None:
    space = space_of("pyramid")
    inner = Recorded()
    found = Frozen(inner).search(space, MODEL, Budget.start())
    (frozen,) = inner.spaces
    options = space.options
    options.allow_compute_at = False
    first = GREEDY.search(space.restrict(options), MODEL, Budget.start())
    seconds = space.func_seconds(first.state, MODEL)
    funcs = sorted(set(space.decision_funcs), key=lambda func: (-seconds[func], func))
    free = set(funcs[: len(funcs).bit_length() - 1])
    assert 0 < len(free) < len(funcs)
    state = frozen.root()
    settled = 0
    for func, decision in zip(space.decision_funcs, space.path(first.state), strict=True):
        children, _ = frozen.expand(state)
        path = [*space.path(state), decision]
        if func in free:
            assert len(children) == len(space.expand(state)[0])
        elif is_legal(space, path):
            assert [space.path(children.take([i])) for i in range(len(children))] == [path]
            settled += 1
        state = children.take([0])
    assert settled >= len(funcs) - len(free)
    assert found.cost_seconds <= first.cost_seconds


def test_a_frozen_decision_that_is_illegal_here_leaves_the_func_free() -> None:
    space = space_of("pyramid")
    output = space.decision_funcs[0]
    inline = (1, output, -1, -1, 0, 0, -1, 1, 0, 0, *[0] * 12)
    options = space.options
    options.freeze(output, [inline])
    children, _ = space.restrict(options).expand(space.root())
    assert len(children) == len(space.expand(space.root())[0]) > 0


def test_seconds_of_funcs_add_up_to_the_cost() -> None:
    space = space_of("pyramid")
    state = GREEDY.search(space, MODEL, Budget.start()).state
    assert space.func_seconds(state, MODEL).sum() == pytest.approx(space.cost(state, MODEL)[0])
