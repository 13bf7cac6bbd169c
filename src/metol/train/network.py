"""The network in PyTorch: as `cost/network.cpp` evaluates it, and differentiable.

Enter: the logarithms of features and operations. Leave: predicted seconds of samples. Source: Adams et al. 2019, §4.2
and figure 4; it learns by how much the analytical model is wrong, or, without it, the coefficients themselves.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metol.cost import Member

__all__ = [
    "Batch",
    "CoefficientNetwork",
    "NetworkShape",
    "deviation_of",
    "predict_seconds",
    "seconds_of",
    "sum_by_sample",
]


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """How large a network is."""

    features: int
    """Columns of features."""
    operations: int
    """Classes of operations."""
    terms: int
    """Cost terms."""
    hidden: int = 24
    """What the head of the schedule puts out."""
    embedding: int = 8
    """What the head of the algorithm puts out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples, ready to be predicted."""

    features: Any
    """log(1 + features), [rows, F]."""
    operations: Any
    """log(1 + operations), [rows, O]."""
    analytical: Any
    """Seconds of each term by the analytical model, where it is to be corrected, 0 elsewhere, [rows, T]."""
    learned: Any
    """Seconds of each term by its unit, where the analytical model does not know it, 0 elsewhere, [rows, T]."""
    sample_of_row: Any
    """[rows]"""
    seconds: Any
    """Measured, [samples]."""
    program_of_sample: Any
    """[samples]"""


class CoefficientNetwork(torch.nn.Module):
    """Two heads, whose outputs together become what coefficients are multiplied by."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, shape: NetworkShape, mean: Any, scale: Any) -> None:
        """Start at random, but so that nothing is corrected.

        Args:
            shape: How large it is.
            mean: Of the logarithms of the features, [F].
            scale: What their differences from the mean are multiplied by, 0 for a feature that is not to be used, [F].
        """
        super().__init__()
        self.schedule = torch.nn.Linear(shape.features, shape.hidden)
        self.algorithm = torch.nn.Linear(shape.operations, shape.embedding)
        self.gains = torch.nn.Linear(shape.hidden + shape.embedding, shape.terms)
        torch.nn.init.normal_(self.gains.weight, std=0.01)
        torch.nn.init.zeros_(self.gains.bias)
        # Weights of the algorithm's head pass through a sigmoid, which is to begin near zero.
        torch.nn.init.normal_(self.algorithm.weight, mean=-3.0, std=0.5)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    @staticmethod
    def of(member: Member) -> "CoefficientNetwork":
        """Return a network that computes what an exported one does, to train it further."""
        features, hidden = member.schedule_weights.shape
        operations, embedding = member.algorithm_weights.shape
        shape = NetworkShape(features, operations, member.gain_biases.size, hidden, embedding)
        # What is not used has no weights, and gets none.
        used = torch.from_numpy((member.schedule_weights != 0).any(axis=1).astype(np.float32))
        network = CoefficientNetwork(shape, torch.zeros(features), used)
        with torch.no_grad():
            network.schedule.weight.copy_(torch.from_numpy(member.schedule_weights.T))
            network.schedule.bias.copy_(torch.from_numpy(member.schedule_biases))
            network.algorithm.weight.copy_(torch.logit(torch.from_numpy(member.algorithm_weights.T), eps=1e-6))
            network.algorithm.bias.copy_(torch.from_numpy(member.algorithm_biases))
            network.gains.weight.copy_(torch.from_numpy(member.gain_weights.T))
            network.gains.bias.copy_(torch.from_numpy(member.gain_biases))
        return network

    def forward(self, features: Any, operations: Any) -> Any:
        """Return what gains are made of, [rows, T]."""
        schedule = torch.relu(self.schedule((features - self.mean) * self.scale))
        weights = torch.sigmoid(self.algorithm.weight)
        algorithm = torch.relu(torch.nn.functional.linear(operations, weights, self.algorithm.bias))
        return self.gains(torch.cat([schedule, algorithm], dim=1))

    def export(self) -> Member:
        """Return the weights as arrays, with the normalization of the features worked into them."""
        with torch.no_grad():
            schedule = self.schedule.weight * self.scale
            biases = self.schedule.bias - schedule @ self.mean
            arrays = (
                schedule.T,
                biases,
                torch.sigmoid(self.algorithm.weight).T,
                self.algorithm.bias,
                self.gains.weight.T,
                self.gains.bias,
            )
            return Member(*(np.ascontiguousarray(array.numpy(), dtype=np.float32) for array in arrays))


def predict_seconds(network: CoefficientNetwork, batch: Batch) -> Any:
    """Return predicted seconds, [samples]."""
    return seconds_of(network(batch.features, batch.operations), batch)


def seconds_of(z: Any, batch: Batch) -> Any:
    """Return predicted seconds, [samples], from what gains are made of, [rows, T]."""
    root = torch.sqrt(z * z + 1)
    gain = torch.where(z < 0, 1 / (root - z.clamp(max=0)), root + z)
    rows = (batch.analytical * gain + batch.learned * torch.relu(z)).sum(dim=1)
    return sum_by_sample(rows, batch) + math.ulp(1.0) * 1e-3


def deviation_of(z: Any, network: CoefficientNetwork, batch: Batch) -> Any:
    """Return the mean square, over samples, of how far gains are from those that are the same for all rows.

    Each term of each row is weighted by its share of the time of the sample.
    """
    terms = batch.analytical + batch.learned
    total = sum_by_sample(terms.sum(dim=1), batch)
    shares = terms / total[batch.sample_of_row][:, None]
    return (shares * (z - network.gains.bias) ** 2).sum() / len(batch.seconds)


def sum_by_sample(rows: Any, batch: Batch) -> Any:
    """Add up what there is of rows, [rows] or [rows, T], over those of each sample."""
    zeros = torch.zeros((len(batch.seconds), *rows.shape[1:]), dtype=rows.dtype)
    return zeros.index_add(0, batch.sample_of_row, rows)
