"""Trained weights of the cost model, as a file: NumPy arrays enter, and leave as what the core evaluates.

A file tells which features, terms and operations its numbers are about, where and on what it was trained, and how good
it was; one that is about other features is refused. Needs no PyTorch.
"""

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.destinations import write_bytes
from metol.errors import WeightsError
from metol.pipeline import op_classes

__all__ = ["Member", "Weights"]

_FORMAT = "metol weights"
_VERSION = 1
_ARRAYS = (
    "schedule_weights",
    "schedule_biases",
    "algorithm_weights",
    "algorithm_biases",
    "gain_weights",
    "gain_biases",
)

# What reading an archive raises where it is cut short, spoiled, or something else.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One trained network (Adams et al. 2019, figure 4): all matrices are [inputs, outputs]."""

    schedule_weights: Matrix
    """[F, H], for the logarithms of one plus the features."""
    schedule_biases: Matrix
    """[H]"""
    algorithm_weights: Matrix
    """[O, E], for the logarithms of one plus the operations; positive, so that more work never costs less there."""
    algorithm_biases: Matrix
    """[E]"""
    gain_weights: Matrix
    """[H + E, T]"""
    gain_biases: Matrix
    """[T]"""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """An ensemble, and what it is about."""

    members: tuple[Member, ...]
    """Trained alike, from different beginnings: where they differ, little is known."""
    units: npt.NDArray[np.float64]
    """Seconds of a unit of each term that the analytical model does not know, 0 for the others, [T]."""
    features: tuple[str, ...]
    """Feature columns, [F]."""
    terms: tuple[str, ...]
    """Cost terms, [T]."""
    operations: tuple[str, ...]
    """Classes of operations, [O]."""
    notes: dict[str, Any] = field(default_factory=dict)
    """The machine, the data, the options of the fit and the scores, for people."""

    def __post_init__(self) -> None:
        if not self.members:
            raise WeightsError("Weights need at least one network.")
        sizes = len(self.features), len(self.operations), len(self.terms)
        if self.units.shape != sizes[-1:] or not all(_fits(member, *sizes) for member in self.members):
            raise WeightsError("These weights do not fit their own features, operations and terms.")
        arrays = [self.units, *(getattr(member, name) for member in self.members for name in _ARRAYS)]
        if not all(np.isfinite(array).all() for array in arrays) or (self.units < 0).any():
            raise WeightsError("These weights are no numbers: some are infinite or NaN, or a unit is negative.")

    def model(self, space: _core.Space) -> _core.CostModel:
        """Return the cost model that the core evaluates: the mean of the ensemble.

        Raises:
            WeightsError: they are about other features, terms or operations than this space has.
        """
        self.require_fit(space)
        return self._model(self.members)

    def member_models(self, space: _core.Space) -> tuple[_core.CostModel, ...]:
        """Return a cost model for each network, of which the spread tells how little is known; errors as `model`."""
        self.require_fit(space)
        return tuple(self._model((member,)) for member in self.members)

    def with_notes(self, notes: dict[str, Any]) -> "Weights":
        """Return the same weights with these notes."""
        return replace(self, notes=notes)

    def require_fit(self, space: _core.Space) -> None:
        """Raise WeightsError where they are about something else than this space."""
        self.require(tuple(space.feature_table()), tuple(space.term_table()))

    def require(self, features: tuple[str, ...], terms: tuple[str, ...]) -> None:
        """Raise WeightsError where they are about other features or terms than these, or other operations."""
        ours = features, terms, tuple(op.name for op in op_classes())
        for what, own, theirs in zip(
            ("features", "cost terms", "operations"), ours, (self.features, self.terms, self.operations), strict=True
        ):
            if own != theirs:
                raise WeightsError(
                    f"These weights are for other {what} than this Metol has for the target; "
                    "train anew with `metol train fit`."
                )

    def network(self, members: tuple[Member, ...] | None = None) -> _core.Network:
        """Return what the core evaluates, of some of the networks; of all if None."""
        return _core.Network(*_layers(members or self.members), self.units.tolist())

    def _model(self, members: tuple[Member, ...]) -> _core.CostModel:
        network = self.network(members)
        return _core.CostModel(_model_id(members, self.units), network=network)

    def save(self, path: Path) -> None:
        """Write a file of NumPy arrays."""
        head = {
            "format": _FORMAT,
            "version": _VERSION,
            "members": len(self.members),
            "features": self.features,
            "terms": self.terms,
            "operations": self.operations,
            "notes": self.notes,
        }
        arrays: dict[str, Any] = {"head": np.array(json.dumps(head)), "units": self.units}
        for number, member in enumerate(self.members):
            arrays |= {f"{name}_{number}": getattr(member, name) for name in _ARRAYS}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_bytes(path, buffer.getvalue())

    @staticmethod
    def load(path: Path) -> "Weights":
        """Read a file.

        Raises:
            WeightsError: there is none, or it is something else.
        """
        try:
            # NumPy reads other kinds of files, too, and advises to trust what is none.
            with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
                head = json.loads(str(arrays["head"]))
                if head["format"] != _FORMAT:
                    raise ValueError(f"it is `{head['format']}`")
                if head["version"] != _VERSION:
                    raise WeightsError(f"`{path}` is of version {head['version']}; this Metol reads {_VERSION}.")
                members = tuple(
                    Member(*(arrays[f"{name}_{number}"].astype(np.float32) for name in _ARRAYS))
                    for number in range(head["members"])
                )
                units = arrays["units"].astype(np.float64)
            features, terms, operations = (tuple(head[name]) for name in ("features", "terms", "operations"))
            notes = head["notes"]
        except _UNREADABLE as error:
            missing = f"it has no {error}" if isinstance(error, KeyError) else f"{error}"
            raise WeightsError(f"`{path}` is no file of weights: {missing}.") from error
        try:
            return Weights(members, units, features, terms, operations, notes)
        except WeightsError as error:
            raise WeightsError(f"`{path}`: {error}") from error


def _fits(member: Member, features: int, operations: int, terms: int) -> bool:
    """Whether the matrices of a network have the sizes that they should have."""
    hidden, embedding = member.schedule_biases.size, member.algorithm_biases.size
    wanted = (features, hidden), (hidden,), (operations, embedding), (embedding,), (hidden + embedding, terms), (terms,)
    return all(getattr(member, name).shape == shape for name, shape in zip(_ARRAYS, wanted, strict=True))


def _layers(members: tuple[Member, ...]) -> tuple[Any, Any, Any]:
    """Join networks into one whose gains are the means of theirs, before these are made positive."""

    def side(name: str) -> tuple[Matrix, Matrix]:
        return (
            np.concatenate([getattr(member, f"{name}_weights") for member in members], axis=1),
            np.concatenate([getattr(member, f"{name}_biases") for member in members]),
        )

    hidden = members[0].schedule_biases.size
    gains = [member.gain_weights / np.float32(len(members)) for member in members]
    return (
        side("schedule"),
        side("algorithm"),
        (
            np.concatenate([*(gain[:hidden] for gain in gains), *(gain[hidden:] for gain in gains)]),
            np.mean([member.gain_biases for member in members], axis=0, dtype=np.float32),
        ),
    )


def _model_id(members: tuple[Member, ...], units: npt.NDArray[np.float64]) -> int:
    """Return a number that is equal for equal networks and units, and none that models without one have."""
    digest = hashlib.sha256(np.ascontiguousarray(units).tobytes())
    for member in members:
        for array in asdict(member).values():
            digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest()[:7], "big") | (1 << 62)
