"""Funcs that are kept off root: where that is possible, and what a search finds without them there."""

import contextlib

import pytest
from small_pipelines import PIPELINES, make_space, some_machine

from metol import _core
from metol.errors import DeadEndError, SearchError
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.search import BeamSearch, Budget, OffRoot, Refined, Restarts
from metol.targets.cpu import cpu_parameters

GREEDY = BeamSearch(width=1)
MODEL = _core.CostModel()
AVX512 = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"


def placements(space: _core.Space, func: int) -> set[_core.Placement]:
    """Where random loop nests have a Func."""
    found = set()
    for seed in range(60):
        with contextlib.suppress(DeadEndError):  # of what is offered beside root, nothing may be legal
            found.add(space.rollout(space.root(), [seed]).describe()[func].placement)
    return found


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


def test_outputs_stay_at_root() -> None:
    space = make_space(extract(PIPELINES["blur"]()))
    (output,) = space.dag.outputs
    options = space.options
    options.keep_off_root(output)
    assert placements(space.restrict(options), output) == {_core.Placement.ROOT}


def max_filter() -> _core.Space:
    dag = extract(PipelineSource.parse("app:max_filter").build())
    return _core.Space(dag, cpu_parameters(some_machine(target=AVX512), dag), _core.SpaceOptions(), 2)


def test_what_no_seed_of_a_beam_finds_is_found_without_the_costly_func_at_root() -> None:
    space = max_filter()
    window = next(number for number, func in enumerate(space.dag.funcs) if func.name.startswith("window"))
    first = Restarts(Refined((GREEDY, BeamSearch(4, 2), BeamSearch(16, 3))))
    before = first.search(space, MODEL, Budget.start())
    assert before.state.describe()[window].placement == _core.Placement.ROOT
    found = OffRoot(first, (GREEDY,)).search(space, MODEL, Budget.start())
    assert found.state.describe()[window].placement == _core.Placement.AT
    assert found.cost_seconds < 0.95 * before.cost_seconds
    assert found.candidates > before.candidates
    # What it was better than is the next choice.
    assert space.identity_hash(found.alternatives[0])[0] == space.identity_hash(before.state)[0]


def test_it_ends_with_its_budget() -> None:
    space = max_filter()
    first = GREEDY.search(space, MODEL, Budget.start())
    found = OffRoot(GREEDY, (GREEDY,)).search(space, MODEL, Budget.start(is_cancelled=lambda: True))
    assert found.cost_seconds == first.cost_seconds
    assert not found.is_complete


def test_nothing_is_tried_where_nothing_costly_is_at_root() -> None:
    space = make_space(extract(PIPELINES["blur"]()))
    first = GREEDY.search(space, MODEL, Budget.start())
    found = OffRoot(GREEDY, (GREEDY,), least_share=1).search(space, MODEL, Budget.start())
    assert found.candidates == first.candidates
    assert OffRoot(GREEDY, (GREEDY,), most=0).search(space, MODEL, Budget.start()).candidates == first.candidates


@pytest.mark.parametrize("arguments", [{"most": -1}, {"quick": ()}, {"share": 0.0}])
def test_nonsense_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(SearchError, match="Keeping Funcs off root"):
        OffRoot(**{"strategy": GREEDY, "quick": (GREEDY,), **arguments})  # type: ignore[arg-type]


def test_it_can_be_switched_off() -> None:
    assert isinstance(SearchOptions(anneal=False).make(), OffRoot)
    assert not isinstance(SearchOptions(anneal=False, off_root=False).make(), OffRoot)
