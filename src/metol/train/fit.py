"""Fit the cost model to samples: tables of features enter, an ensemble of networks leaves.

The loss is the squared error of throughput, relative to the fastest schedule of each program (Adams et al. 2019, §4.2),
and a share of the error of the logarithm of time, which the paper does without. Programs, never samples, are set aside
to stop early and to judge by.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from metol.cost import Member, Weights
from metol.errors import MetolError
from metol.pipeline import op_classes
from metol.train.network import Batch, CoefficientNetwork, NetworkShape, deviation_of, seconds_of, sum_by_sample
from metol.train.split import Split
from metol.train.table import FeatureTable

__all__ = ["FIRST_SHARE", "MODES", "FitOptions", "Fitted", "find_scaling", "find_units", "fit", "loss_of", "make_batch"]

MODES = ("residual", "network")
"""What a network learns: what the analytical model is wrong by, or the coefficients themselves."""

# What a term that the analytical model does not know costs at first: a hundredth of a program's time, if it is in it.
_UNIT_SHARE = 0.01
FIRST_SHARE = 0.05
"""Of that, where a fit begins: at 0 the gain of such a term, which is never negative, has no gradient and stays 0."""
# The logarithm from which on an error counts in proportion, not squared: some schedules are off by orders.
_STEEPEST = 0.5
# Step of constant gains.
_CONSTANT_RATE = 0.05
# What their mean square costs, by mode: 0 is a gain of 1 where the analytical model is corrected. With less, several
# terms that go up and down together take gains far from 1 that cancel out where there are samples, and a search finds
# where they do not.
_CONSTANT_PRICES = {"residual": 0.1, "network": 0.0}
# Features of the whole program: the search remembers the costs of parts, which may not depend on them.
_UNUSED = ("working_set_at_root",)


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How to fit."""

    mode: str = "residual"
    """One of MODES."""
    members: int = 3
    """Networks of the ensemble."""
    hidden: int = 24
    """What the head of the schedule puts out."""
    embedding: int = 8
    """What the head of the algorithm puts out."""
    epochs: int = 200
    """At most; each goes over all programs once."""
    patience: int = 25
    """Epochs without a better score on what stops early."""
    programs_a_batch: int = 8
    """Programs in a step of the optimizer, with all of their schedules."""
    learning_rate: float = 3e-3
    """Of Adam, at first; it falls as a cosine."""
    weight_decay: float = 1e-4
    """Shrinks weights a little in each step."""
    log_share: float = 1.0
    """Share of the error of the logarithm in the loss."""
    order_share: float = 2.0
    """Share of the error of the logarithm beside that of the program's mean."""
    deviation_price: float = 1000.0
    """Price of the mean square of what features add to constant gains: the fewer programs, the less they are to be
    believed."""
    constant_steps: int = 300
    """Steps in which the networks learn constant gains alone, before they look at any feature."""
    seed: int = 0
    """Seed of the first network; the others follow."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise MetolError(f"There is no mode `{self.mode}`; there are {', '.join(MODES)}.")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fitting led to."""

    weights: Weights
    """The ensemble."""
    history: tuple[tuple[tuple[float, float], ...], ...]
    """Loss on what was fitted to and on what stops early, by epoch, of each network."""


def fit(
    table: FeatureTable, split: Split, options: FitOptions | None = None, tell: Callable[[str], None] = lambda _: None
) -> Fitted:
    """Train an ensemble.

    Args:
        table: The samples.
        split: What they are for.
        options: How to fit.
        tell: Told how it goes.

    Raises:
        MetolError: there is nothing to fit to, or nothing to stop by.
    """
    options = options or FitOptions()
    torch.set_num_threads(1)  # so small are the matrices that more would wait for each other
    if not split.training or not split.stopping:
        raise MetolError(
            f"{len(table.programs)} programs are too few to fit to: none are left to "
            f"{'fit to' if not split.training else 'stop by'}. Collect more with `metol train generate --resume`."
        )
    training, stopping = table.select(split.training), table.select(split.stopping)
    units = find_units(training, options.mode)
    scaling = find_scaling(training)
    constants = _constant_gains(make_batch(training, units), options)
    members: list[Member] = []
    histories = []
    for number in range(options.members):
        torch.manual_seed(options.seed + number)
        network = CoefficientNetwork(_shape(table, options), *scaling)
        with torch.no_grad():
            network.gains.bias.copy_(constants)
        histories.append(_train(network, training, stopping, units, options, options.seed + number))
        best = min(score for _, score in histories[-1])
        tell(f"network {number + 1} of {options.members}: {len(histories[-1])} epochs, loss {best:.4f}")
        members.append(network.export())
    names = tuple(op.name for op in op_classes())
    weights = Weights(tuple(members), units, table.features, table.terms, names)
    return Fitted(weights, tuple(histories))


def find_units(table: FeatureTable, mode: str) -> npt.NDArray[np.float64]:
    """Return the seconds of a unit of each term that is to be learned from nothing, 0 for the others, [T]."""
    units = np.zeros(len(table.terms))
    for term in range(len(table.terms)):
        if mode == "residual" and table.analytical[:, term].any():
            continue
        total = np.zeros(len(table.seconds))
        np.add.at(total, table.sample_of_row, table.values[:, term].astype(np.float64))
        used = total > 0
        if used.any():
            units[term] = _UNIT_SHARE * float(np.median(table.seconds[used] / total[used]))
    return units


def make_batch(table: FeatureTable, units: npt.NDArray[np.float64]) -> Batch:
    """Return a table as tensors."""
    return Batch(
        features=torch.log1p(torch.from_numpy(table.rows)),
        operations=torch.log1p(torch.from_numpy(table.operations)),
        analytical=torch.from_numpy(table.analytical * (units == 0).astype(np.float32)),
        learned=torch.from_numpy((table.values * units).astype(np.float32)),
        sample_of_row=torch.from_numpy(table.sample_of_row),
        seconds=torch.from_numpy(table.seconds.astype(np.float32)),
        program_of_sample=torch.from_numpy(table.program_of_sample),
    )


def _shape(table: FeatureTable, options: FitOptions) -> NetworkShape:
    return NetworkShape(
        len(table.features), table.operations.shape[1], len(table.terms), options.hidden, options.embedding
    )


def find_scaling(table: FeatureTable, least_deviation: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean of the logarithms of each feature, and what differences from it are multiplied by, [F] each.

    Args:
        table: The samples.
        least_deviation: What differs by less is not made as large as the rest.
    """
    logs = np.log1p(table.rows)
    scale = 1 / np.maximum(logs.std(axis=0), least_deviation)
    scale[[table.features.index(name) for name in _UNUSED]] = 0
    return torch.from_numpy(logs.mean(axis=0)), torch.from_numpy(scale.astype(np.float32))


def _train(
    network: CoefficientNetwork,
    training: FeatureTable,
    stopping: FeatureTable,
    units: npt.NDArray[np.float64],
    options: FitOptions,
    seed: int,
) -> tuple[tuple[float, float], ...]:
    """Train one network, and leave it as it was when it was best on what stops early."""
    batches = [make_batch(training.select([program]), units) for program in range(len(training.programs))]
    judge = make_batch(stopping, units)
    optimizer = torch.optim.AdamW(network.parameters(), options.learning_rate, weight_decay=options.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs, options.learning_rate / 20)
    rng = np.random.default_rng(seed)
    best, best_state, history, since = math.inf, network.state_dict(), [], 0
    for _ in range(options.epochs):
        losses = []
        for chosen in _shuffled(len(batches), options.programs_a_batch, rng):
            optimizer.zero_grad()
            loss = price_of(network, _concatenated([batches[n] for n in chosen]), options)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
        schedule.step()
        with torch.no_grad():
            score = float(loss_of(network(judge.features, judge.operations), judge, options))
        history.append((float(np.mean(losses)), score))
        since += 1
        if score < best:
            best, since = score, 0
            best_state = {name: value.clone() for name, value in network.state_dict().items()}
        if since >= options.patience:
            break
    network.load_state_dict(best_state)
    return tuple(history)


def _shuffled(count: int, size: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    order = rng.permutation(count)
    for begin in range(0, count, size):
        yield order[begin : begin + size]


def _concatenated(batches: Sequence[Batch]) -> Batch:
    samples = np.cumsum([0, *(len(batch.seconds) for batch in batches)])
    return Batch(
        torch.cat([batch.features for batch in batches]),
        torch.cat([batch.operations for batch in batches]),
        torch.cat([batch.analytical for batch in batches]),
        torch.cat([batch.learned for batch in batches]),
        torch.cat([batch.sample_of_row + int(first) for batch, first in zip(batches, samples, strict=False)]),
        torch.cat([batch.seconds for batch in batches]),
        torch.cat([torch.full_like(batch.program_of_sample, n) for n, batch in enumerate(batches)]),
    )


def _constant_gains(batch: Batch, options: FitOptions) -> torch.Tensor:
    """Learn what gains are made of, [T], the same for all rows: few numbers, which even few programs tell."""
    samples = len(batch.seconds)
    # Rows that have the same gains may be added up before.
    whole = replace(
        batch,
        analytical=sum_by_sample(batch.analytical, batch),
        learned=sum_by_sample(batch.learned, batch),
        sample_of_row=torch.arange(samples),
    )
    constant: torch.Tensor = (FIRST_SHARE * batch.learned.any(dim=0)).requires_grad_()
    optimizer = torch.optim.Adam([constant], _CONSTANT_RATE)
    for _ in range(options.constant_steps):
        optimizer.zero_grad()
        loss = loss_of(constant.expand(samples, -1), whole, options) + _constant_price(constant, options)
        torch.autograd.backward(loss)
        optimizer.step()
    return constant.detach()


def price_of(network: CoefficientNetwork, batch: Batch, options: FitOptions) -> torch.Tensor:
    """Return the loss, with the prices of constant gains and of what features add to them."""
    z = network(batch.features, batch.operations)
    loss = loss_of(z, batch, options) + _constant_price(network.gains.bias, options)
    priced: torch.Tensor = loss + options.deviation_price * deviation_of(z, network, batch)
    return priced


def _constant_price(constant: torch.Tensor, options: FitOptions) -> torch.Tensor:
    return _CONSTANT_PRICES[options.mode] * (constant**2).mean()


def loss_of(z: torch.Tensor, batch: Batch, options: FitOptions) -> torch.Tensor:
    """Return the error of throughput relative to the program's best, with those of the logarithm of time."""
    predicted = seconds_of(z, batch)
    count = int(batch.program_of_sample.max()) + 1
    best = torch.full((count,), math.inf).scatter_reduce(0, batch.program_of_sample, batch.seconds, "amin")
    fastest = best[batch.program_of_sample]
    # A schedule that is thought to be much faster than any is punished no more than one thought three times as fast.
    wanted, got = fastest / batch.seconds, (fastest / predicted).clamp(max=3.0)
    sizes = torch.bincount(batch.program_of_sample, minlength=count).to(wanted.dtype)
    log_error = torch.log(predicted) - torch.log(batch.seconds)
    means = torch.zeros(count).index_add(0, batch.program_of_sample, log_error) / sizes
    errors = (got - wanted) ** 2 + options.log_share * _huber(log_error)
    errors = errors + options.order_share * _huber(log_error - means[batch.program_of_sample])
    total: torch.Tensor = (errors / sizes[batch.program_of_sample]).sum()
    return total / count


def _huber(errors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=_STEEPEST)
