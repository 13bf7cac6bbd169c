"""Random complete loop nests of small pipelines: their directives apply, compile, and change no result at any size."""

from collections import Counter
from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import (
    PIPELINES,
    ExactRuns,
    X,
    Y,
    blur,
    chain,
    cpu_space,
    input_read_twice,
    product_inside,
    pyramid,
    schedule_of,
    sums_output,
)

from metol import _core
from metol.lower import Call, LoweringOptions, Tail, cpu_directives

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


def test_an_output_has_a_version_for_the_sides_that_are_whole_around_others() -> None:
    dag, space = cpu_space(blur)
    output = next(index for index, func in enumerate(dag.funcs) if func.is_output)
    seen = set()
    for seed in range(80):
        state = space.rollout(space.root(), [seed])
        schedules = state.describe()
        (nest,) = schedules[output].stages
        inside = [
            site.level
            for s in schedules
            if s.placement == _core.Placement.AT
            for site in (s.compute, s.store)
            if not site.is_root
        ]
        # A side is whole inside a level where no loop along it turns there or further out, and its tile is inside.
        whole = {d for d in (0, 1) if any(all(nest.levels[k][d] == 1 for k in range(level + 1)) for level in inside)}
        directives = [d for d in schedule_of(blur, dag, state).directives if d.func == output]
        pinned = {d for c in directives if c.call is Call.SPECIALIZE_SIZE for d in c.args[::3]}
        if any(c.call is Call.SPECIALIZE for c in directives):
            assert pinned <= whole
            seen.add(frozenset(pinned))
        without = cpu_directives(dag, schedules, LoweringOptions(specialize_estimate=False))
        assert all(d.call is not Call.SPECIALIZE_SIZE for d in without)
    assert len(seen) > 1


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


@pytest.mark.parametrize("build", [chain, input_read_twice], ids=lambda build: build.__name__)
def test_one_loop_of_a_stage_at_most_has_predicated_loads(build: Callable[[], hl.Pipeline]) -> None:
    # Of two that are predicated, Halide 21 forgets one in vectors, and reads beyond the input.
    dag, space = cpu_space(build)
    leaves = space.rollout(space.root().take([0] * 60), list(range(60)))
    most = 0
    for position in range(60):
        directives = schedule_of(build, dag, leaves.take([position])).directives
        predicated = [d for d in directives if d.call is Call.SPLIT and d.args[-1] is Tail.PREDICATE_LOADS]
        stages = Counter((d.func, d.stage) for d in predicated)
        vectors = {(d.func, d.stage, d.args[0]) for d in directives if d.call is Call.VECTORIZE}
        assert all((d.func, d.stage, d.args[2]) in vectors for d in predicated)
        most = max(most, *stages.values(), 0)
    assert most == 1


def test_loads_are_predicated_only_where_nothing_that_computes_is_inlined() -> None:
    # Halide 21 puts all of what is inlined under the predicate, takes out of it the load that occurs there twice, and
    # makes that without one: beyond the end of the input.
    dag, space = cpu_space(product_inside)
    product, mixed = (
        next(i for i, func in enumerate(dag.funcs) if func.name.split("$")[0] == name) for name in ("product", "mixed")
    )
    leaves = space.rollout(space.root().take([0] * 200), list(range(200)))
    tails_where_inlined: dict[bool, set[Tail]] = {True: set(), False: set()}
    with_inlined = []
    for position in range(200):
        leaf = leaves.take([position])
        schedule = schedule_of(product_inside, dag, leaf)
        own = [d for d in schedule.directives if d.func == mixed]
        if any(d.call is Call.VECTORIZE for d in own):
            is_inlined = leaf.describe()[product].placement == _core.Placement.INLINE
            tails_where_inlined[is_inlined] |= {d.args[-1] for d in own if d.call is Call.SPLIT}
            with_inlined += [schedule] if is_inlined else []
    assert Tail.PREDICATE_LOADS in tails_where_inlined[False]
    assert Tail.GUARD_WITH_IF in tails_where_inlined[True]
    assert Tail.PREDICATE_LOADS not in tails_where_inlined[True]
    runs = ExactRuns("product_inside")
    for schedule in with_inlined[:3]:
        runs.check(schedule)


def coloured() -> hl.Pipeline:
    """Clamped along x and y, and not along c."""
    source, edges, output, c = hl.ImageParam(hl.Int(32), 3, "source"), hl.Func("edges"), hl.Func("output"), hl.Var("c")
    sides = source.dim(0).extent() - 1, source.dim(1).extent() - 1
    edges[X, Y, c] = source[hl.clamp(X, 0, sides[0]), hl.clamp(Y, 0, sides[1]), c]
    output[X, Y, c] = edges[X - 1, Y, c] + edges[X + 1, Y + 1, c]
    source.set_estimates([(0, 64), (0, 48), (0, 3)])
    output.set_estimates([(0, 64), (0, 48), (0, 3)])
    return hl.Pipeline(output)


def test_loops_may_round_up_where_reads_are_clamped_along_them() -> None:
    dag, space = cpu_space(coloured)
    leaves = space.rollout(space.root().take([0] * 200), list(range(200)))
    edges = next(i for i, func in enumerate(dag.funcs) if func.name.split("$")[0] == "edges")
    tails: dict[str, set[Tail]] = {"v": set(), "c": set()}
    for position in range(200):
        for d in schedule_of(coloured, dag, leaves.take([position])).directives:
            if d.func == edges and d.call is Call.SPLIT:
                is_clamped = d.args[0].name.split("_")[0] != "c"
                tails["v" if is_clamped else "c"].add(d.args[-1])
    assert Tail.ROUND_UP in tails["v"]
    assert tails["c"] <= {Tail.GUARD_WITH_IF, Tail.PREDICATE_LOADS}
    assert tails["c"]


def test_no_loop_with_predicated_loads_encloses_what_reads_an_input() -> None:
    # The region of what is computed inside would be rounded up, and with it what is read of the input.
    dag, space = cpu_space(input_read_twice)
    inner, outer = (
        next(i for i, func in enumerate(dag.funcs) if func.name.split("$")[0] == name) for name in ("inner", "outer")
    )
    leaves = space.rollout(space.root().take([0] * 200), list(range(200)))
    tails_where_inside: dict[bool, set[Tail]] = {True: set(), False: set()}
    for position in range(200):
        directives = schedule_of(input_read_twice, dag, leaves.take([position])).directives
        is_inside = any(d.func == inner and d.call is Call.COMPUTE_AT and d.args[0].func == outer for d in directives)
        tails_where_inside[is_inside] |= {d.args[-1] for d in directives if d.func == outer and d.call is Call.SPLIT}
    assert Tail.PREDICATE_LOADS in tails_where_inside[False]
    assert Tail.GUARD_WITH_IF in tails_where_inside[True]
    assert Tail.PREDICATE_LOADS not in tails_where_inside[True]


def test_updates_of_outputs_of_one_dimension_have_no_vectors() -> None:
    # Halide 21 loads them under a predicate as if the user's buffer were aligned to a vector.
    dag, space = cpu_space(sums_output)
    (output,) = dag.outputs
    leaves = space.rollout(space.root().take([0] * 20), list(range(20)))
    vectors = [
        d.stage
        for position in range(20)
        for d in schedule_of(sums_output, dag, leaves.take([position])).directives
        if d.func == output and d.call is Call.VECTORIZE
    ]
    assert set(vectors) == {0}
