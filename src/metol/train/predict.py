"""Predictions for a table of samples: weights, or gradient-boosted trees to compare with, enter; seconds leave.

In NumPy, as the core does it (`cost/network.cpp`), for tables are made of arrays.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metol.cost import Member, Weights
from metol.train.table import FeatureTable

__all__ = ["fit_trees", "predict", "spread"]

Seconds = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]


def predict(weights: Weights, table: FeatureTable) -> Seconds:
    """Return predicted seconds by the mean of the ensemble, [samples]."""
    return _predict(weights, weights.members, table)


def spread(weights: Weights, table: FeatureTable) -> Seconds:
    """Return the standard deviation of the logarithms of what the networks predict, [samples]."""
    logs = [np.log(_predict(weights, (member,), table)) for member in weights.members]
    deviation: Seconds = np.std(logs, axis=0)
    return deviation


def _predict(weights: Weights, members: Sequence[Member], table: FeatureTable) -> Seconds:
    features, operations = np.log1p(table.rows), np.log1p(table.operations)
    z = np.mean([_forward(member, features, operations) for member in members], axis=0, dtype=np.float32)
    root = np.sqrt(z * z + 1)
    gain = np.where(z < 0, 1 / (root - np.minimum(z, 0)), root + z)
    known = weights.units == 0
    rows = (table.analytical[:, known] * gain[:, known]).sum(axis=1, dtype=np.float64)
    rows += (table.values * weights.units * np.maximum(z, 0)).sum(axis=1, dtype=np.float64)
    total = np.zeros(len(table.seconds))
    np.add.at(total, table.sample_of_row, rows)
    positive: Seconds = np.maximum(total, np.finfo(np.float64).tiny)
    return positive


def _forward(member: Member, features: Matrix, operations: Matrix) -> Matrix:
    schedule = np.maximum(features @ member.schedule_weights + member.schedule_biases, 0)
    algorithm = np.maximum(operations @ member.algorithm_weights + member.algorithm_biases, 0)
    gains: Matrix = np.concatenate([schedule, algorithm], axis=1) @ member.gain_weights + member.gain_biases
    return gains


def fit_trees(training: FeatureTable, table: FeatureTable, seed: int = 0) -> Seconds:
    """Fit gradient-boosted trees, and return what they predict of a table, [samples].

    They see of each sample the logarithms of the seconds of each term, added up over its Stages, and learn what the
    analytical model is wrong by. A search could not use them: they know whole loop nests alone, not rows.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    trees = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.05, l2_regularization=1.0, random_state=seed)
    trees.fit(_summary(training), np.log(training.seconds / training.analytical_seconds))
    predicted: Seconds = table.analytical_seconds * np.exp(trees.predict(_summary(table)))
    return predicted


def _summary(table: FeatureTable) -> Seconds:
    """One row a sample, [samples, 2 T + O + 1]."""
    count = len(table.seconds)
    points = table.features.index("points_computed_total")
    parts = []
    for matrix in (table.analytical, table.values, table.operations * table.rows[:, points, None]):
        total = np.zeros((count, matrix.shape[1]))
        np.add.at(total, table.sample_of_row, matrix)
        parts.append(np.log(total + 1e-12))
    whole = np.log(table.analytical_seconds)[:, None]
    # Shares of the whole say more than seconds.
    return np.concatenate([parts[0] - whole, *parts[1:], whole], axis=1)
