"""Vectors of which a `where` takes some lanes alone: below AVX-512 each lane goes by itself.

What Halide and the compiler do is in the first two tests; the others hold the model to it.
"""

import re
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, WIDE_TARGET, X, Y, finish, func_named, image, make_space, some_machine

from metol import autoschedule
from metol.lower import Call
from metol.pipeline import extract

SIZE, LANES = 512, 16
ROLLOUTS = 300


def triangle(*, across: bool) -> tuple[hl.Func, hl.ImageParam]:
    """Sums of columns down to the diagonal, or down to a line that all of them share."""
    source = image(SIZE, SIZE, pixel=hl.UInt(8))
    total = hl.Func("total")
    r = hl.RDom([(0, SIZE)], "r")
    r.where(r.x <= (X if across else Y))
    total[X, Y] = hl.u32(0)
    total[X, Y] += hl.u32(source[X, r.x]) * hl.u32(Y)
    return total, source


@pytest.mark.slow
def test_the_compiler_takes_the_lanes_of_such_a_vector_one_by_one(tmp_path: Path) -> None:
    def inserted_bytes(target: str, *, across: bool) -> int:
        total, source = triangle(across=across)
        total.update().vectorize(X, LANES, hl.TailStrategy.RoundUp)
        path = tmp_path / f"{across}.s"
        total.compile_to_assembly(str(path), [source], "total", hl.Target(f"{target}-no_runtime"))
        return len(re.findall(r"\tvpinsrb\t", path.read_text()))

    assert inserted_bytes(SOME_TARGET, across=True) >= LANES - 1
    assert inserted_bytes(SOME_TARGET, across=False) == 0
    assert inserted_bytes(WIDE_TARGET, across=True) == 0


def in_parts() -> tuple[hl.Func, hl.Func]:
    """Sums of rows whose length no vector divides, in two steps; and what the first of them makes."""
    source = image(SIZE - 3, SIZE)
    total = hl.Func("total")
    r = hl.RDom([(0, SIZE - 3)], "r")
    total[Y] = hl.i32(0)
    total[Y] += source[r, Y]
    outer, inner, lane = hl.RVar("outer"), hl.RVar("inner"), hl.Var("lane")
    total.update().split(r, outer, inner, LANES, hl.TailStrategy.GuardWithIf)
    return total, total.update().rfactor(inner, lane)


def test_vectors_are_whole_until_a_split_ends(tmp_path: Path) -> None:
    total, parts = in_parts()
    lane = next(var for var in parts.args() if var.name() == "lane")
    parts.compute_root().update().vectorize(lane, LANES)
    path = tmp_path / "lowered.stmt"
    total.compile_to_lowered_stmt(str(path), total.infer_arguments(), hl.StmtOutputFormat.Text)
    loads = re.findall(r"source(?:\$\d+)?\[ramp\(.*", path.read_text())
    assert [" if " in load for load in loads] == [False, True]


def test_that_a_split_has_not_ended_tells_no_lanes_apart() -> None:
    total, parts = in_parts()
    parts.compute_root()
    dag = extract(finish(total, sizes=(SIZE,)))
    func = next(i for i, func in enumerate(dag.funcs) if "intm" in func.name)
    update = dag.stages[dag.funcs[func].stages[1]]
    assert update.has_predicate
    assert not any(update.condition_loops)
    assert update.ends_by_place  # a guard for whole parts, as `k <= y` is


def update_rows(target: str, *, across: bool) -> list[dict[str, float]]:
    """The features of the update, where vectors go along the rows."""
    total, _ = triangle(across=across)
    dag = extract(finish(total, sizes=(SIZE, SIZE)))
    space = make_space(dag, target=target)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    func = func_named(dag, "total")
    update = dag.funcs[func].stages[1]
    along_rows = [loop.name for loop in dag.stages[update].loops].index("x")
    rows = []
    for i in range(ROLLOUTS):
        leaf = leaves.take([i])
        if leaf.describe()[func].stages[1].vector_loop == along_rows:
            (features,) = space.featurize(leaf)
            rows.append(dict(zip(space.feature_table(), map(float, features[update]), strict=True)))
    assert rows
    return rows


def test_lanes_that_a_condition_tells_apart_are_loaded_and_stored_by_themselves() -> None:
    rows = update_rows(SOME_TARGET, across=True)
    for row in rows:
        assert row["scalar_loads_per_vector"] >= 2 * row["vector_size"]  # of the sum, which is not kept in registers
        assert row["vector_stores"] == 0


def test_lanes_that_share_a_condition_go_together() -> None:
    rows = update_rows(SOME_TARGET, across=False)
    assert min(row["scalar_loads_per_vector"] for row in rows) == 0
    assert min(row["vector_stores"] / row["num_vectors"] for row in rows) < 0.1  # sums stay in registers


@pytest.mark.parametrize("across", [True, False])
def test_wide_vectors_leave_lanes_out(across: bool) -> None:
    rows = update_rows(WIDE_TARGET, across=across)
    assert {row["scalar_loads_per_vector"] for row in rows} <= {0.0, 1.0}  # a factor that all lanes share
    is_stored_each_time = min(row["vector_stores"] / row["num_vectors"] for row in rows) >= 1
    assert is_stored_each_time == across


def sums_of_rows(*, wide: bool) -> hl.Pipeline:
    """Sums of as many values as are said, of each row; or of rows that follow each other, as in a sparse matrix."""
    ends, values = hl.ImageParam(hl.Int(32), 1, "ends"), image(SIZE, SIZE) if wide else image(100 * SIZE)
    total = hl.Func("total")
    r = hl.RDom([(0, SIZE)], "r")
    total[Y] = hl.i32(0)
    if wide:
        r.where(r.x < ends[Y])
        total[Y] += values[r.x, Y]
    else:
        r.where(ends[Y] + r.x < ends[Y + 1])
        total[Y] += values[hl.clamp(ends[Y] + r.x, 0, values.dim(0).extent() - 1)]
    ends.set_estimates([(0, SIZE + 1)])
    return finish(total, sizes=(SIZE,))


@pytest.mark.parametrize("wide", [True, False])
def test_sums_whose_ends_are_read_are_for_several_tasks(wide: bool) -> None:
    """Unrolled, they would ask for the ends of rows beyond the last; everything that was found went that way."""
    result = autoschedule(sums_of_rows(wide=wide), target=SOME_TARGET, machine=some_machine(), threads=2)
    assert (result.origin, result.fallbacks) == ("search", ())
    update = [one for one in result.schedule.directives if one.stage == 1]
    assert Call.PARALLEL in {one.call for one in update}
    assert Call.UNROLL not in {one.call for one in update}
