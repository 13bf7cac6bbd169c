"""What measurements tell of the cost model: a Gaussian process over the logarithm of measured / predicted time.

In: the loop nests of one pipeline that were measured, and some that could be. Out: which of these to measure, in order.
Beforehand each cost term of each Stage may be off by a factor, so that loop nests err alike as far as the same terms
make up their time (Bayesian linear regression), Stages err alike as far as their features are alike, and all may be off
together. Sources: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, §2.1 and
§2.2; which of a batch is next, without knowing how those before it fare: T. Desautels et al., "Parallelizing
exploration-exploitation tradeoffs in Gaussian process bandit optimization", 2014.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.candidates import Nest
from metol.errors import MetolError
from metol.planner import Planner
from metol.search import Form
from metol.tune.standings import Standings

__all__ = ["Residuals"]

_Array: TypeAlias = npt.NDArray[np.float64]

# Standard deviations of what the logarithm of a time may be off by, before anything is measured.
_COMMON = 0.3  # of all loop nests
_TERM = 1.0  # of a cost term of a Stage, were it the whole time
_STAGE = 0.5  # of a Stage with its features, were it the whole time
# Of the race of two schedules.
_NOISE = 0.05
# Squared distance of the logarithms of features at which Stages are alike by 1 / e.
_LIKENESS = 100.0
# How many standard deviations a candidate is hoped to be faster than expected.
_HOPE = 0.5


@dataclass(frozen=True, slots=True)
class _Nests:
    """What the process goes by, of loop nests of one form."""

    identities: tuple[int, ...]
    log_seconds: _Array
    """Predicted, [N]."""
    terms: _Array
    """Share of each cost term of each Stage in the predicted time, [N, S * T]."""
    stages: _Array
    """Share of each Stage, [N, S]."""
    features: _Array
    """Logarithms of 1 + feature, [N, S, F]."""


class Residuals:
    """What the standings of one pipeline tell of its cost model."""

    def __init__(self, planner: Planner, standings: Standings) -> None:
        self._planner = planner
        self._standings = standings
        self._model: _core.CostModel | None = None
        self._measured: dict[Nest, tuple[Form, _Nests] | None] = {}

    def order(self, form: Form, states: Sequence[_core.States], model: _core.CostModel) -> Iterator[int]:
        """Yield places of candidates, the one most worth a measurement first; those that were measured are left out.

        Args:
            form: The form of the pipeline that they are of.
            states: The candidates: complete loop nests, each a batch of one.
            model: What they are predicted by.
        """
        if not states:
            return
        if model is not self._model:
            self._measured.clear()
            self._model = model
        known, log_errors = self._known(form, model)
        candidates = _describe(form, functools.reduce(_core.States.concat, states), model)
        mean, covariance = _posterior(known, log_errors, candidates)
        seen = set(known.identities) if known is not None else set()
        left = np.array([identity not in seen for identity in candidates.identities])
        while left.any():
            hoped = mean - _HOPE * np.sqrt(np.maximum(0.0, np.diagonal(covariance)))
            place = int(np.argmin(np.where(left, hoped, np.inf)))
            left[place] = False
            yield place
            # Its time changes nothing but how sure one will be of those like it.
            column = covariance[:, place].copy()
            covariance -= np.outer(column, column) / (column[place] + _NOISE**2)

    def _known(self, form: Form, model: _core.CostModel) -> tuple[_Nests | None, _Array]:
        """What was measured of a form, and the logarithms of measured / predicted time."""
        chosen: list[_Nests] = []
        scores: list[float] = []
        for standing in self._standings:
            nest = standing.proposal.nest
            if nest is None:  # no search of ours made it
                continue
            if nest not in self._measured:
                self._measured[nest] = self._described(nest, model)
            entry = self._measured[nest]
            if entry is not None and entry[0] is form:
                chosen.append(entry[1])
                scores.append(standing.score_ms / 1e3)
        if not chosen:
            return None, np.zeros(0)
        known = _joined(chosen)
        return known, np.log(scores) - known.log_seconds

    def _described(self, nest: Nest, model: _core.CostModel) -> tuple[Form, _Nests] | None:
        """None where the search of another release made it."""
        try:
            form, state = self._planner.state_of(nest)
        except MetolError:
            return None
        return form, _describe(form, state, model)


def _describe(form: Form, states: _core.States, model: _core.CostModel) -> _Nests:
    space = form.space
    seconds = space.cost(states, model)
    features = space.featurize(states)
    terms, stages = [], []
    for place, rows in enumerate(features):
        share = space.stage_costs(states.take([place]), model) / seconds[place]
        by_term = np.array(
            [space.terms(row) * space.analytical_coefficients(stage, row) for stage, row in enumerate(rows)]
        )
        # What the analytical model says of the terms of a Stage divides up what the model says of it all.
        whole = by_term.sum(axis=1)
        terms.append((by_term * np.divide(share, whole, out=np.zeros_like(whole), where=whole > 0)[:, None]).ravel())
        stages.append(share)
    logarithms = np.sign(features) * np.log1p(np.abs(features.astype(np.float64)))
    identities = tuple(int(identity) for identity in space.identity_hash(states))
    return _Nests(identities, np.log(seconds), np.array(terms), np.array(stages), logarithms)


def _joined(nests: Sequence[_Nests]) -> _Nests:
    return _Nests(
        tuple(identity for one in nests for identity in one.identities),
        *(
            np.concatenate([getattr(one, name) for one in nests])
            for name in ("log_seconds", "terms", "stages", "features")
        ),
    )


def _kernel(one: _Nests, other: _Nests) -> _Array:
    """The covariance of the errors of two lists of loop nests of one form."""
    covariance: _Array = _COMMON**2 + _TERM**2 * (one.terms @ other.terms.T)
    for stage in range(one.stages.shape[1]):
        mine, theirs = one.features[:, stage], other.features[:, stage]
        distance = (mine**2).sum(axis=1)[:, None] + (theirs**2).sum(axis=1) - 2 * mine @ theirs.T
        likeness = np.exp(-np.maximum(0.0, distance) / _LIKENESS)
        covariance += _STAGE**2 * np.outer(one.stages[:, stage], other.stages[:, stage]) * likeness
    return covariance


def _posterior(known: _Nests | None, log_errors: _Array, candidates: _Nests) -> tuple[_Array, _Array]:
    """The mean of the logarithm of the time of candidates, and the covariance."""
    covariance = _kernel(candidates, candidates)
    if known is None:
        return candidates.log_seconds, covariance
    across = _kernel(candidates, known)
    noisy = _kernel(known, known) + _NOISE**2 * np.eye(len(log_errors))
    weights = np.linalg.solve(noisy, across.T)
    return candidates.log_seconds + log_errors @ weights, covariance - across @ weights
