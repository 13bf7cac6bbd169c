"""Vectors near a border clamp their lanes: what Halide makes of that, and what lowering and the model know of it."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import BARE_TARGET, WIDE_TARGET, X, Y, finish, func_named, image, some_machine

from metol import _core
from metol.lower import Call, Directive, Var, cpu_directives
from metol.pipeline import extract
from metol.targets.cpu import cpu_parameters

WIDTH, HEIGHT = 1536, 96
TILE, LANES = 128, 8
ROLLOUTS = 600


@dataclass(frozen=True)
class Leaf:
    first: _core.FuncSchedule
    second: _core.FuncSchedule
    directives: tuple[Directive, ...]
    lane_loads: float


def two_stages(*, clamps_between: bool = False) -> hl.Pipeline:
    """The first reads an image between bounds; the second reads the first, between bounds if so wished."""
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = image(WIDTH, HEIGHT, pixel=hl.Float(32))[hl.clamp(X - 1, 0, WIDTH - 1), Y] * X
    column = hl.clamp(X, 0, WIDTH - 1) if clamps_between else X
    second[X, Y] = first[column, Y] + first[column, Y + 1] * hl.f32(0.25)
    return finish(second, sizes=(WIDTH, HEIGHT))


@pytest.mark.parametrize("is_outer_split", [True, False])
def test_of_a_loop_that_is_split_the_loops_inside_are_not(tmp_path: Path, is_outer_split: bool) -> None:
    source, first, second = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("first"), hl.Func("second")
    first[X, Y] = source[hl.clamp(X - 1, 0, WIDTH - 1), Y]
    second[X, Y] = first[X, Y] + first[X + 1, Y]
    outer, inner, lanes = hl.Var("outer"), hl.Var("inner"), hl.Var("lanes")
    second.compute_root().split(X, outer, inner, TILE, hl.TailStrategy.ShiftInwards)
    second.split(inner, inner, lanes, LANES, hl.TailStrategy.RoundUp).reorder(lanes, inner, Y, outer).vectorize(lanes)
    second.never_partition([inner, Y] if is_outer_split else [inner, Y, outer])
    first.compute_at(second, outer).split(X, outer, lanes, LANES, hl.TailStrategy.RoundUp)
    first.vectorize(lanes).never_partition([Y])
    path = tmp_path / "code.txt"
    second.compile_to_lowered_stmt(
        str(path), [source], hl.StmtOutputFormat.Text, hl.Target(f"{BARE_TARGET}-no_asserts")
    )
    code = path.read_text()
    loads = re.findall(r"for \(first\S* (\S+), (.+)\) \{\n.* = source\S*\[(ramp|max|min)", code)
    turns, kinds = [turns for _, turns, _ in loads], [kind == "ramp" for *_, kind in loads]
    assert kinds == [False, True, False]
    # In the first tile and the last, all nine vectors clamp their lanes; or as many as are at the border, in any tile.
    assert (turns.count(str(TILE // LANES + 1)) == 3) == is_outer_split


def leaves(*, clamps_between: bool = False) -> Iterator[Leaf]:
    """Loop nests in which the first Stage runs inside the second, both in vectors along rows.

    With the loads of lanes that the model counts for each vector of the first, by the lanes of a vector. Guards add
    none to them, for with AVX-512 there are masks. No arithmetic counts as shared, which would leave fewer vectors.
    """
    dag = extract(two_stages(clamps_between=clamps_between))
    parameters = cpu_parameters(some_machine(target=WIDE_TARGET), dag)
    parameters.arithmetic = [[] for _ in dag.stages]
    space = _core.Space(dag, parameters, _core.SpaceOptions(), 1)
    column = list(space.feature_table()).index("scalar_loads_per_vector")
    first, second = func_named(dag, "first"), func_named(dag, "second")
    states = space.rollout(space.root(), range(ROLLOUTS))
    for number in range(ROLLOUTS):
        state = states.take([number])
        schedules = state.describe()
        inner, outer = schedules[first], schedules[second]
        if inner.placement != _core.Placement.AT or inner.slide_dim >= 0:
            continue
        if all(nest.vector_loop == 0 and nest.vector_width > 1 for nest in (inner.stages[0], outer.stages[0])):
            loads = space.featurize(state)[0][dag.funcs[first].stages[0]][column]
            yield Leaf(
                schedules[first],
                schedules[second],
                cpu_directives(dag, schedules),
                loads / inner.stages[0].vector_width,
            )


def names_in(directives: Sequence[Directive], *calls: Call) -> set[str]:
    return {arg.name for one in directives if one.call in calls for arg in one.args if isinstance(arg, Var)}


def loops_along_x(leaf: Leaf, schedule: _core.FuncSchedule) -> list[tuple[int, int, bool]]:
    """Of the loops of a Func along x outside its tile, outermost first: level, turns, whether Halide may split it."""
    own = [one for one in leaf.directives if one.func == schedule.func]
    version = max((one.branch for one in own), key=len)
    own = [one for one in own if one.branch == version]
    tile = names_in(own, Call.VECTORIZE, Call.UNROLL)
    (order,) = (one.args for one in own if one.call is Call.REORDER)
    names = [loop.name for loop in reversed(order) if isinstance(loop, Var) and loop.name not in tile]
    # That of all tasks is nothing that Halide can tell the columns of.
    fused = any(one.call is Call.FUSE for one in own)
    around = [name for name in names if name[0] == "x"]
    turning = [(n, level[0]) for n, level in enumerate(schedule.stages[0].levels[:-1]) if level[0] > 1]
    if fused and turning and turning[0][0] == 0:
        around.insert(0, "tasks")
    whole = names_in(own, Call.NEVER_PARTITION) | {"tasks"}
    return [(level, turns, name not in whole) for (level, turns), name in zip(turning, around, strict=False)]


def share_by_directives(leaf: Leaf) -> float:
    """The share of the vectors of the first Stage that clamp their lanes, by the loops that Halide may split."""
    outside = [loop for loop in loops_along_x(leaf, leaf.second) if loop[0] <= leaf.first.compute.level]
    all_turns = 1
    for _, turns, is_split in [*outside, *loops_along_x(leaf, leaf.first)]:
        all_turns *= turns
        if is_split:
            return min(1.0, 2 / all_turns)
    return 1.0


def test_the_model_knows_how_many_vectors_clamp_their_lanes() -> None:
    shares = []
    for leaf in leaves():
        shares.append(share_by_directives(leaf))
        assert leaf.lane_loads == pytest.approx(shares[-1], rel=1e-5), leaf.directives
    assert len(shares) >= 100
    assert len(set(shares)) >= 5


def splits_outside(leaf: Leaf) -> list[bool]:
    """Whether Halide may split them, of the loops along x around the first Stage; that of all tasks is not told."""
    fused = any(one.call is Call.FUSE for one in leaf.directives)
    around = [loop for loop in loops_along_x(leaf, leaf.second) if loop[0] <= leaf.first.compute.level]
    return [is_split for level, _, is_split in around if level > 0 or not fused]


def test_loops_stay_whole_whose_guests_have_the_borders_for_themselves() -> None:
    seen = set()
    for leaf in leaves():
        inside = loops_along_x(leaf, leaf.first)
        if splits_outside(leaf):
            has_the_borders = bool(inside) and inside[-1][2]
            assert splits_outside(leaf) == [not has_the_borders] * len(splits_outside(leaf)), leaf.directives
            seen.add(has_the_borders)
    assert seen == {False, True}


def test_loops_do_not_where_a_guest_is_read_between_bounds() -> None:
    """Its size would be known at run time only."""
    found = [splits_outside(leaf) for leaf in leaves(clamps_between=True)]
    assert sum(map(len, found)) >= 20
    assert all(itertools.chain.from_iterable(found))
