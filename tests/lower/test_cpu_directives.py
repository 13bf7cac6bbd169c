"""Random complete loop nests of small pipelines: their directives apply, compile, and change no result at any size."""

import pytest
from small_pipelines import PIPELINES, ExactRuns, blur, cpu_space, pyramid, schedule_of

from metol import _core
from metol.lower import Call, Tail, cpu_directives

# A handful of each in every run of the suite; more under `slow`.
SEEDS = (0, 3)
MORE_SEEDS = tuple(range(20, 28))


def check(name: str, seeds: tuple[int, ...]) -> None:
    build = PIPELINES[name]
    dag, space = cpu_space(build)
    runs = ExactRuns(name)
    for seed in seeds:
        leaf = space.rollout(space.root(), [seed])
        schedule = schedule_of(build, dag, leaf)
        try:
            runs.check(schedule)
        except Exception as failure:
            failure.add_note(f"seed {seed}, path {space.path(leaf)}\n" + "\n".join(map(str, schedule.directives)))
            raise


@pytest.mark.parametrize("name", PIPELINES)
def test_random_loop_nests_keep_the_result(name: str) -> None:
    check(name, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_more_random_loop_nests_keep_the_result(name: str) -> None:
    check(name, MORE_SEEDS)


def test_directives_are_the_same_for_the_same_loop_nest() -> None:
    dag, space = cpu_space(blur)
    first, again = (schedule_of(blur, dag, space.rollout(space.root(), [5])) for _ in range(2))
    assert first.directives == again.directives


def test_an_output_with_funcs_inside_has_a_version_for_the_estimate() -> None:
    dag, space = cpu_space(blur)
    output = next(index for index, func in enumerate(dag.funcs) if func.is_output)
    seen = set()
    for seed in range(40):
        state = space.rollout(space.root(), [seed])
        hosts_others = any(s.placement == _core.Placement.AT for s in state.describe())
        calls = {d.call for d in schedule_of(blur, dag, state).directives if d.func == output}
        if Call.SPECIALIZE in calls:
            assert (Call.SPECIALIZE_SIZE in calls) == hosts_others
            seen.add(hosts_others)
        without = cpu_directives(dag, state.describe(), specialize_estimate=False)
        assert all(d.call is not Call.SPECIALIZE_SIZE for d in without)
    assert seen == {False, True}


def test_loads_are_predicated_only_where_they_are_dense() -> None:
    # `down` reads every second element: predicated, Halide 21 reads others.
    dag, space = cpu_space(pyramid)
    leaves = space.rollout(space.root().take([0] * 60), list(range(60)))
    down = next(i for i, func in enumerate(dag.funcs) if func.name.split("$")[0] == "down")
    for position in range(60):
        schedule = schedule_of(pyramid, dag, leaves.take([position]))
        calls = [d for d in schedule.directives if d.func == down]
        vectors = {d.args[0] for d in calls if d.call is Call.VECTORIZE}
        tails = [d.args[-1] for d in calls if d.call is Call.SPLIT]
        assert not vectors or Tail.PREDICATE_LOADS not in tails
