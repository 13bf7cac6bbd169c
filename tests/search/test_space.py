"""The search space: what its batches promise, whatever the pipeline."""

import json
from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pipelines import (
    PIPELINES,
    WIDTH,
    blur,
    boundary,
    chain,
    convolution,
    cpu_space,
    gpu_space,
    make_gpu_space,
    make_space,
    pyramid,
)

from metol import _core
from metol.pipeline import PipelineDag, extract
from metol.pipeline.random_programs import random_program

SAMPLE = ("blur", "pyramid", "convolution", "two_outputs", "histogram", "no_dimension")


@pytest.fixture(scope="module", params=[f"{target}-{name}" for target in ("cpu", "gpu") for name in SAMPLE])
def space(request: pytest.FixtureRequest) -> _core.Space:
    target, _, name = request.param.partition("-")
    return (cpu_space if target == "cpu" else gpu_space)(PIPELINES[name])[1]


def repeated(space: _core.Space, count: int) -> _core.States:
    return space.root().take([0] * count)


def leaves_of(space: _core.Space, count: int) -> _core.States:
    return space.rollout(space.root(), range(count))


def partial(space: _core.Space, decisions: int, seed: int = 0) -> _core.States:
    """A state after some random decisions."""
    state = space.root()
    for step in range(min(decisions, space.decision_count - 1)):
        state = space.sample(state, [seed + step])
    return state


def restricted(space: _core.Space, **switches: bool) -> _core.Space:
    options = _core.SpaceOptions()
    for name, value in switches.items():
        setattr(options, name, value)
    return space.restrict(options)


def hashes(space: _core.Space, states: _core.States) -> list[int]:
    return [int(h) for h in space.identity_hash(states)]


@pytest.mark.parametrize("decisions", [0, 1, 2, 4])
def test_child_by_number_is_what_expand_makes(space: _core.Space, decisions: int) -> None:
    state = partial(space, decisions)
    children, parents = space.expand(state)
    made = [space.child(state, number) for number in range(space.child_count(state))]
    states = [child for child in made if not isinstance(child, str)]
    assert [hashes(space, child)[0] for child in states] == hashes(space, children)
    assert set(parents.tolist()) == {0}
    assert all(child in space.pruned_counts() for child in made if isinstance(child, str))


def test_expand_tells_the_parent_of_each_child(space: _core.Space) -> None:
    first, _ = space.expand(space.root())
    children, parents = space.expand(first)
    for index in range(len(first)):
        own, _ = space.expand(first.take([index]))
        assert hashes(space, own) == hashes(space, children.take(np.flatnonzero(parents == index).tolist()))
    for child, parent in zip(range(len(children)), parents.tolist(), strict=True):
        assert space.path(children.take([child]))[:-1] == space.path(first.take([parent]))


def test_a_child_out_of_range_is_a_reason(space: _core.Space) -> None:
    root = space.root()
    for number in (-1, space.child_count(root), 1 << 62):
        assert space.child(root, number) == "invalid_decision"


def test_a_complete_loop_nest_has_no_children(space: _core.Space) -> None:
    leaf = leaves_of(space, 1)
    assert space.child_count(leaf) == 0
    assert len(space.expand(leaf)[0]) == 0


@pytest.mark.parametrize("decisions", [0, 3])
def test_sample_gives_a_child_of_expand(space: _core.Space, decisions: int) -> None:
    state = partial(space, decisions)
    children = set(hashes(space, space.expand(state)[0]))
    sampled = space.sample(state, range(64))
    found = set(hashes(space, sampled))
    assert found <= children
    assert len(found) > 1 or len(children) == 1


@pytest.mark.parametrize("draw", [_core.Space.sample, _core.Space.rollout])
def test_one_state_serves_all_seeds(space: _core.Space, draw: Callable[..., _core.States]) -> None:
    root = space.root()
    assert hashes(space, draw(space, root, range(8))) == hashes(space, draw(space, repeated(space, 8), range(8)))
    assert len(draw(space, root, [])) == 0


@pytest.mark.parametrize("draw", [_core.Space.sample, _core.Space.rollout])
@pytest.mark.parametrize(("states", "seeds"), [(2, 1), (2, 3), (3, 0), (0, 1)])
def test_as_many_seeds_as_states_or_one_state(
    space: _core.Space, draw: Callable[..., _core.States], states: int, seeds: int
) -> None:
    with pytest.raises(ValueError, match=f"{states} states and {seeds} seeds"):
        draw(space, repeated(space, states), range(seeds))


def test_rollouts_are_complete_and_repeatable(space: _core.Space) -> None:
    first, again = leaves_of(space, 16), leaves_of(space, 16)
    assert (first.decisions_made == space.decision_count).all()
    assert hashes(space, first) == hashes(space, again)
    for leaf in range(16):
        schedules = first.take([leaf]).describe()
        assert all(s.placement != _core.Placement.UNSCHEDULED for s in schedules if s.func in space.decision_funcs)


def test_rollout_does_not_depend_on_the_batch(space: _core.Space) -> None:
    together = hashes(space, leaves_of(space, 8))
    apart = [hashes(space, space.rollout(space.root(), [seed]))[0] for seed in range(8)]
    assert together == apart


def test_replay_follows_a_path_through_json(space: _core.Space) -> None:
    leaves = leaves_of(space, 12)
    for leaf in (leaves.take([i]) for i in range(len(leaves))):
        path = json.loads(json.dumps(space.path(leaf)))
        assert len(path) == space.decision_count
        replayed = space.replay(path)
        assert hashes(space, replayed) == hashes(space, leaf)
        assert space.path(replayed) == space.path(leaf)


def test_replay_works_in_another_space_of_the_same_pipeline() -> None:
    ours, theirs = (make_space(extract(chain())) for _ in range(2))
    leaf = leaves_of(ours, 1)
    assert hashes(theirs, theirs.replay(ours.path(leaf))) == hashes(ours, leaf)


@pytest.mark.parametrize("path", [[[0] * 20], [[0] * 22], [[]], [[99] * 21], [[-1] * 21]])
def test_replay_refuses_what_is_no_decision(path: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="decision"):
        cpu_space(blur)[1].replay(path)


def test_identity_hashes_tell_loop_nests_apart(space: _core.Space) -> None:
    leaves = leaves_of(space, 100)

    def picture(leaf: _core.States) -> str:
        return repr(
            [
                (
                    str(s.placement),
                    [(site.stage, site.level) for site in (s.compute, s.store)],
                    (s.slide_dim, s.innermost_dim, s.storage.name),
                    [(n.levels, n.vector_loop, n.vector_width, n.is_parallel) for n in s.stages],
                )
                for s in leaf.describe()
            ]
        )

    pictures = [picture(leaves.take([i])) for i in range(len(leaves))]
    numbers = hashes(space, leaves)
    assert len(set(zip(pictures, numbers, strict=True))) == len(set(numbers)) == len(set(pictures))


def test_structural_hashes_grow_finer_with_depth(space: _core.Space) -> None:
    leaves = leaves_of(space, 60)
    for depth in range(6):
        coarse, fine = space.structural_hash(leaves, depth), space.structural_hash(leaves, depth + 1)
        # States that agree in detail agree roughly.
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))


def test_structural_hash_at_depth_0_knows_only_placements(space: _core.Space) -> None:
    leaves = leaves_of(space, 60)
    placements = [tuple(str(s.placement) for s in leaves.take([i]).describe()) for i in range(len(leaves))]
    numbers = space.structural_hash(leaves, 0).tolist()
    assert len(set(zip(placements, numbers, strict=True))) == len(set(numbers)) == len(set(placements))


@pytest.mark.parametrize("build", [pyramid, convolution, boundary])
def test_costs_and_features_do_not_depend_on_batch_order_or_threads(build) -> None:
    dag = extract(build())
    reference = make_space(dag)
    expected = reference.cost(leaves_of(reference, 24), _core.CostModel())
    features = reference.featurize(leaves_of(reference, 24))
    for threads in (1, 2, 4):
        space = make_space(dag, threads=threads)
        leaves = leaves_of(space, 24)
        backwards = leaves.take(list(reversed(range(24))))
        np.testing.assert_array_equal(space.cost(backwards, _core.CostModel())[::-1], expected)
        one_by_one = [space.cost(leaves.take([i]), _core.CostModel())[0] for i in range(24)]
        np.testing.assert_array_equal(one_by_one, expected)
        np.testing.assert_array_equal(space.featurize(backwards)[::-1], features)
        np.testing.assert_array_equal(space.featurize(leaves.take([5]))[0], features[5])


@pytest.mark.parametrize("make", [make_space, make_gpu_space])
@pytest.mark.parametrize("build", [pyramid, convolution, chain])
def test_costs_are_the_same_without_anything_remembered(build, make) -> None:
    space = make(extract(build()))
    partials = space.root()
    for _ in range(4):  # what is remembered of these is found again in their descendants
        partials, _ = space.expand(partials.take(range(min(4, len(partials)))))
        space.cost(partials, _core.CostModel())
    leaves = leaves_of(space, 40)
    remembered = space.cost(leaves, _core.CostModel())
    for position in range(len(leaves)):
        fresh = space.cost(leaves.take([position]), _core.CostModel(1000 + position))
        assert fresh[0] == remembered[position]


def test_costs_do_not_depend_on_the_pipelines_before_them() -> None:
    dags = [extract(build()) for build in PIPELINES.values()]

    def costs_in_order(order: range) -> dict[int, list[float]]:
        found = {}
        for position in order:
            space = make_space(dags[position])
            found[position] = space.cost(leaves_of(space, 12), _core.CostModel()).tolist()
        return found

    assert costs_in_order(range(len(dags))) == costs_in_order(range(len(dags) - 1, -1, -1))


def test_a_cost_is_the_sum_over_its_stages(space: _core.Space) -> None:
    leaves = leaves_of(space, 20)
    costs = space.cost(leaves, _core.CostModel())
    sums = [space.stage_costs(leaves.take([i]), _core.CostModel()).sum() for i in range(len(leaves))]
    np.testing.assert_allclose(sums, costs, rtol=1e-6)


def test_costs_are_positive(space: _core.Space) -> None:
    costs = space.cost(leaves_of(space, 50), _core.CostModel())
    assert np.isfinite(costs).all()
    assert (costs > 0).all()


def placements_of(space: _core.Space, count: int = 60) -> list[list[_core.FuncSchedule]]:
    leaves = leaves_of(space, count)
    return [leaves.take([i]).describe() for i in range(count)]


def test_restrict_to_no_inlining() -> None:
    for schedules in placements_of(restricted(cpu_space(chain)[1], allow_inline=False)):
        assert all(s.placement != _core.Placement.INLINE for s in schedules)


def test_restrict_to_root_or_inline() -> None:
    for schedules in placements_of(restricted(cpu_space(chain)[1], allow_compute_at=False)):
        assert all(s.placement != _core.Placement.AT for s in schedules)


def test_restrict_to_no_sliding() -> None:
    space = cpu_space(chain)[1]
    assert any(s.slide_dim >= 0 for schedules in placements_of(space) for s in schedules)
    for schedules in placements_of(restricted(space, allow_sliding=False)):
        assert all(s.slide_dim < 0 for s in schedules)


def test_restrict_to_no_splits() -> None:
    space = restricted(cpu_space(chain)[1], allow_split=False)
    leaves = leaves_of(space, 60)
    kinds = [decision for i in range(60) for decision in space.path(leaves.take([i]))]
    assert all(decision[4] == 0 for decision in kinds)


def test_restrict_to_no_unrolling() -> None:
    for schedules in placements_of(restricted(cpu_space(chain)[1], allow_unroll=False)):
        for nest in (nest for s in schedules for nest in s.stages):
            points = [count for count in nest.levels[-1] if count > 1]
            assert points in ([], [nest.vector_width])


def test_restrict_with_a_frozen_func_follows_its_decisions() -> None:
    space = cpu_space(chain)[1]
    leaf = leaves_of(space, 1)
    func = space.decision_funcs[0]
    decided = [d for d, owner in zip(space.path(leaf), space.decision_funcs, strict=True) if owner == func]
    options = _core.SpaceOptions()
    options.freeze(func, decided)
    frozen = space.restrict(options)
    leaves = leaves_of(frozen, 20)
    for i in range(20):
        assert frozen.path(leaves.take([i]))[: len(decided)] == decided
    assert len({tuple(frozen.path(leaves.take([i]))) for i in range(20)}) > 1


def test_pruned_counts_count_what_child_refuses() -> None:
    space = make_space(extract(chain()))
    assert set(space.pruned_counts().values()) == {0}
    state = partial(space, 3)
    before = space.pruned_counts()
    reasons = [child for n in range(space.child_count(state)) if isinstance(child := space.child(state, n), str)]
    after = space.pruned_counts()
    assert reasons
    assert {name: after[name] - before[name] for name in after} == {name: reasons.count(name) for name in after}


def test_calls_for_one_state_refuse_a_batch() -> None:
    space = cpu_space(blur)[1]
    batch = repeated(space, 2)
    for call in (
        space.child_count,
        space.path,
        lambda states: states.describe(),
        lambda states: space.child(states, 0),
    ):
        with pytest.raises(ValueError, match="one state"):
            call(batch)


def test_sizes_of_tiles_fit_the_loops() -> None:
    for schedules in placements_of(cpu_space(blur)[1]):
        (nest,) = schedules[-1].stages
        covered = np.prod([level[0] for level in nest.levels])
        assert WIDTH <= covered < 2 * WIDTH + nest.levels[-1][0] * 4


MakeSpace = Callable[[Callable[[], hl.Pipeline]], tuple[PipelineDag, _core.Space]]
SPACES = st.sampled_from((cpu_space, gpu_space))
DECISION = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=21, max_size=21)
PLAUSIBLE = st.tuples(
    st.integers(-1, 7),
    st.integers(-1, 4),
    st.integers(-1, 4),
    st.integers(-2, 4),
    st.integers(0, 1),
    st.integers(0, 1),
    st.integers(-2, 4),
    st.integers(-1, 64),
    st.integers(-1, 3),
    *([st.integers(-2, 70)] * 12),
).map(list)


@settings(max_examples=300)
@given(
    make=SPACES,
    path=st.lists(st.one_of(DECISION, PLAUSIBLE), min_size=1, max_size=4),
    decided=st.integers(0, 8),
)
def test_replay_of_nonsense_is_an_error_or_a_state(make: MakeSpace, path: list[list[int]], decided: int) -> None:
    space = make(convolution)[1]
    start = space.path(partial(space, decided, seed=decided))
    try:
        state = space.replay([*start, *path])
    except ValueError:
        return
    assert len(space.path(state)) == len(start) + len(path)
    leaf = space.rollout(state, [0])
    assert np.isfinite(space.cost(leaf, _core.CostModel())[0])


@settings(max_examples=200)
@given(make=SPACES, data=st.data(), seed=st.integers(0, 50))
def test_replay_of_a_damaged_path_is_an_error_or_a_state(make: MakeSpace, data: st.DataObject, seed: int) -> None:
    space = make(pyramid)[1]
    path = [list(decision) for decision in space.path(space.rollout(space.root(), [seed]))]
    position = data.draw(st.integers(0, len(path) - 1))
    path[position][data.draw(st.integers(0, 20))] = data.draw(st.integers(-3, 300))
    try:
        leaf = space.replay(path)
    except ValueError:
        return
    assert np.isfinite(space.cost(leaf, _core.CostModel())[0])


@pytest.mark.parametrize("seed", [2, 15, 54])
def test_the_cheapest_child_never_leads_to_a_state_without_children(seed: int) -> None:
    # In program 54 what must be inlined comes on top of code that is as long as it may be.
    space = make_space(extract(random_program(seed).pipeline))
    state = space.root()
    for _ in range(space.decision_count):
        children, _ = space.expand(state)
        assert len(children) > 0, space.pruned_counts()
        state = children.take([int(np.argmin(space.cost(children, _core.CostModel())))])
