"""Fine-tuning while tuning: what was measured of one pipeline so far enters, a cost model that knows it leaves.

Source: Adams et al. 2019, §4.3 and §6 (autotuning with retraining).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from metol import _core
from metol.cost import Member, Weights
from metol.cost_choice import choose_weights
from metol.measure import Status
from metol.pipeline import op_classes
from metol.train.fit import FIRST_SHARE, FitOptions, find_scaling, find_units, loss_of, make_batch
from metol.train.network import Batch, CoefficientNetwork, NetworkShape
from metol.train.table import FeatureTable, table_of_nests
from metol.tune import Problem, Record

__all__ = ["FineTuner"]

# Of fewer measurements nothing is learned that is true of others.
_LEAST_SAMPLES = 6
# By this much the loss grows with the squared distance of weights from where they began.
_ANCHOR = 3e-3
# Of the logarithms of features: those of one pipeline's few schedules hardly differ, and others may differ more.
_LEAST_DEVIATION = 1.0


@dataclass(slots=True)
class FineTuner:
    """Fits the cost model to what was measured of one pipeline, beginning each time with the weights as they came.

    The weights are those that the search goes by; where it goes by none, or is to begin afresh, a network that corrects
    nothing.
    """

    steps: int = 60
    """Steps of the optimizer."""
    learning_rate: float = 5e-3
    """Of Adam."""
    seed: int = 0
    """Of a network that begins at nothing."""
    is_fresh: bool = False
    """Whether each fit begins at nothing (Anderson et al. 2021, §6), whatever weights there are."""

    def retrain(self, problem: Problem, measured: Sequence[Record]) -> _core.CostModel:
        """Return a model that knows the measurements so far; that of the search where they are too few."""
        weights = self.weights(problem, measured)
        return problem.planner.model if weights is None else weights.model(problem.planner.form().space)

    def weights(self, problem: Problem, measured: Sequence[Record]) -> Weights | None:
        """Return weights that know the measurements so far; None where they are too few."""
        best_ms: dict[str, float] = {}
        for record in measured:
            if record.status is Status.OK and record.nest and record.run_ms is not None:
                best_ms[record.nest] = min(record.run_ms, best_ms.get(record.nest, np.inf))
        table = table_of_nests(problem.planner, {text: ms / 1e3 for text, ms in best_ms.items()})
        if table is None or len(table.seconds) < _LEAST_SAMPLES:
            return None
        space = problem.planner.form().space
        known = None if self.is_fresh else choose_weights(problem.options.weights, problem.planner.machine, space)
        base = known or self._blank(table)
        base.require_fit(space)
        torch.set_num_threads(1)  # as in `fit`: more would wait for each other
        batch = make_batch(table, base.units)
        members = tuple(self._fine_tuned(member, batch) for member in base.members)
        return Weights(members, base.units, base.features, base.terms, base.operations)

    def _blank(self, table: FeatureTable) -> Weights:
        """Return weights that correct nothing yet."""
        torch.manual_seed(self.seed)
        shape = NetworkShape(len(table.features), table.operations.shape[1], len(table.terms))
        network = CoefficientNetwork(shape, *find_scaling(table, _LEAST_DEVIATION))
        units = find_units(table, "residual")
        with torch.no_grad():
            network.gains.bias.copy_(torch.from_numpy(FIRST_SHARE * (units > 0)))
        names = tuple(op.name for op in op_classes())
        return Weights((network.export(),), units, table.features, table.terms, names)

    def _fine_tuned(self, member: Member, batch: Batch) -> Member:
        network = CoefficientNetwork.of(member)
        start = [parameter.detach().clone() for parameter in network.parameters()]
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate)
        for _ in range(self.steps):
            optimizer.zero_grad()
            distance = sum(((now - then) ** 2).sum() for now, then in zip(network.parameters(), start, strict=True))
            loss = loss_of(network(batch.features, batch.operations), batch, FitOptions())
            torch.autograd.backward(loss + _ANCHOR * distance)
            optimizer.step()
        tuned: Member = network.export()
        return tuned
