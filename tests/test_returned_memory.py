"""Loop nests that leave behind more memory than glibc keeps: another is found."""

import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, func_named, some_machine

from metol import _core, planner
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.planner import Planner
from metol.returned_memory import Block, blocks_at_root, given_back, seconds_of_new_pages
from metol.search import Form

EVERYDAY = Path(__file__).parents[1] / "examples" / "everyday.py"
MB = 1 << 20
KB = 1 << 10
# What a decision about a place begins with.
INLINE, ROOT = 0, 2
MACHINE = some_machine()
# A page takes 2.8 us, as on a virtual machine that was measured.
SLOW_PAGES = replace(
    MACHINE,
    memory=replace(
        MACHINE.memory,
        page_fault_seconds_per_byte=2.8e-6 / 4096,
        page_fault_seconds_per_byte_all_threads=2.8e-6 / 4096,
    ),
)


def smoothed() -> hl.Pipeline:
    """Two windows of a picture, and two of what comes of them, each as large as the picture."""
    return PipelineSource.parse(f"{EVERYDAY}:guided_filter").build()


def planner_of(pipeline: hl.Pipeline) -> Planner:
    return Planner(
        pipeline,
        SearchOptions(budget_seconds=None, restarts=False, anneal=False),
        target=SOME_TARGET,
        machine=SLOW_PAGES,
    )


@pytest.mark.slow
def test_what_the_system_takes_back_is_charged_where_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planner_of(smoothed())
    monkeypatch.setattr(planner, "_CHARGED_FACTOR", math.inf)
    uncharged = plan.search()
    monkeypatch.undo()
    charged = plan.search()
    assert uncharged.result is not None
    assert charged.result is not None
    assert charged.count > uncharged.count
    # With the price of new pages the one is better, and by what the search goes by otherwise the other.
    assert uncharged.form is not None
    assert charged.form is not None
    alone, pages = [], []
    for found in (uncharged, charged):
        alone.append(float(found.form.space.cost(found.result.state, plan.model)[0]))
        pages.append(seconds_of_new_pages(found.form, found.result.state, SLOW_PAGES))
        assert found.result.cost_seconds == pytest.approx(alone[-1] + pages[-1])
    assert alone[0] < alone[1]
    assert pages[0] > 0.5 * alone[0]
    assert charged.result.cost_seconds < 0.8 * uncharged.result.cost_seconds
    assert next(charged.candidates).origin == "search"


def blocks(*sizes: float) -> list[Block]:
    """Return blocks that are all in use at one time."""
    return [Block(size, number, len(sizes)) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "returned"),
    [
        ((), 0),
        ((4 * MB,), 0),
        ((4 * MB, 2 * MB), 0),
        ((4 * MB, 4 * MB), 8 * MB),
        ((4 * MB, 4 * MB - 100 * KB), 8 * MB - 100 * KB),  # so much lies free at the end of the heap anyway
        ((4 * MB, 4 * MB, 4 * MB), 12 * MB),
        ((8 * MB, 4 * MB, 3 * MB), 0),
        ((60 * MB, 8 * MB, 7 * MB), 0),  # mapped, and new each time whatever the others are
        ((1000.0,) * 5000, 0),
    ],
)
def test_glibc_keeps_less_than_twice_its_largest_block(sizes: tuple[float, ...], returned: float) -> None:
    assert given_back(blocks(*sizes)) == returned


def test_what_is_not_in_use_at_one_time_shares_its_place() -> None:
    chain = [Block(size * MB, number, number + 1) for number, size in enumerate((8.4, 8.0, 8.0, 7.9))]
    assert given_back(chain) == 0
    assert given_back([Block(8 * MB, number, number + 1) for number in range(4)]) == 16 * MB


def at_root(plan: Planner, names: Collection[str]) -> tuple[Form, _core.States]:
    """Return a loop nest with these Funcs at root, whose decisions are otherwise the first that there are."""
    form = plan.form()
    state = form.space.root()
    while int(state.decisions_made[0]) < form.space.decision_count:
        children, _ = form.space.expand(state)
        each = [children.take([number]) for number in range(len(children))]
        placed = [form.space.path(child)[-1] for child in each]
        name = form.dag.funcs[form.space.decision_funcs[int(state.decisions_made[0])]].name.split("$")[0]
        wanted = ROOT if name in names else INLINE
        state = next((child for child, path in zip(each, placed, strict=True) if path[0] == wanted), each[0])
    return form, state


def test_blocks_live_from_what_writes_them_to_what_reads_them_last() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.Float(32), 2, name="source")
    funcs = [hl.Func(name) for name in ("first", "second", "third", "out")]
    funcs[0][x, y] = hl.sin(source[x, y])
    funcs[1][x, y] = hl.sin(funcs[0][x, y])
    funcs[2][x, y] = hl.sin(funcs[1][x, y])
    funcs[3][x, y] = funcs[2][x, y] + funcs[0][x, y]
    for each in (source, funcs[3]):
        each.set_estimates([(0, 1024), (0, 1024)])
    form, state = at_root(planner_of(hl.Pipeline(funcs[3])), {"first", "second", "third"})
    first, second, third, out = (func_named(form.dag, name) for name in ("first", "second", "third", "out"))
    found = {block.first: block for block in blocks_at_root(form, state)}
    assert set(found) == {first, second, third}
    assert found[first].last == out
    assert found[second].last == third
    assert all(block.num_bytes == 4 * MB for block in found.values())


def test_what_is_inline_and_read_on_many_ways_is_looked_at_once() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    base = hl.Func("base")
    base[x, y] = hl.sin(hl.f32(x + y))
    funcs = [base, base]
    for number in range(60):  # as many ways as Fibonacci's number of it
        func = hl.Func(f"sum_{number}")
        func[x, y] = funcs[-1][x, y] + funcs[-2][x, y]
        funcs.append(func)
    funcs[-1].set_estimates([(0, 1024), (0, 1024)])
    form, state = at_root(planner_of(hl.Pipeline(funcs[-1])), {"base"})
    (block,) = blocks_at_root(form, state)
    assert block.last == func_named(form.dag, "sum_59")
