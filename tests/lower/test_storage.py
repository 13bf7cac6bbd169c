"""Storage on the stack and storage allocated once a task: offered where malloc is called, right at every size."""

import halide as hl
import pytest
from slow_cases import EXHAUSTIVE
from small_pipelines import HEIGHT, WIDTH, ExactRuns, X, Y, chain, cpu_space, image, make_space, pyramid, schedule_of

from metol import _core
from metol.lower import Call
from metol.pipeline import extract

STORAGE_DECISION = 7
STORAGE_FIELD = 10  # of a decision as integers
STORAGE = {"STACK": _core.Storage.STACK, "HOISTED": _core.Storage.HOISTED}


def big_tiles() -> hl.Pipeline:
    """Tiles of the producer take more than a thread can spare of its stack."""
    source, once, output = image(WIDTH * 20 + 2, HEIGHT * 20 + 2), hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * 3 - source[X + 1, Y + 1]
    output[X, Y] = once[X, Y] + once[X + 1, Y + 1]
    output.set_estimates([(0, WIDTH * 20), (0, HEIGHT * 20)])
    return hl.Pipeline(output)


def with_storage(space: _core.Space, kind: _core.Storage, wanted: int) -> list[_core.States]:
    """Random complete loop nests with a Func of this storage."""
    leaves = space.rollout(space.root(), range(400))
    singles = (leaves.take([i]) for i in range(400))
    found = [leaf for leaf in singles if any(s.storage == kind for s in leaf.describe())]
    return found[:wanted]


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        pytest.param(chain, "STACK", marks=pytest.mark.slow),
        pytest.param(pyramid, "STACK", marks=EXHAUSTIVE),
        pytest.param(big_tiles, "HOISTED", marks=pytest.mark.slow),
    ],
)
def test_moved_storage_keeps_the_result(build, kind: str) -> None:
    dag, space = cpu_space(build)
    runs = ExactRuns(build.__name__, build)
    call = Call.STORE_IN if kind == "STACK" else Call.HOIST_STORAGE
    leaves = with_storage(space, STORAGE[kind], 4)
    assert leaves
    for leaf in leaves:
        schedule = schedule_of(build, dag, leaf)
        assert any(directive.call is call for directive in schedule.directives)
        runs.check(schedule)


def unmoved(decision: tuple[int, ...]) -> tuple[int, ...]:
    """The same decision, with the storage where it would be without one about it."""
    if decision[0] != STORAGE_DECISION:
        return decision
    return (*decision[:STORAGE_FIELD], 0, *decision[STORAGE_FIELD + 1 :])


@pytest.mark.parametrize(("build", "kind"), [(chain, "STACK"), (big_tiles, "HOISTED")])
def test_moved_storage_saves_calls_of_malloc(build, kind: str) -> None:
    _, space = cpu_space(build)
    column = list(space.feature_table()).index("heap_allocations")
    for leaf in with_storage(space, STORAGE[kind], 4):
        plain = space.replay([unmoved(decision) for decision in space.path(leaf)])
        counts = [float(space.featurize(state)[0][:, column].sum()) for state in (plain, leaf)]
        assert counts[1] < counts[0]
        assert space.cost(leaf, _core.CostModel())[0] < space.cost(plain, _core.CostModel())[0]


def test_storage_is_not_moved_where_that_is_switched_off() -> None:
    options = _core.SpaceOptions()
    options.allow_storage = False
    space = make_space(extract(chain()), options=options)
    leaves = space.rollout(space.root(), range(100))
    for i in range(100):
        assert all(s.storage == _core.Storage.PLAIN for s in leaves.take([i]).describe())


def test_storage_of_a_func_at_root_cannot_be_moved() -> None:
    options = _core.SpaceOptions()
    options.allow_compute_at = options.allow_inline = False
    space = make_space(extract(chain()), options=options)
    path = space.path(space.rollout(space.root(), [0]))
    last = path[-1]
    assert last[0] == 0, "nothing to choose about the storage of the last Func"
    with pytest.raises(ValueError, match="invalid_decision"):
        space.replay([*path[:-1], (STORAGE_DECISION, *last[1:9], 1, *last[10:])])
