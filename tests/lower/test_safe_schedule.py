"""The schedules that need no search are right on everything."""

import halide as hl
import pytest
from lower_cases import without_renames
from slow_cases import slow_but
from small_pipelines import PIPELINES, ExactRuns, X, Y, finish, image

from metol.lower import (
    Call,
    Directive,
    RVar,
    Schedule,
    describe_funcs,
    plain_directives,
    root_directives,
    safe_directives,
)
from metol.pipeline import extract

VECTOR_BYTES = 32


def schedule(pipeline: hl.Pipeline, directives: tuple[Directive, ...]) -> Schedule:
    return Schedule(describe_funcs(pipeline), directives)


@pytest.mark.parametrize("name", slow_but(["chain", "scan", "tuples", "in_place", "boundary", "where"], PIPELINES))
def test_safe_schedule_is_right_at_every_size(name: str) -> None:
    pipeline = PIPELINES[name]()
    ExactRuns(name).check(schedule(pipeline, safe_directives(extract(pipeline), VECTOR_BYTES)))


@pytest.mark.parametrize("name", ["histogram", "scan", "tuple_output", "no_dimension"])
def test_root_schedule_is_right_at_every_size(name: str) -> None:
    pipeline = PIPELINES[name]()
    ExactRuns(name).check(schedule(pipeline, root_directives(extract(pipeline))))


@pytest.mark.parametrize("name", list(PIPELINES))
def test_plain_schedule_needs_no_dag_to_be_the_same(name: str) -> None:
    pipeline = PIPELINES[name]()
    assert plain_directives(pipeline) == root_directives(extract(pipeline))


def test_safe_schedule_inlines_what_passes_on_one_value_and_computes_the_rest() -> None:
    source, output = image(48, 32), hl.Func("output")
    passed, summed = hl.Func("passed"), hl.Func("summed")
    passed[X, Y] = hl.i64(source[X, Y])
    summed[X, Y] = passed[X, Y] + passed[X + 1, Y]
    output[X, Y] = hl.i32(summed[X, Y]) * 2
    pipeline = finish(output)
    found = safe_directives(extract(pipeline), VECTOR_BYTES)
    names = [func.name for func in describe_funcs(pipeline)]
    assert [names[d.func] for d in found if d.call is Call.COMPUTE_ROOT] == ["summed", "output"]
    assert [d.call for d in without_renames(found) if names[d.func] == "output"] == [
        Call.COMPUTE_ROOT,
        Call.SPLIT,
        Call.VECTORIZE,
        Call.PARALLEL,
    ]


def test_rows_that_an_update_writes_one_by_one_are_parallel() -> None:
    def build() -> hl.Pipeline:
        source, inner, output = image(40, 24), hl.Func("inner"), hl.Func("output")
        r = hl.RDom([(1, 38), (1, 22)], "r")
        inner[X, Y] = source[X, Y]
        inner[r.x, r.y] = source[r.x, r.y] + source[r.x - 1, r.y + 1] * inner[r.x, r.y]
        output[X, Y] = inner[X, Y] * 3
        return finish(output)

    directives = safe_directives(extract(build()), VECTOR_BYTES)
    (rows,) = (one.args[0] for one in directives if one.stage == 1 and one.call is Call.PARALLEL)
    assert isinstance(rows, RVar)
    assert rows.name.endswith("$y")
    ExactRuns("interior", build).check(schedule(build(), directives))


def test_kept_funcs_are_left_out() -> None:
    pipeline = PIPELINES["chain"]()
    dag = extract(pipeline)
    for found in (safe_directives(dag, VECTOR_BYTES, [1]), root_directives(dag, [1]), plain_directives(pipeline, [1])):
        assert found
        assert 1 not in {directive.func for directive in found}
