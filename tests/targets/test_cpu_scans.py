"""Scans: each step reads what one before it has stored, from a register or from memory.

What the compiler does is in the first tests; the others hold the model to it.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import halide as hl
import pytest
from assembled import assembly_of, inner_loops
from small_pipelines import SOME_TARGET, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.pipeline import extract

LANES = 8
WIDTH, STEPS = 64, 4096
ROLLOUTS = 600
# Vectors, in all steps, that the core looks ahead over, which hides as much waiting.
LOOK_AHEAD = 128


def scan_along(dim: int, back: int = 1, *, is_downwards: bool = False) -> tuple[hl.Func, hl.RVar, hl.Func]:
    """A running sum along one of two dimensions, its steps, and a Func that reads all of it."""
    length = STEPS + back
    sizes = (WIDTH, length) if dim == 1 else (length, WIDTH)
    source = image(*sizes)
    scan, output = hl.Func("scan"), hl.Func("output")
    domain = hl.RDom([(back, STEPS)], "steps")
    place = length - 1 - domain.x if is_downwards else domain.x
    before = place + back if is_downwards else place - back
    scan[X, Y] = source[X, Y]
    if dim == 1:
        scan[X, place] += scan[X, before]
    else:
        scan[place, Y] += scan[before, Y]
    output[X, Y] = hl.max(scan[X, Y], 0)
    for var, size in zip((X, Y), sizes, strict=True):
        output.bound(var, 0, size)
    finish(output, sizes=sizes)
    return scan, domain.x, output


def loads_a_turn(assembly: str, add: str, additions: int) -> int:
    """Count what the inner loop of so many additions loads."""
    (body,) = (body for body in inner_loops(assembly) if len(re.findall(rf"\t{add}\t.*\(%r", body)) == additions)
    loaded = re.findall(rf"\t(?:v?mov\w+|{add})\t[-\w]*\(%r[^)]*\), %|\t{add}\t%\w+, [-\w]*\(%r", body)
    return len(loaded)


@pytest.mark.parametrize("is_downwards", [False, True], ids=["up", "down"])
@pytest.mark.parametrize(
    ("row", "tile", "unrolled", "back"),
    [(1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 4, 1), (2, 1, 1, 1), (2, 2, 1, 1), (4, 4, 1, 1)],
)
def test_the_last_value_stays_in_a_register_where_rows_are_one_vector(
    tmp_path: Path, row: int, tile: int, unrolled: int, back: int, is_downwards: bool
) -> None:
    scan, steps, output = scan_along(1, back, is_downwards=is_downwards)
    outer, inner, lanes, tiles = hl.Var("outer"), hl.Var("inner"), hl.Var("lanes"), hl.Var("tiles")
    output.split(X, outer, inner, row * LANES).reorder(inner, Y, outer).vectorize(inner, LANES)
    scan.compute_at(output, outer).vectorize(X, LANES)
    update = scan.update()
    update.split(X, tiles, inner, tile * LANES).split(inner, inner, lanes, LANES).reorder(lanes, inner, steps, tiles)
    update.vectorize(lanes).unroll(inner).unroll(steps, unrolled)
    is_carried = (row, unrolled, back) == (1, 1, 1)
    # Each addition loads what it adds to; of unrolled steps, the first alone loads the value of the one before, too.
    expected = tile * unrolled + (0 if is_carried else tile)
    assert loads_a_turn(assembly_of(output, tmp_path), "vpaddd", tile * unrolled) == expected


@pytest.mark.parametrize("back", [1, 2])
def test_the_last_value_of_a_scan_along_a_row_stays_in_a_register_and_no_earlier_one(tmp_path: Path, back: int) -> None:
    scan, _, output = scan_along(0, back)
    scan.compute_at(output, Y)
    assert loads_a_turn(assembly_of(output, tmp_path), "addl", 1) == back


def rows_of_scans(dim: int, back: int = 1) -> Iterator[tuple[_core.FuncSchedule, list[list[int]], dict[str, float]]]:
    """Loop nests of the update of a scan, the counts of their loops (that of the steps first), and their features."""
    _, _, output = scan_along(dim, back)
    dag = extract(hl.Pipeline([output]))
    space = make_space(dag, target=SOME_TARGET)
    func = func_named(dag, "scan")
    stage = dag.funcs[func].stages[1]
    loops = dag.stages[stage].loops
    assert [loop.is_reduction for loop in loops] == [True, False]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        schedule = leaf.describe()[func]
        (rows,) = space.featurize(leaf)
        levels = [list(level)[:2] for level in schedule.stages[1].levels]
        yield schedule, levels, dict(zip(space.feature_table(), map(float, rows[stage]), strict=True))


@pytest.mark.parametrize("back", [1, 2])
def test_steps_that_wait_are_counted(back: int) -> None:
    seen = set()
    for schedule, levels, row in rows_of_scans(1, back):
        width = schedule.stages[1].vector_width
        if schedule.innermost_dim != 0 or width not in (1, LANES):
            continue
        *around, tile = levels
        inside = tile[1]
        while around and around[-1][0] == 1:
            inside *= around.pop()[1]
        in_a_row = tile[0] / back
        while around:
            steps, columns = around.pop()
            in_a_row *= steps
            if columns > 1:
                break
        vectors = inside / width
        steps_in_all = (row["num_vectors"] + row["num_scalars"]) / vectors / back
        waiting = steps_in_all * max(0.0, 1 - LOOK_AHEAD / (vectors * in_a_row))
        assert row["chained_steps"] == pytest.approx(waiting, rel=1e-5)
        if schedule.placement == _core.Placement.ROOT or back > 1:
            # How far apart steps lie at root, the compiler does not know; unrolled ones hand over what they compute.
            assert row["spilled_steps"] == pytest.approx(waiting / tile[0], rel=1e-5)
        seen.add((waiting > 0, tile[0] > 1, inside > tile[1]))
    assert {(True, unrolled, inside) for unrolled in (False, True) for inside in (False, True)} <= seen


def test_what_stays_in_a_register_is_not_loaded() -> None:
    seen = set()
    for schedule, (*_, tile), row in rows_of_scans(1):
        width = schedule.stages[1].vector_width
        is_inside = schedule.placement == _core.Placement.AT and schedule.innermost_dim == 0
        if not is_inside or row["chained_steps"] == 0 or width not in (1, LANES):
            continue
        columns = round(row["points_computed_per_production"] / STEPS)
        is_carried = columns == width and tile == [1, width]
        assert (row["spilled_steps"] == 0) == is_carried
        seen.add((width, is_carried))
    assert {(LANES, True), (LANES, False)} <= seen


def test_a_scan_along_a_row_stays_in_a_register() -> None:
    seen = set()
    for schedule, (*around, tile), row in rows_of_scans(0):
        if schedule.innermost_dim == 0 and schedule.stages[1].vector_width == 1 and row["chained_steps"] > 0:
            at_once = tile[1]
            while around and around[-1][0] == 1:
                at_once *= around.pop()[1]
            is_carried = (tile[0], at_once) == (1, 1)
            assert (row["spilled_steps"] == 0) == is_carried
            seen.add(is_carried)
    assert seen == {False, True}


def scans_along_rows(width: int) -> Iterator[tuple[_core.StageNest, dict[str, float]]]:
    """Loop nests at root of a running sum along rows of so many integers, and their features."""
    source, scan = image(width, WIDTH), hl.Func("scan")
    steps = hl.RDom([(1, width - 1)], "steps")
    scan[X, Y] = source[X, Y]
    scan[steps, Y] += scan[steps - 1, Y]
    dag = extract(finish(scan, sizes=(width, WIDTH)))
    space = make_space(dag, target=SOME_TARGET)
    func = func_named(dag, "scan")
    stage = dag.funcs[func].stages[1]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        (rows,) = space.featurize(leaf)
        row = dict(zip(space.feature_table(), map(float, rows[stage]), strict=True))
        yield leaf.describe()[func].stages[1], row


@pytest.mark.parametrize(("width", "is_aligned"), [(1024, True), (1024 + 16, False)])
def test_rows_a_page_apart_evict_each_other_where_more_are_scanned_at_once_than_a_set_holds(
    width: int, is_aligned: bool
) -> None:
    """Rows of 4 KiB begin in the same set of the first cache, which has a line of eight or twelve of them."""
    seen = set()
    for nest, row in scans_along_rows(width):
        *around, tile = [list(level)[:2] for level in nest.levels]
        at_once = tile[1]
        while around and around[-1][0] == 1:
            at_once *= around.pop()[1]
        if not around or at_once in range(8, 16):
            continue
        points = row["num_vectors"] * row["vector_size"] + row["num_scalars"]
        is_evicted = row["segments_into_l2"] >= points
        assert is_evicted == (is_aligned and at_once >= 16)
        seen.add(at_once >= 16)
    assert seen == {False, True}


def test_vectors_across_rows_are_not_all_there_is_for_a_scan_along_rows() -> None:
    seen = {(schedule.innermost_dim, schedule.stages[1].vector_width == 1) for schedule, _, _ in rows_of_scans(0)}
    assert seen == {(0, False), (0, True), (1, False)}


def filtered() -> hl.Func:
    """A recursive filter along rows: each step waits for a product and a sum of floats."""
    source, scan, output = image(STEPS, WIDTH, pixel=hl.Float(32)), hl.Func("scan"), hl.Func("output")
    r = hl.RDom([(1, STEPS - 1)], "steps")
    scan[X, Y] = source[X, Y]
    scan[r.x, Y] = scan[r.x, Y] + scan[r.x - 1, Y] * hl.f32(0.5)
    output[X, Y] = hl.max(scan[X, Y], hl.f32(0))
    finish(output, sizes=(STEPS, WIDTH))
    return output


def checksums() -> hl.Func:
    """A register for each row, which tells where in a table its next value is."""
    source, table = image(STEPS, WIDTH, pixel=hl.UInt(8), name="source"), image(256, name="table")
    scan, output, r = hl.Func("scan"), hl.Func("output"), hl.RDom([(0, STEPS)], "steps")
    scan[Y] = 0
    scan[Y] = table[hl.i32(hl.u8(scan[Y]) ^ source[r.x, Y])] ^ (scan[Y] >> 8)
    output[Y] = ~scan[Y]
    finish(output, sizes=(WIDTH,))
    return output


@pytest.mark.parametrize(("build", "has_scalars"), [(filtered, False), (checksums, True)])
def test_scalars_are_for_short_steps_and_for_steps_that_load_by_the_last(
    build: Callable[[], hl.Func], has_scalars: bool
) -> None:
    dag = extract(hl.Pipeline(build()))
    space = make_space(dag, target=SOME_TARGET)
    leaves = space.rollout(space.root(), range(100))
    schedules = [leaves.take([i]).describe()[func_named(dag, "scan")] for i in range(100)]
    at_root = [schedule for schedule in schedules if schedule.placement == _core.Placement.ROOT]
    widths = {schedule.stages[1].vector_width for schedule in at_root}
    assert (1 in widths) == has_scalars
    assert widths - {1}
