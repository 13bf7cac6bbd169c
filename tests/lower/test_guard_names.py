"""Guarded splits are of loops under names of their own, so that Halide leaves no guard out."""

import halide as hl
import pytest
from lower_cases import without_renames
from small_pipelines import PIPELINES, X, cpu_space, finish, image, schedule_of

from metol.lower import Call, Directive, RVar, Tail, Var
from metol.lower.guard_names import with_guards_named
from metol.pipeline import PipelineDag, extract

_NEEDS_NO_NAME = (Tail.ROUND_UP, Tail.SHIFT_INWARDS)


def sums() -> hl.Pipeline:
    """Sums of rows, of constant length and of that of an input."""
    source, output = image(40, 40), hl.Func("output")
    fixed, asked = hl.RDom([(0, 20)], "fixed"), hl.RDom([(0, source.height())], "asked")
    output[X] = 0
    output[X] += source[fixed.x, X]
    output[X] += source[X, asked.x]
    return finish(output, sizes=(40,))


def split(stage: int, old: Var | RVar, tail: Tail) -> Directive:
    return Directive(1, stage, Call.SPLIT, (old, type(old)("outer"), type(old)("inner"), 8, tail))


@pytest.fixture(scope="module")
def dag() -> PipelineDag:
    return extract(sums())


@pytest.mark.parametrize("tail", [Tail.GUARD_WITH_IF, Tail.PREDICATE, Tail.PREDICATE_LOADS, Tail.PREDICATE_STORES])
def test_guarded_loop_gets_a_name(dag: PipelineDag, tail: Tail) -> None:
    rename, named = with_guards_named(dag, [split(2, Var("x"), tail)])
    assert rename == Directive(1, 2, Call.RENAME, (Var("x"), Var("x_u2_all")))
    assert named.args == (Var("x_u2_all"), Var("outer"), Var("inner"), 8, tail)


@pytest.mark.parametrize("tail", _NEEDS_NO_NAME)
def test_loop_without_guard_keeps_its_name(dag: PipelineDag, tail: Tail) -> None:
    assert list(with_guards_named(dag, [split(0, Var("x"), tail)])) == [split(0, Var("x"), tail)]


def test_reduction_gets_a_name_where_its_end_is_no_constant(dag: PipelineDag) -> None:
    fixed, asked = split(1, RVar("fixed$x"), Tail.GUARD_WITH_IF), split(2, RVar("asked$x"), Tail.GUARD_WITH_IF)
    assert list(with_guards_named(dag, [fixed])) == [fixed]
    assert [d.call for d in with_guards_named(dag, [asked])] == [Call.RENAME, Call.SPLIT]


def test_part_of_a_loop_keeps_its_name(dag: PipelineDag) -> None:
    first = split(0, Var("x"), Tail.ROUND_UP)
    then = Directive(1, 0, Call.SPLIT, (Var("inner"), Var("far"), Var("near"), 2, Tail.GUARD_WITH_IF))
    assert list(with_guards_named(dag, [first, then])) == [first, then]


def test_new_name_is_none_of_those_there() -> None:
    x, x_all = hl.Var("x"), hl.Var("x_all")
    source, output = image(40, 24), hl.Func("output")
    output[x, x_all] = source[x, x_all]
    guarded = split(0, Var("x"), Tail.GUARD_WITH_IF)
    rename, _ = with_guards_named(extract(finish(output)), [guarded])
    assert rename.args == (Var("x"), Var("x_whole"))


@pytest.mark.parametrize("name", PIPELINES)
def test_no_schedule_splits_a_whole_loop_with_a_guard(name: str) -> None:
    dag, space = cpu_space(PIPELINES[name])
    for seed in range(5):
        found = schedule_of(PIPELINES[name], dag, space.rollout(space.root(), [seed])).directives
        assert tuple(with_guards_named(dag, found)) == found
        # (None of these has loops that are shared.)
        assert tuple(with_guards_named(dag, without_renames(found))) == found


def test_loops_that_are_shared_get_names_guarded_or_not(dag: PipelineDag) -> None:
    whole = split(0, Var("x"), Tail.ROUND_UP)
    assert [d.call for d in with_guards_named(dag, [whole], {1})] == [Call.RENAME, Call.SPLIT]
    assert list(with_guards_named(dag, [whole], {0})) == [whole]
