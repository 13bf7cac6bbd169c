"""What is read from directives agrees with the loop nest that they were made of."""

import pytest
from small_pipelines import PIPELINES, blur, cpu_space

from metol.lower import Call, Directive, LoweringOptions, Site, Tail, Var, cpu_directives, describe_funcs
from metol.lower.loop_origins import LoopOrigin, LoopOrigins
from metol.lower.nest_facts import facts_of_directives, facts_of_nests, stage_loops
from metol.lower.sliding import narrow_stores
from metol.pipeline import extract

ONE_VERSION = LoweringOptions(unsafe_tails=True)
X, Y = Var("x"), Var("y")


@pytest.mark.parametrize("name", ["chain", "pyramid", "input_read_twice", "in_place", "scan", "transpose", "matmul"])
def test_facts_of_directives_are_those_of_the_loop_nest(name: str) -> None:
    dag, space = cpu_space(PIPELINES[name])
    refs = describe_funcs(PIPELINES[name]())
    for seed in range(30):
        nests = space.rollout(space.root(), [seed]).describe()
        expected = facts_of_nests(dag, nests)
        found = facts_of_directives(refs, cpu_directives(dag, nests, ONE_VERSION), dag)
        assert found.hosts == expected.hosts
        assert found.inlined == {func for func in expected.inlined if not dag.funcs[func].is_input}
        for func, dim in expected.innermost_dims.items():
            assert found.innermost_dims.get(func, 0) == max(dim, 0)
        for stage, loop in found.vector_loops.items():
            assert expected.vector_loops[stage] == loop
        assert found.slide_dims.keys() == expected.slide_dims.keys()
        for func, dims in expected.slide_dims.items():
            assert dims <= found.slide_dims[func], f"seed {seed}"


def split(func: int, old: str, outer: str, inner: str, factor: int) -> Directive:
    return Directive(func, 0, Call.SPLIT, (Var(old), Var(outer), Var(inner), factor, Tail.ROUND_UP))


def test_loop_origins_follow_splits_fusion_and_order() -> None:
    dag = extract(blur())
    (stage,) = (dag.stages[s] for s in dag.funcs[2].stages)
    loops = LoopOrigins(describe_funcs(blur())[2], stage)
    assert loops[X] == LoopOrigin(0, is_whole=True)
    for directive in (split(2, "x", "xo", "xi", 25), split(2, "xi", "xio", "xii", 8)):
        loops.follow(directive)
    assert loops[Var("xo")] == LoopOrigin(0)
    assert loops[Var("xio")] == LoopOrigin(0, trips=4)
    assert loops[Var("xii")] == LoopOrigin(0, trips=8)
    assert loops.from_within(Var("xio")) == (Var("xio"), Var("xo"), Y)
    loops.follow(Directive(2, 0, Call.REORDER, (Y, Var("xii"))))
    assert loops.from_within(Y) == (Y, Var("xio"), Var("xo"), Var("xii"))
    loops.follow(Directive(2, 0, Call.FUSE, (Var("xo"), Var("xii"), Var("tasks"))))
    assert loops[Var("tasks")] == LoopOrigin(-1)
    assert loops.from_within(Var("xio")) == (Var("xio"), Var("tasks"))


def sliding(store: str, compute: str) -> list[Directive]:
    """The first pass of a blur, kept along the rows of the second, which are split into three."""
    return [
        Directive(1, 0, Call.STORE_AT, (Site(2, 0, Var(store)),)),
        Directive(1, 0, Call.COMPUTE_AT, (Site(2, 0, Var(compute)),)),
        split(2, "y", "yo", "yi", 16),
        split(2, "yi", "yio", "yii", 4),
    ]


def narrowed(directives: list[Directive], readers: set[int]) -> list[Directive]:
    dag = extract(blur())
    return list(narrow_stores(dag, directives, stage_loops(describe_funcs(blur()), directives, dag), readers))


def test_what_slides_moves_along_the_loops_between() -> None:
    dag = extract(blur())
    assert facts_of_directives(describe_funcs(blur()), sliding("yio", "yii"), dag).slide_dims == {1: {1}}


def test_storage_moves_inwards_to_one_loop_over_a_dimension() -> None:
    assert narrowed(sliding("yo", "yii"), set()) == sliding("yio", "yii")


def test_storage_outside_of_one_loop_stays() -> None:
    assert narrowed(sliding("yio", "yii"), set()) == sliding("yio", "yii")


def test_a_func_that_slides_itself_does_not_keep_itself_from_it() -> None:
    assert narrowed(sliding("yio", "yii"), {1}) == sliding("yio", "yii")


def test_nothing_slides_beside_a_reader_that_does_not() -> None:
    reader = Directive(0, 0, Call.COMPUTE_AT, (Site(2, 0, Var("yii")),))
    assert narrowed([*sliding("yio", "yii"), reader], {0})[0].call is Call.COMPUTE_AT
