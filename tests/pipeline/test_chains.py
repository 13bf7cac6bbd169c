"""How long a step of an update waits for the one before, and what all of its steps have in common."""

from collections.abc import Callable

import halide as hl
import pytest
from sample_algorithms import X, image

from metol import _core
from metol.pipeline import extract, op_classes

STEPS = hl.RDom([(1, 63)], "steps")
Values = Callable[[hl.Func, hl.ImageParam], object]

FLOAT_ADD, MULTIPLY, COMPARE, SELECT, DIVIDE, INTEGER = 4, 4, 3, 3, 11, 1


def update(values: Values, *first: hl.Expr) -> _core.Stage:
    """The Stage that computes these values, step after step, in every column."""
    source, state = image("source", (64, 64), hl.Float(32)), hl.Func("state")
    state[X] = first if len(first) > 1 else first[0]
    state[X] = values(state, source)
    state.set_estimates([(0, 64)])
    dag = extract(hl.Pipeline(state))
    return dag.stages[dag.funcs[dag.outputs[0]].stages[1]]


@pytest.mark.parametrize(
    ("values", "cycles", "operations"),
    [
        (lambda f, s: f[X] + s[X, STEPS], FLOAT_ADD, 1),
        (lambda f, s: f[X] + s[X, STEPS] * s[0, STEPS], FLOAT_ADD, 1),
        (lambda f, s: f[X] + s[X, STEPS] + s[X, STEPS - 1], FLOAT_ADD, 1),  # added to each other first
        (lambda f, s: f[X] * hl.f32(0.5) + s[X, STEPS], FLOAT_ADD, 1),  # one instruction
        (lambda f, s: (f[X] + s[X, STEPS]) * hl.f32(0.5), FLOAT_ADD + MULTIPLY, 2),
        (lambda f, s: hl.select(f[X] * f[X] > 4, f[X], s[X, STEPS]), MULTIPLY + COMPARE + SELECT, 3),
        (lambda f, s: s[X, STEPS] / (s[0, STEPS] - f[X]), FLOAT_ADD + DIVIDE, 2),
        (lambda f, s: s[X, STEPS], 0, 0),
    ],
)
def test_a_chain_is_as_long_as_its_operations_take(values: Values, cycles: float, operations: float) -> None:
    stage = update(values, hl.f32(0))
    assert (stage.chained_cycles, stage.chained_ops) == (cycles, operations)


def test_a_sum_of_integers_is_one_addition() -> None:
    stage = update(lambda f, s: f[X] + hl.i32(s[X, STEPS]), hl.i32(0))
    assert stage.chained_cycles == INTEGER


@pytest.mark.parametrize(
    ("values", "cycles"),
    [
        (lambda a, b, v: (a + v, (b + v) * (b - v)), FLOAT_ADD + MULTIPLY),  # of the slower value
        (lambda a, b, v: (b, a + v), FLOAT_ADD / 2),  # two steps until a value is its own again
        (lambda a, b, v: (a + v, hl.sqrt(a) / v), FLOAT_ADD),  # nobody goes on with the second
    ],
)
def test_the_chain_of_a_tuple_comes_back_to_its_own_value(
    values: Callable[[hl.Expr, hl.Expr, hl.Expr], tuple[hl.Expr, hl.Expr]], cycles: float
) -> None:
    stage = update(lambda f, s: values(f[X][0], f[X][1], s[X, STEPS]), hl.f32(0), hl.f32(1))
    assert stage.chained_cycles == cycles


def test_what_all_steps_have_in_common_is_told_apart() -> None:
    stage = update(lambda f, s: f[X] * (hl.f32(X) + hl.f32(2)) + hl.abs(s[X, STEPS]), hl.f32(0))
    counts = zip(op_classes(), stage.op_histogram, stage.unchanged_ops, strict=True)
    both = {op.name: (count, same) for op, count, same in counts if op.name in ("CastIntFloat", "AddFloat", "Round")}
    assert both == {"CastIntFloat": (1, 1), "AddFloat": (2, 1), "Round": (1, 0)}
