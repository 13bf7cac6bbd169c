"""Searches that go on without what they found: costly Funcs at root, and Funcs that are computed and alike."""

import contextlib
from collections.abc import Callable

import pytest
from small_pipelines import PIPELINES, make_gpu_space, make_space, some_machine

from metol import _core
from metol.errors import DeadEndError, SearchError
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.search import (
    AlikeInline,
    BeamSearch,
    Budget,
    OffRoot,
    Refined,
    Restarts,
    Restriction,
    Retried,
    SearchResult,
    Strategy,
)
from metol.targets.cpu import cpu_parameters

GREEDY = BeamSearch(width=1)
MODEL = _core.CostModel()
AVX512 = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"


def retried(first: Strategy, *restrictions: Restriction) -> Retried:
    return Retried(first, restrictions, (GREEDY,))


def placements(space: _core.Space, func: int) -> set[_core.Placement]:
    """Where random loop nests have a Func."""
    found = set()
    for seed in range(60):
        with contextlib.suppress(DeadEndError):  # of what is offered beside root, nothing may be legal
            found.add(space.rollout(space.root(), [seed]).describe()[func].placement)
    return found


def inline_in_all(space: _core.Space) -> set[int]:
    """The Funcs that are inline in every random loop nest; none where no loop nest is legal."""
    drawn = []
    for seed in range(20):
        with contextlib.suppress(DeadEndError):
            nest = space.rollout(space.root(), [seed]).describe()
            drawn.append({one.func for one in nest if one.placement == _core.Placement.INLINE})
    return set.intersection(*drawn) if drawn else set()


@pytest.mark.parametrize("name", ["blur", "boundary", "convolution"])
def test_a_func_is_kept_off_root_where_there_is_another_place(name: str) -> None:
    space = make_space(extract(PIPELINES[name]()))
    elsewhere = {_core.Placement.AT, _core.Placement.INLINE}
    seen = 0
    for func in {func for func in space.decision_funcs if not space.dag.funcs[func].is_output}:
        options = space.options
        options.keep_off_root(func)
        before, after = placements(space, func), placements(space.restrict(options), func)
        if before & elsewhere:
            assert after <= elsewhere
            seen += _core.Placement.ROOT in before
        else:
            assert after <= {_core.Placement.ROOT}
    assert seen


@pytest.mark.parametrize("make", [make_space, make_gpu_space])
def test_a_func_is_kept_inline_where_it_may_be(make: Callable[[_core.PipelineDag], _core.Space]) -> None:
    space = make(extract(PIPELINES["chain"]()))
    seen = 0
    for func in {func for func in space.decision_funcs if not space.dag.funcs[func].is_output}:
        options = space.options
        options.keep_inline(func)
        before, after = placements(space, func), placements(space.restrict(options), func)
        inline = {_core.Placement.INLINE}
        assert after == (inline if before & inline else before)
        seen += before > inline
    assert seen


def test_outputs_stay_at_root() -> None:
    space = make_space(extract(PIPELINES["blur"]()))
    (output,) = space.dag.outputs
    options = space.options
    options.keep_off_root(output)
    assert placements(space.restrict(options), output) == {_core.Placement.ROOT}


def space_of(app: str) -> _core.Space:
    dag = extract(PipelineSource.parse(f"app:{app}").build())
    return _core.Space(dag, cpu_parameters(some_machine(target=AVX512), dag), _core.SpaceOptions(), 2)


def test_what_no_seed_of_a_beam_finds_is_found_without_the_costly_func_at_root() -> None:
    space = space_of("max_filter")
    window = next(number for number, func in enumerate(space.dag.funcs) if func.name.startswith("window"))
    first = Restarts(Refined((GREEDY, BeamSearch(4, 2), BeamSearch(16, 3))))
    before = first.search(space, MODEL, Budget.start())
    assert before.state.describe()[window].placement == _core.Placement.ROOT
    found = retried(first, OffRoot()).search(space, MODEL, Budget.start())
    assert found.state.describe()[window].placement == _core.Placement.AT
    assert found.cost_seconds < 0.95 * before.cost_seconds
    assert found.candidates > before.candidates
    # What it was better than is the next choice.
    assert space.identity_hash(found.alternatives[0])[0] == space.identity_hash(before.state)[0]


def test_funcs_that_do_the_same_to_other_producers_are_inline_together() -> None:
    space = space_of("harris")
    names = [func.name.split("$")[0] for func in space.dag.funcs]
    kinds = [{"sum_xx", "sum_yy", "sum_xy"}, {"product_xx", "product_yy"}]
    expected = [{names.index(name) for name in kind} for kind in kinds]
    leaves = space.rollout(space.root(), range(200))
    costs = space.cost(leaves, MODEL)
    seen = 0
    for place in range(len(leaves)):
        leaf = leaves.take([place])
        found = SearchResult(leaf, float(costs[place]), 1, is_complete=True)
        computed = {one.func for one in leaf.describe() if one.placement != _core.Placement.INLINE}
        if not computed.issuperset(set.union(*expected)):
            continue
        made_inline = []
        for options in AlikeInline(most=99, least_share=0).spaces(space, MODEL, found):
            always = inline_in_all(space.restrict(options)) & computed
            made_inline += [always] if always else []
        assert all(kind in made_inline for kind in expected)
        seconds = space.func_seconds(leaf, MODEL)
        times = [sum(seconds[func] for func in funcs) for funcs in made_inline]
        assert times == sorted(times, reverse=True)
        seen += 1
        if seen == 3:
            break
    assert seen


def test_it_ends_with_its_budget() -> None:
    space = space_of("max_filter")
    first = GREEDY.search(space, MODEL, Budget.start())
    found = retried(GREEDY, OffRoot(), AlikeInline()).search(space, MODEL, Budget.start(is_cancelled=lambda: True))
    assert found.cost_seconds == first.cost_seconds
    assert not found.is_complete


@pytest.mark.parametrize("kind", [OffRoot, AlikeInline])
def test_nothing_is_tried_where_nothing_is_costly(kind: type[OffRoot | AlikeInline]) -> None:
    space = make_space(extract(PIPELINES["blur"]()))
    first = GREEDY.search(space, MODEL, Budget.start())
    for restriction in (kind(least_share=1), kind(most=0)):
        found = retried(GREEDY, restriction).search(space, MODEL, Budget.start())
        assert found.candidates == first.candidates


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: OffRoot(most=-1), "Keeping Funcs off root"),
        (lambda: AlikeInline(most=-1), "Kinds of Funcs"),
        (lambda: Retried(GREEDY, (), ()), "Searching again"),
        (lambda: Retried(GREEDY, (), (GREEDY,), share=0.0), "Searching again"),
    ],
)
def test_nonsense_is_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(SearchError, match=text):
        make()


@pytest.mark.parametrize(
    ("switched", "left"),
    [
        ({}, (OffRoot, AlikeInline)),
        ({"off_root": False}, (AlikeInline,)),
        ({"inline_alike": False}, (OffRoot,)),
        ({"off_root": False, "inline_alike": False}, None),
    ],
)
def test_each_can_be_switched_off(switched: dict[str, bool], left: tuple[type, ...] | None) -> None:
    strategy = SearchOptions(anneal=False, restarts=False, **switched).make()  # type: ignore[arg-type]
    found = tuple(map(type, strategy.restrictions)) if isinstance(strategy, Retried) else None
    assert found == left
