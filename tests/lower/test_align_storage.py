"""Rows padded to whole vectors: offered where they are read or written in vectors, right at every size."""

from collections.abc import Callable
from functools import cache

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import (
    ExactRuns,
    X,
    Y,
    blur,
    boundary,
    chain,
    finish,
    image,
    make_space,
    pyramid,
    scan,
    schedule_of,
    transpose,
    tuples,
)

from metol import SearchOptions, _core
from metol.lower import Call
from metol.pipeline import PipelineDag, extract
from metol.search import BeamSearch, Budget
from metol.targets.cpu import CpuMachine

Build = Callable[[], hl.Pipeline]

ALIGN_DECISION = 9
ALIGNMENT_FIELD = 10  # of a decision as integers
TRIES = 300


def plane(width: int) -> hl.Pipeline:
    """One Func of rows as long as the output's, or longer, which reads an input."""
    source = image(width, 30)
    once, output = hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * 3 - source[X, Y + 1]
    output[X, Y] = once[X, Y] - once[X, Y + 2] + once[X, Y + 1] // 3
    return finish(output, sizes=(width, 27))


def space_of(dag: PipelineDag, *, is_free: bool = True) -> _core.Space:
    options = _core.SpaceOptions()
    options.allow_align_storage = True
    options.allow_compute_at = options.allow_inline = is_free
    return make_space(dag, options=options)


@cache
def aligning_space(build: Build) -> tuple[PipelineDag, _core.Space]:
    dag = extract(build())
    return dag, space_of(dag)


def padded(space: _core.Space, wanted: int) -> list[_core.States]:
    """Random complete loop nests in which the rows of a Func are padded."""
    leaves = space.rollout(space.root(), range(TRIES))
    singles = (leaves.take([i]) for i in range(TRIES))
    return [leaf for leaf in singles if any(s.row_alignment > 1 for s in leaf.describe())][:wanted]


def packed(space: _core.Space, leaf: _core.States) -> _core.States:
    """The same loop nest with all rows as they are."""
    path = [
        (*d[:ALIGNMENT_FIELD], min(d[ALIGNMENT_FIELD], 1), *d[ALIGNMENT_FIELD + 1 :]) if d[0] == ALIGN_DECISION else d
        for d in space.path(leaf)
    ]
    return space.replay(path)


@pytest.mark.parametrize(
    "build",
    slow_but((), [blur, chain, pyramid, boundary, scan, tuples, transpose], further=[blur, pyramid, boundary, scan]),
)
def test_padded_rows_keep_the_result(build: Build) -> None:
    dag, space = aligning_space(build)
    runs = ExactRuns(build.__name__, build)
    leaves = padded(space, 3)
    assert len(leaves) == 3
    for leaf in leaves:
        schedule = schedule_of(build, dag, leaf)
        calls = [directive.call for directive in schedule.directives]
        assert calls.count(Call.ALIGN_STORAGE) == sum(s.row_alignment > 1 for s in leaf.describe())
        runs.check(schedule)


def test_rows_are_padded_along_the_dimension_that_is_innermost_in_storage() -> None:
    dag, space = aligning_space(transpose)
    orders = set()
    for leaf in padded(space, 30):
        calls = schedule_of(transpose, dag, leaf).directives
        for schedule in leaf.describe():
            func = dag.funcs[schedule.func]
            for call in (c for c in calls if c.func == schedule.func and c.call is Call.ALIGN_STORAGE):
                assert call.args[0].name == func.args[schedule.innermost_dim]
                assert call.args[1] == schedule.row_alignment
                orders.add(schedule.innermost_dim)
    assert orders == {0, 1}


def test_padding_saves_accesses_and_takes_memory() -> None:
    dag, space = aligning_space(chain)
    columns = list(space.feature_table())
    loads, stores, storage = (
        columns.index(name) for name in ("vector_loads_per_vector", "vector_stores", "bytes_at_realization")
    )
    saved_loads = saved_stores = 0
    for leaf in padded(space, 20):
        with_padding, without = (space.featurize(state)[0] for state in (leaf, packed(space, leaf)))
        assert np.all(with_padding[:, [loads, stores]] <= without[:, [loads, stores]])
        saved_loads += np.sum(with_padding[:, loads] < without[:, loads])
        saved_stores += np.sum(with_padding[:, stores] < without[:, stores])
        for schedule in leaf.describe():
            if schedule.row_alignment > 1:
                stage = dag.funcs[schedule.func].stages[0]
                assert with_padding[stage, storage] > without[stage, storage]
    assert saved_loads
    assert saved_stores


@pytest.mark.parametrize("width", [64, 72, 68, 65])
def test_rows_cross_lines_as_often_as_their_length_makes_them(width: int) -> None:
    vector_bytes = CpuMachine.default(threads=2).vector_bytes
    lanes = vector_bytes // 4
    rows_off = np.mean([row * width % lanes != 0 for row in range(lanes)])
    space = space_of(extract(plane(width)), is_free=False)
    columns = list(space.feature_table())
    stores, vectors = columns.index("vector_stores"), columns.index("num_vectors")
    seen = 0
    for seed in range(40):
        leaf = space.rollout(space.root(), [seed])
        once, (stage, *_) = leaf.describe()[1], space.featurize(leaf)[0]
        is_in_vectors = stage[vectors] > 0 and once.innermost_dim == 0
        if once.row_alignment <= 1 and is_in_vectors:
            # A vector that is off crosses into the next line as often as it is long.
            assert stage[stores] / stage[vectors] == pytest.approx(1 + rows_off * vector_bytes / 64)
            assert once.row_alignment == (1 if rows_off else 0)
            seen += 1
    assert seen


def test_nothing_is_decided_about_rows_unless_asked_for() -> None:
    dag, space = aligning_space(chain)
    plain = make_space(dag)
    assert plain.decision_count < space.decision_count
    leaves = plain.rollout(plain.root(), range(50))
    assert all(s.row_alignment == 0 for i in range(50) for s in leaves.take([i]).describe())


@pytest.mark.parametrize("align", [True, False])
def test_rows_are_padded_where_that_is_asked_for_and_saves_time(align: bool) -> None:
    options = SearchOptions(align_storage=align).space
    options.allow_compute_at = options.allow_inline = False
    space = make_space(extract(plane(1021)), options=options)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    assert [s.row_alignment > 1 for s in found.state.describe()] == [False, align, False]
