"""Weights at random, of the sizes that a Space asks for: what trained ones look like to whoever uses them."""

import numpy as np

from metol import _core
from metol.cost import Member, Weights
from metol.pipeline import op_classes

__all__ = ["some_member", "some_weights"]


def some_member(space: _core.Space, seed: int, *, gain: float = 0.1, hidden: int = 5, embedding: int = 3) -> Member:
    """One network; `gain` is how far it leads away from the analytical model, not at all for 0."""
    rng = np.random.default_rng(seed)
    features, operations, terms = len(space.feature_table()), len(op_classes()), len(space.term_table())

    def matrix(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    schedule = matrix(features, hidden, scale=0.1)
    # Of the whole loop nest, and not of a part, whose costs are remembered: a fit leaves it out, too.
    schedule[list(space.feature_table()).index("working_set_at_root")] = 0
    return Member(
        schedule,
        matrix(hidden),
        np.abs(matrix(operations, embedding, scale=0.1)),
        matrix(embedding),
        matrix(hidden + embedding, terms, scale=gain),
        matrix(terms, scale=gain),
    )


def some_weights(
    space: _core.Space, *, members: int = 1, seed: int = 0, gain: float = 0.1, learned: tuple[int, ...] = ()
) -> Weights:
    """An ensemble; the terms `learned` have a unit, and what the analytical model says of them does not count."""
    units = np.zeros(len(space.term_table()))
    units[list(learned)] = 1e-9
    return Weights(
        tuple(some_member(space, seed + number, gain=gain) for number in range(members)),
        units,
        tuple(space.feature_table()),
        tuple(space.term_table()),
        tuple(op.name for op in op_classes()),
        {"data": {"programs": 3}, "made_by": "a test"},
    )
