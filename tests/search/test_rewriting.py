"""Updates in two steps: what is proposed, that Halide agrees, and that no result changes under any loop nest of it."""

from collections.abc import Callable
from functools import partial
from math import prod

import halide as hl
import pytest
from slow_cases import EXHAUSTIVE
from small_pipelines import HEIGHT, WIDTH, ExactRuns, X, Y, finish, image, some_machine

import metol
from metol import _core
from metol.errors import ExtractionError
from metol.lower import Call, Schedule, cpu_directives, describe_funcs, rewritten_directives
from metol.pipeline import PipelineDag, Rfactor, extract
from metol.search import BeamSearch, Budget
from metol.targets.cpu import CpuMachine, cpu_parameters, propose_rfactors

SIZE = (WIDTH, HEIGHT)


def bins() -> hl.Pipeline:
    """A histogram of a whole image: scatter, and nothing pure to run in parallel."""
    source = image(*SIZE, pixel=hl.UInt(8))
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    counts, output = hl.Func("counts"), hl.Func("output")
    counts[X] = hl.u32(0)
    counts[hl.i32(source[r.x, r.y])] += hl.u32(1)
    output[X, Y] = counts[hl.clamp(X + Y, 0, 255)]
    return finish(output)


def total() -> hl.Pipeline:
    """One sum over half an image, in a Func without dimensions, and an extremum beside it."""
    source = image(*SIZE)
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    r.where(r.x % 3 < 2)
    whole, largest, output = hl.Func("whole"), hl.Func("largest"), hl.Func("output")
    whole[()] = 0
    whole[()] += source[r.x, r.y]
    largest[()] = 0
    largest[()] = hl.max(largest[()], source[r.x, r.y])
    output[X, Y] = whole[()] + largest[()] + X
    return finish(output)


def last() -> hl.Pipeline:
    """A reduction whose order matters."""
    source = image(*SIZE)
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    mixed, output = hl.Func("mixed"), hl.Func("output")
    mixed[()] = 0
    mixed[()] = mixed[()] // 2 + source[r.x, r.y]
    output[X, Y] = mixed[()] + X
    return finish(output)


def space_of(dag: PipelineDag) -> _core.Space:
    return _core.Space(dag, cpu_parameters(CpuMachine.default(threads=2), dag), _core.SpaceOptions(), 1)


def row_sums() -> hl.Pipeline:
    """A matrix times a vector: the lanes of a vector of results would be of different rows."""
    matrix, vector = image(512, 256, name="matrix"), image(512, name="vector")
    r = hl.RDom([(0, 512)], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X] = 0
    sums[X] += matrix[r.x, X] * vector[r.x]
    output[X] = sums[X]
    return finish(output, sizes=(256,))


def block_means(side: int) -> hl.Pipeline:
    """Means of blocks: neighbours of the lanes of a vector lie in other blocks, and rows of a block are short."""
    source, r = image(64 * side, 64 * side, pixel=hl.UInt(8)), hl.RDom([(0, side), (0, side)], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y] = hl.u32(0)
    sums[X, Y] += hl.u32(source[side * X + r.x, side * Y + r.y])
    output[X, Y] = sums[X, Y] // hl.u32(side * side)
    return finish(output, sizes=(64, 64))


def normalized() -> hl.Pipeline:
    """Each row less its mean, by its spread: two sums of the same rows."""
    source = image(768, 1024, pixel=hl.Float(32))
    r, q = hl.RDom([(0, 768)], "r"), hl.RDom([(0, 768)], "q")
    total, spread, output = hl.Func("total"), hl.Func("spread"), hl.Func("output")
    total[Y] = hl.f32(0)
    total[Y] += source[r.x, Y]
    away = source[q.x, Y] - total[Y] / hl.f32(768)
    spread[Y] = hl.f32(0)
    spread[Y] += away * away
    output[X, Y] = (source[X, Y] - total[Y] / hl.f32(768)) / hl.sqrt(spread[Y] + hl.f32(1))
    return finish(output, sizes=(768, 1024))


def proposals(build: Callable[[], hl.Pipeline]) -> tuple[tuple[Rfactor, ...], ...]:
    dag = extract(build())
    found = BeamSearch(width=1).search(space_of(dag), _core.CostModel(), Budget.start())
    machine = CpuMachine.default(threads=2)
    return propose_rfactors(dag, found.state.describe(), range(len(dag.stages)), machine)


def schedule_of(build: Callable[[], hl.Pipeline], dag: PipelineDag, rfactors: list[Rfactor], seed: int) -> Schedule:
    space = space_of(dag)
    state = space.rollout(space.root(), [seed])
    funcs = describe_funcs(build())
    directives = rewritten_directives(dag, rfactors, cpu_directives(dag, state.describe()), len(funcs))
    return Schedule(funcs=funcs, directives=directives)


@pytest.mark.parametrize("build", [bins, pytest.param(total, marks=EXHAUSTIVE)])
def test_every_proposal_keeps_the_result_under_random_loop_nests(build: Callable[[], hl.Pipeline]) -> None:
    runs = ExactRuns("histogram", build)
    found = proposals(build)
    assert found
    for together in found:
        dag = extract(build(), rfactors=together)
        for seed in (1, 2):
            runs.check(schedule_of(build, dag, list(together), seed))


def test_two_updates_are_rewritten_one_after_the_other() -> None:
    (of_first,), *_, (of_last,) = (proposal for proposal in proposals(total) if len(proposal) == 1)
    assert of_first.func != of_last.func
    dag = extract(total(), rfactors=[of_first, of_last])
    given = len(extract(total()).funcs)
    assert sorted(func.origin for func in dag.funcs) == list(range(given + 2))
    ExactRuns("histogram", total).check(schedule_of(total, dag, [of_first, of_last], 7))


def test_what_rfactor_makes_reduces_over_the_rest() -> None:
    whole = next(r for r, *_ in proposals(total) if len(r.splits) == 0 or len(r.preserved) == 1)
    dag = extract(total(), rfactors=[whole])
    (made,) = (func for func in dag.funcs if func.origin == len(extract(total()).funcs))
    update = dag.stages[made.stages[1]]
    assert [loop.is_reduction for loop in update.loops].count(True) >= 1
    assert len(made.args) == 1
    assert prod(interval.extent for interval in made.root_region) > 1


def test_nothing_is_proposed_where_the_order_matters() -> None:
    assert proposals(last) == ()


def test_halide_refuses_to_factor_what_has_an_order() -> None:
    dag = extract(last())
    mixed = next(number for number, func in enumerate(dag.funcs) if func.name.startswith("mixed"))
    loop = next(loop.name for loop in dag.stages[dag.funcs[mixed].stages[1]].loops if loop.is_reduction)
    with pytest.raises(ExtractionError, match="rfactor"):
        extract(last(), rfactors=[Rfactor(mixed, 0, [], [(loop, "v")])])


def test_an_update_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ExtractionError, match="no update 3"):
        extract(total(), rfactors=[Rfactor(0, 3, [], [])])


def test_autoschedule_runs_a_sum_in_parallel_vectors_and_says_so_in_its_files() -> None:
    result = metol.autoschedule(total(), threads=2)
    assert any(directive.call is Call.RFACTOR for directive in result.schedule.directives)
    assert ".rfactor(" in result.to_python()
    assert ".rfactor(" in result.to_cpp()
    ExactRuns("histogram", total).check(Schedule.from_json(result.schedule.to_json()))


def rfactored(build: Callable[[], hl.Pipeline]) -> list[str]:
    """The names of the Funcs of which the default search computes updates in two steps."""
    schedule = metol.autoschedule(build(), machine=some_machine()).schedule
    funcs = [d.func for d in schedule.directives if d.call is Call.RFACTOR]
    return sorted({schedule.funcs[func].name for func in funcs})


def test_vectors_of_different_rows_become_vectors_along_a_row() -> None:
    assert rfactored(row_sums) == ["sums"]
    widths = {
        factor for (rfactor, *_) in proposals(row_sums) for *_, factor in rfactor.splits if len(rfactor.preserved) == 1
    }
    assert widths


def test_vectors_of_different_blocks_become_rows_of_a_block() -> None:
    assert rfactored(partial(block_means, 16)) == ["sums"]
    ((rfactor,),) = proposals(partial(block_means, 16))
    assert rfactor.splits == []  # the row is whole
    assert len(rfactor.preserved) == 1


def one_short_row() -> hl.Pipeline:
    """Sums of as many values as there are accumulators, of rows that lie apart."""
    source, r = image(64, 512, pixel=hl.Float(32)), hl.RDom([(0, 64)], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[Y] = hl.f32(0)
    sums[Y] += source[r.x, Y]
    output[Y] = sums[Y] * hl.f32(2)
    return finish(output, sizes=(512,))


def test_something_is_left_to_reduce() -> None:
    for (rfactor,) in proposals(one_short_row):
        assert len(rfactor.splits) == len(rfactor.preserved)  # none is kept whole


def test_blocks_that_lie_side_by_side_keep_their_vectors() -> None:
    assert proposals(partial(block_means, 3)) == ()


def test_sums_of_the_same_rows_are_rewritten_together() -> None:
    """Of one alone little is gained: the other keeps the loop over rows as it is."""
    assert {len(proposal) for proposal in proposals(normalized)} == {1, 2}
    assert rfactored(normalized) == ["spread", "total"]


def test_autoschedule_without_rfactor_makes_no_func() -> None:
    result = metol.autoschedule(total(), threads=2, options=metol.SearchOptions(rfactor=False))
    assert not any(directive.call is Call.RFACTOR for directive in result.schedule.directives)
