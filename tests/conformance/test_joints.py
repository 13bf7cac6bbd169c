"""Outputs in the same loops, with what both read inside: offered where Halide can do it, right at every size."""

from collections.abc import Callable, Iterator
from itertools import islice

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import (
    HEIGHT,
    SOME_TARGET,
    WIDTH,
    ExactRuns,
    X,
    Y,
    finish,
    image,
    make_space,
    schedule_with,
    some_machine,
)
from verified_runs import Inputs, make_case

from metol import SearchOptions, _core
from metol.candidates import Nest
from metol.errors import ExtractionError
from metol.lower import Call, Schedule, cpu_directives, describe_funcs, rewritten_directives
from metol.measure import schedule_at_root
from metol.measure.case import BufferShape
from metol.measure.compiled import CompiledPipeline
from metol.pipeline import PipelineDag, Staging, extract, find_joints
from metol.planner import Planner

Build = Callable[[], hl.Pipeline]


def blurred(source: hl.Func | hl.ImageParam) -> hl.Func:
    rows, both = hl.Func("rows"), hl.Func("both")
    rows[X, Y] = source[X, Y] + 2 * source[X + 1, Y] + source[X + 2, Y]
    both[X, Y] = rows[X, Y] + 2 * rows[X, Y + 1] + rows[X, Y + 2]
    return both


def clamped(width: int = WIDTH, height: int = HEIGHT) -> hl.Func:
    return hl.BoundaryConditions.repeat_edge(image(width, height), [(0, width), (0, height)])


def edges() -> hl.Pipeline:
    """Outputs of one type around the same blurred image."""
    return edges_of(clamped())


def open_edges() -> hl.Pipeline:
    """The same of an image that is read as far as that goes."""
    return edges_of(image(WIDTH + 4, HEIGHT + 4))


def edges_of(source: hl.Func | hl.ImageParam) -> hl.Pipeline:
    smooth = blurred(source)
    across, down = hl.Func("across"), hl.Func("down")
    across[X, Y] = smooth[X + 2, Y + 1] - smooth[X, Y + 1]
    down[X, Y] = smooth[X + 1, Y + 2] - smooth[X + 1, Y]
    return finish(across, down)


def mixed() -> hl.Pipeline:
    """Three outputs, one a Tuple, of several types."""
    smooth = blurred(clamped())
    first, pair, last = hl.Func("first"), hl.Func("pair"), hl.Func("last")
    first[X, Y] = smooth[X, Y] * 3
    pair[X, Y] = (hl.u8(smooth[X + 1, Y] & 255), smooth[X, Y] - smooth[X, Y + 1])
    last[X, Y] = hl.select(smooth[X, Y] > 300, hl.u16(smooth[X + 1, Y + 1] & 1023), 7)
    return finish(first, pair, last)


BUILDS = (edges, mixed)


def alone() -> hl.Pipeline:
    """Outputs of which none can be joined to another."""
    source = image(WIDTH + 4, HEIGHT + 4)
    read, reader, sums = hl.Func("read"), hl.Func("reader"), hl.Func("sums")
    turned, small, other = hl.Func("turned"), hl.Func("small"), hl.Func("other")
    u, v = hl.Var("u"), hl.Var("v")
    read[X, Y] = source[X, Y] + 1
    reader[X, Y] = read[X, Y] * 2
    sums[X, Y] = 0
    sums[X, Y] += source[X, Y]
    turned[u, v] = source[u, v] - 1
    small[X, Y] = source[X, Y] + 3
    other[X, Y] = X + Y
    for func in (read, reader, sums, turned, other):
        func.set_estimates([(0, WIDTH), (0, HEIGHT)])
    small.set_estimates([(0, WIDTH), (0, HEIGHT // 2)])
    return hl.Pipeline([read, reader, sums, turned, small, other])


def two_pairs() -> hl.Pipeline:
    """Four outputs, two from each of two inputs."""
    outputs = []
    for side in "ab":
        source = image(WIDTH, HEIGHT, name=side)
        for number in (1, 2):
            func = hl.Func(f"{side}{number}")
            func[X, Y] = source[X, Y] + number
            outputs.append(func)
    return finish(*outputs[::2], *outputs[1::2])


def names(dag: PipelineDag, joints: tuple[tuple[int, ...], ...]) -> list[list[str]]:
    return [[dag.funcs[number].name.split("$")[0] for number in joint] for joint in joints]


def test_outputs_of_the_same_loops_that_read_something_alike_are_offered() -> None:
    for build, expected in (
        (edges, [["across", "down"]]),
        (mixed, [["first", "last", "pair"]]),
        (alone, []),
        (two_pairs, [["a1", "a2"], ["b1", "b2"]]),
    ):
        dag = extract(build())
        found = names(dag, find_joints(dag))
        assert sorted(map(sorted, found)) == expected


def test_a_joint_is_read_as_one_func_of_all_their_values() -> None:
    plain = extract(mixed())
    (joint,) = find_joints(plain)
    dag = extract(mixed(), joints=[joint])
    (output,) = (dag.funcs[number] for number in dag.outputs)
    assert (output.joint, output.origin) == (list(joint), joint[0])
    assert sorted(output.value_bytes) == [1, 2, 4, 4]
    assert len(dag.funcs) == len(plain.funcs) - 2
    # The four places of `smooth` that the outputs read are six loads, for no two share one.
    (edge,) = dag.stages[output.stages[0]].edges
    assert sum(access.count for access in edge.accesses) == 6
    assert [func.joint for func in plain.funcs] == [[]] * len(plain.funcs)


@pytest.mark.parametrize(
    ("build", "chosen"),
    [
        (edges, ["across"]),
        (edges, ["across", "both"]),
        (edges, ["across", "across"]),
        (edges, []),
        (alone, ["small", "sums"]),
        (alone, ["small", "turned"]),
        (alone, ["read", "reader"]),
    ],
)
def test_what_has_no_loops_to_share_is_no_joint(build: Build, chosen: list[str]) -> None:
    numbers = {func.name.split("$")[0]: func.origin for func in extract(build()).funcs}
    with pytest.raises(ExtractionError, match=r"cannot share all its loops|two outputs at least"):
        extract(build(), joints=[[numbers[name] for name in chosen]])


@pytest.mark.parametrize("joint", [(-1, 0), (0, 99)])
def test_a_joint_of_funcs_that_are_not_there_is_refused(joint: tuple[int, int]) -> None:
    with pytest.raises(ExtractionError, match="cannot share all its loops"):
        extract(edges(), joints=[joint])


def test_no_output_is_in_two_joints() -> None:
    (joint,) = find_joints(extract(mixed()))
    for one, other in ((joint[:2], joint[::2]), (joint[:2], joint[1:])):
        with pytest.raises(ExtractionError, match="cannot share all its loops"):
            extract(mixed(), joints=[one, other])


def test_an_output_that_is_there_twice_is_in_no_joint() -> None:
    first, second, third = mixed().outputs()
    dag = extract(hl.Pipeline([first, second, third, first]))
    assert [sorted(joint) for joint in names(dag, find_joints(dag))] == [["last", "pair"]]


def test_nothing_is_copied_for_a_joint() -> None:
    (joint,) = find_joints(extract(edges()))
    (both,) = (func.origin for func in extract(edges()).funcs if func.name.startswith("both"))
    with pytest.raises(ExtractionError, match="nothing to copy"):
        extract(edges(), joints=[joint], stagings=[Staging(both, joint[0])])


def test_estimates_may_still_name_each_output() -> None:
    sides = [(0, 64), (0, 32)]
    estimates = {"across": sides, "down": sides}
    (joint,) = find_joints(extract(edges(), estimates))
    dag = extract(edges(), estimates, joints=[joint])
    assert [side.extent for side in dag.funcs[dag.outputs[0]].estimate] == [64, 32]


def schedules(build: Build, tries: int = 400) -> Iterator[Schedule]:
    """Random schedules of joints in whose loops another Func is computed."""
    joints = find_joints(extract(build()))
    dag = extract(build(), joints=joints)
    space = make_space(dag)
    given = len(describe_funcs(build()))
    for seed in range(tries):
        leaf = space.rollout(space.root(), [seed])
        if any(schedule.placement == _core.Placement.AT for schedule in leaf.describe()):
            directives = cpu_directives(dag, leaf.describe())
            yield schedule_with(build, rewritten_directives(dag, (), directives, given))


@pytest.mark.parametrize("build", slow_but([edges], BUILDS, further=[mixed]))
def test_joints_keep_the_result(build: Build) -> None:
    runs = ExactRuns(build.__name__, build)
    outputs = len(build().outputs())
    for schedule in islice(schedules(build), 3):
        calls = [directive.call for directive in schedule.directives]
        assert calls.count(Call.COMPUTE_WITH) == outputs - 1
        runs.check(Schedule.from_json(schedule.to_json()))


def windowed(build: Build) -> Iterator[Schedule]:
    """Those of them with a window that slides."""
    return (s for s in schedules(build) if any(d.call in (Call.STORE_AT, Call.STORE_ROOT) for d in s.directives))


@pytest.mark.slow
def test_outputs_of_a_joint_may_have_different_sizes_and_places_in_the_end() -> None:
    plain = edges()
    schedule_at_root(plain)
    reference = CompiledPipeline.compile(plain, hl.get_host_target())
    places = [
        (((0, 0), (WIDTH, HEIGHT)), ((0, 0), (WIDTH, HEIGHT))),
        (((0, 0), (1, 1)), ((0, 0), (37, 5))),
        (((0, 0), (2, 31)), ((1, 5), (39, 7))),
        (((-11, -13), (90, 50)), ((31, 17), (33, 65))),
        (((0, 1), (40, 24)), ((0, 0), (40, 24))),
    ]
    whole = Inputs(sizes={"source": (WIDTH, HEIGHT)})
    cases = []
    for sides in [*places, *(pair[::-1] for pair in places)]:
        outputs = [BufferShape("int32", mins, extents, (0, 1)) for mins, extents in sides]
        case = make_case(reference, outputs, whole)
        cases.append((case, reference.run_once(case)[0]))
    for schedule in (*islice(schedules(edges), 1), *islice(windowed(edges), 2)):
        scheduled = edges()
        schedule.apply(scheduled)
        compiled = CompiledPipeline.compile(scheduled, hl.get_host_target())
        for case, expected in cases:
            results, is_intact = compiled.run_once(case)
            assert is_intact
            for result, wanted in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, wanted)


def test_nothing_that_reads_an_input_without_a_clamp_is_inside_a_joint() -> None:
    # Where the outputs end at different places, Halide 21 would ask for more of the input than is there.
    for build, is_allowed in ((edges, True), (open_edges, False)):
        dag = extract(build(), joints=find_joints(extract(build())))
        space = make_space(dag)
        leaves = [space.rollout(space.root(), [seed]).describe() for seed in range(100)]
        inside = [one for leaf in leaves for one in leaf if one.placement == _core.Placement.AT]
        assert any(dag.funcs[dag.stages[one.compute.stage].func].joint for one in inside) == is_allowed
        assert (space.pruned_counts()["asks_for_more"] > 0) != is_allowed


def with_another() -> hl.Pipeline:
    """A joint, and an output of another region that reads the same."""
    smooth = blurred(clamped())
    outputs = [hl.Func(name) for name in ("small", "one", "other")]
    for number, output in enumerate(outputs):
        output[X, Y] = smooth[X + number, Y] - smooth[X, Y + 1]
        output.set_estimates([(0, WIDTH), (0, HEIGHT if number else HEIGHT // 2)])
    return hl.Pipeline(outputs)


def test_a_joint_shares_loops_with_no_other_func() -> None:
    options = _core.SpaceOptions()
    options.allow_fuse = True
    dag = extract(with_another(), joints=find_joints(extract(with_another())))
    space = make_space(dag, options=options)
    assert sum(bool(func.joint) for func in dag.funcs) == 1
    for seed in range(200):
        leaf = space.rollout(space.root(), [seed]).describe()
        assert all(nest.leader < 0 for schedule in leaf for nest in schedule.stages)
    plain = make_space(extract(with_another()), options=options)
    leaves = [plain.rollout(plain.root(), [seed]).describe() for seed in range(200)]
    assert any(nest.leader >= 0 for leaf in leaves for schedule in leaf for nest in schedule.stages)


def large() -> hl.Pipeline:
    """Outputs that read what is dear to compute, and too large to be kept in a cache."""
    smooth = blurred(clamped(4096, 3072))
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = smooth[X + 2, Y + 1] - smooth[X, Y + 1]
    second[X, Y] = smooth[X + 1, Y + 2] - smooth[X + 1, Y]
    return finish(first, second, sizes=(4096, 3072))


def planner_of(build: Build, **options: bool) -> Planner:
    chosen = SearchOptions(strategy="greedy", budget_seconds=None, weights="analytical", **options)
    return Planner(build(), chosen, target=SOME_TARGET, machine=some_machine())


def test_outputs_are_joined_where_that_saves_time_and_is_asked_for() -> None:
    planner = planner_of(large)
    found = planner.search()
    assert found.form is not None
    assert found.result is not None
    assert names(planner.dag, found.form.joints) == [["first", "second"]]
    calls = [directive.call for directive in next(iter(found.candidates)).directives()]
    assert {Call.COMPUTE_WITH, Call.COMPUTE_AT} <= set(calls)
    without = planner_of(large, fuse=False).search()
    assert without.form is not None
    assert without.result is not None
    assert not without.form.joints
    assert found.result.cost_seconds < 0.9 * without.result.cost_seconds


def test_what_was_found_without_joints_is_the_next_choice() -> None:
    found = planner_of(large).search()
    made = [(candidate.origin, candidate.directives()) for candidate in found.candidates]
    origins = [origin for origin, _ in made]
    second = origins.index("search", 1)
    assert Call.COMPUTE_AT in {directive.call for directive in made[0][1]}
    assert set(origins[:second]) <= {"search", "alternative"}
    assert origins[-3:] == ["safe", "root", "none"]


def test_the_decisions_of_a_joint_lead_to_it_again() -> None:
    planner = planner_of(large)
    found = planner.search()
    assert found.form is not None
    assert found.result is not None
    nest = Nest.from_json(planner.nest_of(found.form, found.result.state).to_json())
    assert nest.joints
    other = planner_of(large)
    form, state = other.state_of(nest)
    first = planner.schedule_of(found.form, found.result.state, nest)
    again = other.schedule_of(form, state, nest)
    assert first is not None
    assert again is not None
    assert first.directives == again.directives
