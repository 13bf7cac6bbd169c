"""Random complete loop nests of small pipelines: their directives apply, compile, and change no result at any size."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import halide as hl
import pytest
from slow_cases import half_of, slow_but
from small_pipelines import (
    HEIGHT,
    PIPELINES,
    WIDTH,
    ExactRuns,
    X,
    Y,
    blur,
    chain,
    cpu_space,
    finish,
    func_named,
    image,
    input_read_twice,
    make_space,
    product_inside,
    pyramid,
    schedule_of,
    sums_output,
)

from metol import _core
from metol.lower import Call, LoweringOptions, Tail, cpu_directives
from metol.pipeline import extract

# A handful of some in every run of the suite; more, and of all, under `slow`; and more draws for `make test-all`.
QUICK_NAMES = (
    "blur", "chain", "matmul", "histogram", "scan", "half_boundary", "tuple_output", "look_up", "where", "no_dimension",
)  # fmt: skip
SEEDS = (0, 3)
MORE_SEEDS = (20, 21)


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


@pytest.mark.parametrize(
    "name", slow_but(QUICK_NAMES, PIPELINES, further=half_of(PIPELINES, QUICK_NAMES) | {"channels"})
)
def test_random_loop_nests_keep_the_result(name: str) -> None:
    check(name, SEEDS)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PIPELINES)
def test_more_random_loop_nests_keep_the_result(name: str) -> None:
    check(name, MORE_SEEDS)


def test_directives_are_the_same_for_the_same_loop_nest() -> None:
    dag, space = cpu_space(blur)
    first, again = (schedule_of(blur, dag, space.rollout(space.root(), [5])) for _ in range(2))
    assert first.directives == again.directives


def short_rows() -> hl.Pipeline:
    """Rows of eight, which a tile may have whole, of what lies above and below."""
    source, above, output = image(8, HEIGHT + 2), hl.Func("above"), hl.Func("output")
    above[X, Y] = source[X, Y] + source[X, Y + 1]
    output[X, Y] = above[X, Y] * above[X, Y + 1]
    return finish(output, sizes=(8, HEIGHT))


@pytest.mark.parametrize("build", [blur, short_rows])
def test_an_output_has_a_version_for_the_sides_that_are_whole_around_others(build: Callable[[], hl.Pipeline]) -> None:
    dag, space = cpu_space(build)
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
        directives = [d for d in schedule_of(build, dag, state).directives if d.func == output]
        pinned = {d for c in directives if c.call is Call.SPECIALIZE_SIZE for d in c.args[::3]}
        if any(c.call is Call.SPECIALIZE for c in directives):
            assert pinned == whole
            seen.add(frozenset(pinned))
        without = cpu_directives(dag, schedules, LoweringOptions(specialize_estimate=False))
        assert all(d.call is not Call.SPECIALIZE_SIZE for d in without)
    assert len(seen) > 1


def test_the_version_for_small_outputs_has_no_loop_around_others_split_into_parts() -> None:
    dag, space = cpu_space(blur)
    output = next(index for index, func in enumerate(dag.funcs) if func.is_output)
    seen = set()
    for seed in range(40):
        directives = schedule_of(blur, dag, space.rollout(space.root(), [seed])).directives
        whole = [d for d in directives if d.call is Call.NEVER_PARTITION]
        has_branch = any(d.func == output and d.call is Call.SPECIALIZE for d in directives)
        places = {d.args[0].loop for d in directives if d.call is Call.COMPUTE_AT}
        inside = {d.func for d in directives if d.call is Call.COMPUTE_AT}
        assert all(d.func in inside for d in whole if d.func != output)
        whole = [d for d in whole if d.func == output]
        assert all(not d.branch and places <= set(d.args) for d in whole)
        assert bool(whole) == bool(has_branch and places)
        seen.add(bool(whole))
    assert seen == {True, False}


def test_loads_are_predicated_only_where_they_are_dense() -> None:
    # `down` reads every second element: predicated, Halide 21 reads others.
    dag, space = cpu_space(pyramid)
    leaves = space.rollout(space.root(), range(60))
    down = func_named(dag, "down")
    for position in range(60):
        schedule = schedule_of(pyramid, dag, leaves.take([position]))
        calls = [d for d in schedule.directives if d.func == down]
        vectors = {d.args[0] for d in calls if d.call is Call.VECTORIZE}
        tails = [d.args[-1] for d in calls if d.call is Call.SPLIT]
        assert not vectors or Tail.PREDICATE_LOADS not in tails


def mosaic() -> hl.Pipeline:
    """Bytes from a channel that changes from lane to lane."""
    source, c = hl.ImageParam(hl.Int(32), 2, "source"), hl.Var("c")
    names = ("channels", "mixed", "coloured", "bytes", "output")
    channels, mixed, coloured, bytes_, output = (hl.Func(name) for name in names)
    channels[X, Y, c] = source[X, Y] * (c + 3)
    mixed[X, Y, c] = hl.u16((channels[X, Y, c] * 5 + channels[X, Y + 1, c] * 7 + channels[X + 1, Y, c] * 8) % 512)
    coloured[X, Y] = mixed[X, Y, (X + 2 * Y) % 2]
    bytes_[X, Y] = hl.u8((source[X, Y] * 3 - hl.i32(coloured[X, Y]) * 2) % 128)
    output[X, Y] = hl.i32(bytes_[X, Y]) + hl.i32(bytes_[X + 1, Y])
    source.set_estimates([(0, 66), (0, 41)])
    output.set_estimates([(0, 64), (0, 40)])
    return hl.Pipeline(output)


@pytest.mark.slow
def test_no_loads_are_predicated_around_what_is_inlined() -> None:
    # Halide 21 would keep a branch for each lane, in which loads of stride 2 read other elements.
    dag = extract(mosaic())
    place = {func.name.split("$")[0]: i for i, func in enumerate(dag.funcs)}
    options = _core.SpaceOptions()
    options.pin(place["mixed"], True)
    options.pin(place["coloured"], True)
    space = make_space(dag, options=options)
    leaves = space.rollout(space.root(), range(400))
    runs, count = ExactRuns("mosaic", mosaic), 0
    for position in range(400):
        leaf = leaves.take([position])
        placements = [s.placement for s in leaf.describe()]
        if _core.Placement.INLINE in (placements[place["channels"]], placements[place["bytes"]]):
            continue
        schedule = schedule_of(mosaic, dag, leaf)
        calls = [d for d in schedule.directives if d.func == place["bytes"]]
        assert all(d.args[-1] is not Tail.PREDICATE_LOADS for d in calls if d.call is Call.SPLIT)
        # In vectors, with a remainder at the end of nearly every line.
        if any(d.call is Call.VECTORIZE for d in calls) and count < 2:
            runs.check(schedule)
            count += 1
    assert count == 2


def one_for_all(reads_line: bool) -> hl.Pipeline:
    """The last but one reads an input along its vector; or also one element for all lanes."""
    source, sums, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("sums"), hl.Func("output")
    sums[X, Y] = source[X, Y] + source[0 if reads_line else X + 1, Y]
    output[X, Y] = sums[X, Y] * sums[X + 1, Y]
    source.set_estimates([(0, 66), (0, 40)])
    output.set_estimates([(0, 64), (0, 40)])
    return hl.Pipeline(output)


@pytest.mark.parametrize("reads_line", [False, True])
def test_no_loads_are_predicated_around_one_element_for_all_lanes(reads_line: bool) -> None:
    build = partial(one_for_all, reads_line)
    dag, space = cpu_space(build)
    leaves = space.rollout(space.root(), range(60))
    calls = [d for k in range(60) for d in schedule_of(build, dag, leaves.take([k])).directives]
    is_predicated = any(d.call is Call.SPLIT and d.args[-1] is Tail.PREDICATE_LOADS for d in calls)
    assert is_predicated is not reads_line


@pytest.mark.parametrize("build", [chain, input_read_twice], ids=lambda build: build.__name__)
def test_one_loop_of_a_stage_at_most_has_predicated_loads(build: Callable[[], hl.Pipeline]) -> None:
    # Of two that are predicated, Halide 21 forgets one in vectors, and reads beyond the input.
    dag, space = cpu_space(build)
    leaves = space.rollout(space.root(), range(60))
    most = 0
    for position in range(60):
        directives = schedule_of(build, dag, leaves.take([position])).directives
        predicated = [d for d in directives if d.call is Call.SPLIT and d.args[-1] is Tail.PREDICATE_LOADS]
        stages = Counter((d.func, d.stage) for d in predicated)
        vectors = {(d.func, d.stage, d.args[0]) for d in directives if d.call is Call.VECTORIZE}
        assert all((d.func, d.stage, d.args[2]) in vectors for d in predicated)
        most = max(most, *stages.values(), 0)
    assert most == 1


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
    leaves = space.rollout(space.root(), range(200))
    edges = func_named(dag, "edges")
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
    inner, outer = (func_named(dag, name) for name in ("inner", "outer"))
    leaves = space.rollout(space.root(), range(200))
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
    leaves = space.rollout(space.root(), range(20))
    vectors = [
        d.stage
        for position in range(20)
        for d in schedule_of(sums_output, dag, leaves.take([position])).directives
        if d.func == output and d.call is Call.VECTORIZE
    ]
    assert set(vectors) == {0}


def clamped_inside() -> hl.Pipeline:
    """A Func, cheap to inline, that loads a table twice, clamped to the table's estimated size and not to its own."""
    source, table = image(WIDTH + 2, HEIGHT + 2), image(WIDTH, name="table")
    product, mixed, output = (hl.Func(each) for each in ("product", "mixed", "output"))
    place = hl.clamp(X, 0, WIDTH - 1)
    product[X, Y] = table[place] * (table[place] + 1)
    mixed[X, Y] = product[X, Y] % 7 + source[X, Y + 1]
    output[X, Y] = mixed[X, Y] - 2 * mixed[X + 1, Y] + mixed[X + 2, Y + 1]
    return finish(output)


@pytest.mark.parametrize(
    "build",
    slow_but([clamped_inside], [chain, product_inside, clamped_inside]),
    ids=lambda build: build.__name__,
)
def test_loads_are_predicated_only_where_nothing_that_computes_is_inlined(build: Callable[[], hl.Pipeline]) -> None:
    # The predicate goes around the call of what is inlined; of its loads those that occur twice are lifted out of it.
    dag, space = cpu_space(build)
    leaves = space.rollout(space.root(), range(200))
    predicated, inlining = [], []
    for position in range(200):
        leaf = leaves.take([position])
        inlined = {s.func for s in leaf.describe() if s.placement == _core.Placement.INLINE}
        schedule = schedule_of(build, dag, leaf)
        vectors = {d.func for d in schedule.directives if d.call is Call.VECTORIZE}
        for directive in schedule.directives:
            stage = dag.stages[dag.funcs[directive.func].stages[directive.stage]]
            inlines = any(
                not dag.stages[dag.funcs[e.producer].stages[0]].is_identity
                for e in stage.edges
                if e.producer in inlined
            )
            inlining += [schedule] if inlines and directive.func in vectors else []
            if directive.call is Call.SPLIT and directive.args[-1] is Tail.PREDICATE_LOADS:
                predicated.append(schedule)
                assert not inlines
    assert predicated
    assert inlining
    # A reader of the table may round up, which the gate refuses where the table is no larger than it need be.
    if build is not clamped_inside:
        runs = ExactRuns(build.__name__)
        for schedule in (*predicated[:2], *inlining[:2]):
            runs.check(schedule)


def bordered() -> hl.Pipeline:
    """Rows of an image whose edge is repeated as often as sums along and across need."""
    source = image(WIDTH, HEIGHT)
    edges = hl.BoundaryConditions.repeat_edge(source, [(0, WIDTH), (0, HEIGHT)])
    output = hl.Func("output")
    output[X, Y] = edges[X - 1, Y] + edges[X + 1, Y] + edges[X, Y - 1] + edges[X, Y + 1]
    return finish(output)


def test_guarded_borders_are_not_unrolled() -> None:
    dag, space = cpu_space(bordered)
    edges = func_named(dag, "repeat_edge")
    seen = set()
    for seed in range(100):
        described = space.rollout(space.root(), [seed]).describe()
        own = [one for one in cpu_directives(dag, described) if one.func == dag.funcs[edges].origin]
        calls = {one.call for one in own}
        if Call.VECTORIZE in calls:
            guards = {one.args[0].name.split("_all")[0] for one in own if Tail.GUARD_WITH_IF in one.args}
            (lanes,) = (one.args[0].name for one in own if one.call is Call.VECTORIZE)
            is_guarded = lanes.rsplit("_", 1)[0] in guards
            seen.add((is_guarded, Call.UNROLL in calls))
    assert (True, True) not in seen
    assert (True, False) in seen
