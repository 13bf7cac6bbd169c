"""How often what is inlined is evaluated: once at each position, however many expressions ask for it there."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image, make_space

from metol import _core
from metol.pipeline import extract
from metol.targets.cpu import CpuMachine, cpu_parameters

INLINE = 1  # DecisionKind::Inline
WIDTH, HEIGHT = 64, 32


def funcs(*names: str) -> list[hl.Func]:
    return [hl.Func(name) for name in names]


def diamond() -> hl.Pipeline:
    """A window read through two Funcs."""
    source = image(WIDTH + 2, HEIGHT)
    inner, left, right, output = funcs("inner", "left", "right", "output")
    inner[X, Y] = source[X, Y] + source[X + 2, Y]
    left[X, Y] = inner[X, Y] * 3
    right[X, Y] = inner[X, Y] + 1
    output[X, Y] = left[X, Y] * right[X, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def windows_of_windows() -> hl.Pipeline:
    source = image(WIDTH + 4, HEIGHT)
    inner, outer, output = funcs("inner", "outer", "output")
    inner[X, Y] = source[X, Y] * 3
    outer[X, Y] = inner[X, Y] + inner[X + 1, Y] + inner[X + 2, Y]
    output[X, Y] = outer[X, Y] * outer[X + 1, Y] + outer[X + 2, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def apart() -> hl.Pipeline:
    """The same window at two places that have nothing in common."""
    source = image(WIDTH + 20, HEIGHT)
    inner, outer, output = funcs("inner", "outer", "output")
    inner[X, Y] = source[X, Y] * 3
    outer[X, Y] = inner[X, Y] + inner[X + 1, Y]
    output[X, Y] = outer[X, Y] * outer[X + 10, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def half() -> hl.Pipeline:
    """Windows of two that move by two: neighbours have nothing in common."""
    source = image(2 * WIDTH + 4, HEIGHT)
    inner, outer, output = funcs("inner", "outer", "output")
    inner[X, Y] = source[X, Y] * 3
    outer[X, Y] = inner[2 * X, Y] + inner[2 * X + 1, Y]
    output[X, Y] = outer[X, Y] * outer[X + 1, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def crosswise() -> hl.Pipeline:
    """Two reads that move in other ways, through the same Func."""
    source = image(WIDTH, WIDTH)
    inner, outer, output = funcs("inner", "outer", "output")
    inner[X, Y] = source[X, Y] * 3
    outer[X, Y] = inner[X, Y] + inner[Y, X]
    output[X, Y] = outer[X, Y] * outer[X, Y]
    return finish(output, sizes=(WIDTH, WIDTH))


def inlined_space(build: Callable[[], hl.Pipeline]) -> tuple[_core.PipelineDag, _core.Space]:
    """The space in which everything but the output is inlined."""
    dag = extract(build())
    options = _core.SpaceOptions()
    for position, func in enumerate(dag.funcs):
        if not func.is_input and not func.is_output:
            options.pin(position, True)
    return dag, make_space(dag, options=options)


def complete(space: _core.Space) -> _core.States:
    state = space.root()
    for _ in range(space.decision_count):
        state = space.expand(state)[0].take([0])
    return state


@pytest.mark.parametrize(
    ("build", "evaluations"),
    [(diamond, 1), (windows_of_windows, 5), (apart, 4), (half, 4), (crosswise, 2)],
)
def test_equal_positions_are_evaluated_once(build: Callable[[], hl.Pipeline], evaluations: int) -> None:
    dag, space = inlined_space(build)
    (rows,) = space.featurize(complete(space))
    column = list(space.feature_table()).index("inlined_calls")
    calls = {dag.funcs[stage.func].name.split("$")[0]: row[column] for stage, row in zip(dag.stages, rows, strict=True)}
    points = calls["output"] or WIDTH * (WIDTH if build is crosswise else HEIGHT)
    assert calls["inner"] / points == pytest.approx(evaluations)


def sums(distance: int) -> hl.Pipeline:
    """A product, summed over windows of nine, which two Funcs read at places so far apart."""
    source = image(WIDTH + 2 + distance, HEIGHT + 2)
    product, window, left, right, output = funcs("product", "window", "left", "right", "output")
    product[X, Y] = source[X, Y] * source[X, Y]
    window[X, Y] = sum((product[X + i, Y + j] for i in range(3) for j in range(3)), start=hl.f32(0))
    left[X, Y] = window[X, Y] * 3
    right[X, Y] = window[X + distance, Y] + 1
    output[X, Y] = left[X, Y] * right[X, Y]
    return finish(output, sizes=(WIDTH, HEIGHT))


def may_inline(build: Callable[[], hl.Pipeline], name: str) -> bool:
    """Whether a Func may be inlined where everything after it is."""
    dag = extract(build())
    options = _core.SpaceOptions()
    for position, func in enumerate(dag.funcs):
        if not func.is_input and not func.is_output and func.name.split("$")[0] != name:
            options.pin(position, True)
    space = make_space(dag, options=options)
    state = space.root()
    while dag.funcs[space.decision_funcs[int(state.decisions_made[0])]].name.split("$")[0] != name:
        state = space.expand(state)[0].take([0])
    children, _ = space.expand(state)
    return any(space.path(children.take([i]))[-1][0] == INLINE for i in range(len(children)))


def test_a_value_may_be_inlined_where_it_is_computed_ten_times_at_most() -> None:
    assert may_inline(lambda: sums(0), "product")
    assert not may_inline(lambda: sums(8), "product")


def summed_products(*, readers: int) -> hl.Pipeline:
    """Products of floats in windows of three, read by one sum or by two."""
    source = image(WIDTH + 2, HEIGHT, pixel=hl.Float(32))
    product, output = funcs("product", "output")
    product[X, Y] = source[X, Y] * source[X, Y]
    total = product[X, Y] + product[X + 1, Y] + product[X + 2, Y]
    output[X, Y] = total if readers == 1 else total * (product[X + 1, Y] + product[X + 2, Y])
    return finish(output, sizes=(WIDTH, HEIGHT))


def test_a_product_that_is_added_once_is_part_of_the_addition() -> None:
    def vectors(readers: int) -> float:
        dag, space = inlined_space(lambda: summed_products(readers=readers))
        (rows,) = space.featurize(complete(space))
        column = list(space.feature_table()).index("num_vectors")
        by_name = {
            dag.funcs[stage.func].name.split("$")[0]: row[column] for stage, row in zip(dag.stages, rows, strict=True)
        }
        return float(by_name["product"] / by_name["output"])

    assert vectors(1) == pytest.approx(1)  # the first of three is multiplied alone
    assert vectors(2) == pytest.approx(2)  # and the two that are asked for twice


@pytest.mark.parametrize("build", [diamond, windows_of_windows, apart, half, crosswise])
def test_arithmetic_of_what_is_inlined_is_known_where_it_is_done(build: Callable[[], hl.Pipeline]) -> None:
    dag, space = inlined_space(build)
    seconds = cpu_parameters(CpuMachine.default(threads=2), dag).register_seconds
    (rows,) = space.featurize(complete(space))
    names = list(space.feature_table())
    features = [dict(zip(names, map(float, row), strict=True)) for row in rows]
    (output,) = (dag.funcs[func].stages[0] for func in dag.outputs)
    vectors = [one["num_vectors"] * seconds[stage] for stage, one in enumerate(features) if one["inlined_calls"]]
    assert len(vectors) == len(dag.stages) - 1
    assert features[output]["inlined_compute"] == pytest.approx(1e6 * sum(vectors), rel=1e-4)
    assert all(one["inlined_compute"] == 0 for one in features if one["inlined_calls"])
