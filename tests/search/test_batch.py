"""Batches of searches, what they are made of, and that memoization changes no number."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from small_pipelines import PIPELINES, convolution, gpu_space, make_space, pyramid

from metol import _core
from metol.errors import SearchError
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.pipeline.random_programs import random_program
from metol.search import Batch, BeamSearch, Budget, Sampled, SearchResult
from metol.search.hash_lessons import HashLessons, distinct_hashes
from metol.search.sampled import expander_of_pass

MODEL = _core.CostModel()


def without_memo(space: _core.Space) -> _core.Space:
    options = space.options
    options.memoize = False
    return space.restrict(options)


def leaves_of(space: _core.Space, count: int = 40) -> _core.States:
    return space.rollout(space.root(), range(count))


@pytest.mark.parametrize("name", ["pyramid", "convolution", "two_outputs", "boundary"])
def test_memoization_changes_no_cost(name: str) -> None:
    space = make_space(extract(PIPELINES[name]()))
    states = leaves_of(space)
    forgetful = without_memo(space).cost(states, MODEL)
    assert forgetful.tolist() == space.cost(states, MODEL).tolist() == without_memo(space).cost(states, MODEL).tolist()


@pytest.mark.parametrize("name", ["convolution", "histogram", "random 42", "random 205"])
def test_rows_that_neighbours_share_are_those_of_each(name: str) -> None:
    """They differ in one decision, so that most rows of one are remembered for the others."""
    word, _, seed = name.partition(" ")
    space = make_space(extract(random_program(int(seed)).pipeline if seed else PIPELINES[word]()))
    seen = 0
    for leaf in (
        BeamSearch(width=1).search(space, MODEL, Budget()).state,
        *(leaves_of(space).take([i]) for i in (1, 2)),
    ):
        for position in range(space.decision_count):
            around = space.neighbours(leaf, position)
            seen += len(around)
            assert space.cost(around, MODEL).tolist() == without_memo(space).cost(around, MODEL).tolist()
    assert seen > 50


@pytest.mark.parametrize("build", [pyramid, convolution])
def test_memoization_changes_no_cost_of_a_gpu(build: object) -> None:
    space = gpu_space(build)[1]  # type: ignore[arg-type]
    states = leaves_of(space)
    assert without_memo(space).cost(states, MODEL).tolist() == space.cost(states, MODEL).tolist()


def test_memoization_changes_no_result() -> None:
    space = gpu_space(pyramid)[1]
    batch = Batch(searches=4, width=4, passes=2)
    found = [batch.search(one, MODEL, Budget.start()) for one in (space, without_memo(space))]
    assert space.path(found[0].state) == space.path(found[1].state)
    assert found[0].candidates == found[1].candidates


def test_memoization_is_an_option() -> None:
    assert SearchOptions().space.memoize
    assert not SearchOptions(memoization=False).space.memoize


def test_a_batch_is_no_worse_than_its_beam() -> None:
    space = gpu_space(pyramid)[1]
    beam, batch = (Batch(searches=count).search(space, MODEL, Budget.start()) for count in (1, 20))
    assert batch.cost_seconds <= beam.cost_seconds
    assert batch.candidates > beam.candidates


def test_a_batch_names_all_it_found_best_first() -> None:
    space = gpu_space(pyramid)[1]
    found = Batch(searches=30, sampling=False, freezing=False).search(space, MODEL, Budget.start())
    states = (found.state, *found.alternatives)
    costs = [float(space.cost(state, MODEL)[0]) for state in states]
    assert len(states) > 6  # more than one beam tells
    assert costs == sorted(costs)
    assert costs[0] == found.cost_seconds
    assert len({int(space.identity_hash(state)[0]) for state in states}) == len(states)


def test_batches_of_other_seeds_look_elsewhere() -> None:
    space = gpu_space(pyramid)[1]
    counts = {
        Batch(searches=3, width=2, seed=seed).search(space, MODEL, Budget.start()).candidates for seed in range(4)
    }
    assert len(counts) > 1


def test_filters_of_a_batch_are_its_options() -> None:
    space = gpu_space(pyramid)[1]
    batch = Batch(searches=1)
    whole = replace(batch, sampling=False, freezing=False).search(space, MODEL, Budget.start()).candidates
    for filtered in (replace(batch, freezing=False), replace(batch, sampling=False)):
        fewer = filtered.search(space, MODEL, Budget.start()).candidates
        assert batch.search(space, MODEL, Budget.start()).candidates < fewer < whole
    assert SearchOptions(strategy="batch").make() == Batch()
    assert SearchOptions(strategy="batch", sampling=False, freezing=False, searches=7, seed=2).make() == Batch(
        7, sampling=False, freezing=False, seed=2
    )


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(SearchError, match="at least 1 search, not 0"):
        Batch(searches=0)


@dataclass(slots=True)
class Recorded:
    """A strategy that remembers the space it was given."""

    spaces: list[_core.Space] = field(default_factory=list)

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        self.spaces.append(space)
        return BeamSearch(width=1).search(space, model, budget)


def buckets(space: _core.Space, states: _core.States, depth: int) -> list[tuple[object, ...]]:
    """What sampling tells apart: from depth 4 on sizes, first how many iterations the outermost levels have."""
    if depth != 4:
        return [(one,) for one in space.structural_hash(states, depth - (depth > 4)).tolist()]
    schedules = [states.take([i]).describe() for i in range(len(states))]
    sizes = [tuple(tuple(iterations(stage) for stage in func.stages) for func in funcs) for funcs in schedules]
    return list(zip(space.structural_hash(states, 3).tolist(), sizes, strict=True))


def iterations(stage: _core.StageNest) -> int:
    """Those of the outermost level, to a power of two."""
    return math.prod(stage.levels[0]).bit_length() if stage.levels else 1


def test_sampling_follows_the_passes() -> None:
    space = gpu_space(pyramid)[1]
    inner = Recorded()
    Sampled(inner, depth=None, seed=4).search(space, MODEL, Budget.start())
    (sampled,) = inner.spaces
    states = space.root()
    for _ in range(4):
        states, _ = space.expand(states)
        states = states.take(list(range(min(20, len(states)))))
    every, _ = space.expand(states)
    counts = []
    for depth in range(6):
        kept, parents = expander_of_pass(sampled, depth)(states)
        assert len(kept) == len(parents)
        found = Counter(buckets(space, kept, depth))
        assert found == {
            bucket: max(1, size.bit_length() - 1) for bucket, size in Counter(buckets(space, every, depth)).items()
        }
        counts.append(len(kept))
    assert counts[0] < counts[-1] <= len(every)
    children, _ = expander_of_pass(space, 3)(states)
    assert space.identity_hash(children).tolist() == space.identity_hash(every).tolist()


def hashes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


def test_what_proved_bad_pays_and_what_was_never_seen_does_not() -> None:
    lessons = HashLessons(promising=hashes(2, 5), seen=hashes(2, 3, 5))
    assert lessons.factors(hashes(2, 3, 4, 5), 10.0).tolist() == [1.0, 11.0, 1.0, 1.0]
    assert lessons.factors(hashes(2, 3, 4, 5), math.inf).tolist() == [1.0, math.inf, math.inf, 1.0]
    assert lessons.factors(hashes(3, 4), math.inf).tolist() == [1.0, 1.0]
    assert HashLessons(hashes(), hashes()).factors(hashes(1), 10.0).tolist() == [1.0]


def test_distinct_hashes_are_sorted() -> None:
    assert distinct_hashes([hashes(3, 1), hashes(), hashes(3, 2)]).tolist() == [1, 2, 3]
    assert distinct_hashes([]).tolist() == []


def test_where_there_is_nothing_to_choose_nothing_is_costed() -> None:
    space = gpu_space(pyramid)[1]
    found = BeamSearch(width=1).search(space, MODEL, Budget.start())
    options = space.options
    path = space.path(found.state)
    for func in set(space.decision_funcs):
        options.freeze(func, [one for one, of in zip(path, space.decision_funcs, strict=True) if of == func])
    frozen = space.restrict(options)
    again = BeamSearch(width=4, passes=2, bad_penalty=10, scouts=False).search(frozen, MODEL, Budget.start())
    assert again.candidates == 0
    assert (space.path(again.state), again.cost_seconds) == (path, found.cost_seconds)
