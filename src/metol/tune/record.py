"""A record: one schedule of one pipeline, measured once on one machine, as a value and as a line of JSON.

In: a schedule and what became of it. Out: an immutable `Record`, whose key says what it can be compared with and whose
`uid` is a hash of all that it holds, so that records that meet twice are one.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from metol.errors import RecordError, ScheduleFormatError
from metol.lower import Measured, Schedule, schedule_identity
from metol.measure import Measurement, Status

__all__ = ["Record", "RecordKey", "SearchTerms", "canonical", "digest"]

_FORMAT = "metol record"
_VERSION = 2
"""Version 2 adds `nest`."""
# What a version lacks has a default.
_READ_VERSIONS = (1, _VERSION)
_UID_DIGITS = 20


def canonical(value: Any) -> str:
    """Return JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(text: str) -> str:
    """Return 20 hexadecimal digits that are the same for equal texts."""
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What was promised and asked for, and changes which schedules may be used: part of the key of a record."""

    threads: int
    """Threads that the schedule runs with."""
    fixed_sizes: bool = False
    """Whether it may refuse outputs of any size but the estimated one."""
    may_alias: bool = False
    """Whether an output may be the memory of an input."""
    is_cold: bool = False
    """Whether caches are emptied before each run that is timed."""
    inputs: str = ""
    """A digest of the inputs that the user gave; empty for random ones."""

    def to_text(self) -> str:
        """Return the terms as a part of a key."""
        content = asdict(self)
        # Left out where there are none, so that such terms are what they were in version 1.
        return canonical({name: value for name, value in content.items() if name != "inputs" or value})

    @staticmethod
    def from_text(text: str) -> "SearchTerms":
        """Read what `to_text` returned."""
        return SearchTerms(**json.loads(text))

    def cover(self, other: "SearchTerms") -> bool:
        """Whether all that the other terms promise is promised here, too."""
        # Whose outputs may alias promises less than whose may not.
        return (self.fixed_sizes or not other.fixed_sizes) and (other.may_alias or not self.may_alias)

    def permit(self, schedule: Schedule) -> bool:
        """Whether a schedule asks for no more than was promised."""
        return self.fixed_sizes or not schedule.has_fixed_sizes


@dataclass(frozen=True, slots=True)
class RecordKey:
    """What two records must share for their times to be compared."""

    algorithm: str
    """16 hexadecimal digits that name the algorithm."""
    estimates: str
    """The sizes and values that it is scheduled for, as canonical JSON."""
    machine: str
    """Fingerprint of the machine."""
    target: str
    """The Halide target."""
    halide_version: str
    """The release of Halide that compiles it."""
    terms: str
    """`SearchTerms` as text."""

    @staticmethod
    def of(schedule: Schedule, machine: str, terms: SearchTerms) -> "RecordKey":
        """Return the key under which a schedule is measured on a machine.

        Raises:
            RecordError: the schedule does not tell which algorithm it is for, or goes with one written by hand, which
                is told by no key.
        """
        if not schedule.algorithm_hash:
            raise RecordError("This schedule does not say which algorithm it is for, and cannot be recorded.")
        if schedule.kept:
            raise RecordError("This schedule goes with Funcs that keep a hand-written one, and cannot be recorded.")
        # As a list, for several Funcs may have one name.
        estimates = [
            [e.name, e.value if e.value is not None else [list(side) for side in e.bounds]] for e in schedule.estimates
        ]
        return RecordKey(
            schedule.algorithm_hash,
            canonical(estimates),
            machine,
            schedule.target,
            schedule.halide_version,
            terms.to_text(),
        )


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement, failures included."""

    key: RecordKey
    """What it can be compared with."""
    label: str
    """The pipeline as the user named it."""
    origin: str
    """Where the schedule is from: a sampled search, the safe schedule, a peer, and so on."""
    status: Status
    """What became of it."""
    detail: str = ""
    """Why it failed, or what was compared with the reference."""
    schedule: str = ""
    """The schedule as `Schedule.to_json` writes it, without the time of another measurement; empty where there was none
    to measure."""
    run_ms: float | None = None
    """Median milliseconds of a run."""
    interval_ms: tuple[float, float] | None = None
    """Confidence interval of that median."""
    samples_ms: tuple[float, ...] = ()
    """Milliseconds per run, one for each batch of runs."""
    compile_seconds: float | None = None
    """From the scheduled pipeline to machine code."""
    predicted_seconds: float | None = None
    """What the cost model said."""
    nest: str = ""
    """The decisions that led to it, as `Nest.to_json` writes them; empty where no search of ours made it."""
    is_verified: bool = False
    """Whether its results were those of the reference."""
    is_final: bool = False
    """Whether it was timed in a process of its own at the end, beside the best of the rest."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """The machine, for people."""
    metol_version: str = ""
    """The Metol that measured it."""
    session: str = ""
    """The run of the tuner that it belongs to."""
    made_at: str = ""
    """When, as ISO 8601 in UTC."""

    def __post_init__(self) -> None:
        """Make numbers what the database and JSON make of them, so that a record stays the same on every way."""
        for name in ("run_ms", "compile_seconds", "predicted_seconds"):
            object.__setattr__(self, name, _finite(getattr(self, name)))
        object.__setattr__(self, "samples_ms", tuple(map(float, self.samples_ms)))
        if self.interval_ms is not None:
            low, high = self.interval_ms
            object.__setattr__(self, "interval_ms", (float(low), float(high)))

    @staticmethod
    def of_measurement(
        key: RecordKey, row: Measurement, schedule: Schedule | None, origin: str, **more: Any
    ) -> "Record":
        """Return the record of a row that a runner measured.

        Raises:
            RecordError: the schedule asks for more than the terms of the key promise.
        """
        if schedule is not None and not SearchTerms.from_text(key.terms).permit(schedule):
            raise RecordError("This schedule refuses outputs of other sizes, which the terms of its key do not allow.")
        return Record(
            key,
            label=row.app,
            origin=origin,
            status=row.status,
            detail=row.detail,
            schedule="" if schedule is None else replace(schedule, measured=None).to_json(),
            run_ms=row.run_ms,
            interval_ms=row.interval_ms,
            samples_ms=row.run_ms_samples,
            compile_seconds=row.compile_seconds,
            is_verified=row.verified,
            **more,
        )

    @property
    def uid(self) -> str:
        """A hash of everything in the record."""
        return digest(canonical(self._content()))

    @property
    def is_usable(self) -> bool:
        """Whether its schedule was right, and its time is known."""
        return self.status is Status.OK and self.is_verified and self.run_ms is not None and bool(self.schedule)

    @property
    def schedule_digest(self) -> str:
        """A hash that is the same for equal schedules, whichever Metol wrote them; empty where there is none."""
        return _schedule_digest(self.schedule) if self.schedule else ""

    @property
    def measured(self) -> Measured | None:
        """Its time as schedule files tell it; None where it is of no use."""
        if not self.run_ms or not self.is_usable:
            return None
        terms = SearchTerms.from_text(self.key.terms)
        return Measured(
            run_ms=self.run_ms,
            interval_ms=self.interval_ms,
            threads=terms.threads,
            machine=self.key.machine,
            cpu=str(self.machine.get("cpu", "")),
            is_cold=terms.is_cold,
            made_at=self.made_at,
        )

    def to_schedule(self) -> Schedule:
        """Return the schedule, with the time of this record; raises RecordError where there is none."""
        if not self.schedule:
            raise RecordError(f"Record {self.uid} has no schedule: {self.status.value}: {self.detail}")
        return replace(Schedule.from_json(self.schedule), measured=self.measured)

    def to_line(self) -> str:
        """Return the record as one line of JSON that loses nothing."""
        return json.dumps({"format": _FORMAT, "version": _VERSION, **self._content()})

    @staticmethod
    def from_line(line: str) -> "Record":
        """Read a line that `to_line` wrote.

        Raises:
            RecordError: it is something else, of a later version, or not whole.
        """
        try:
            content = json.loads(line)
            form, version = content.pop("format"), content.pop("version")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise RecordError(f"`{line[:60]}` is no record; a file of records has one JSON object a line.") from None
        if form != _FORMAT or version not in _READ_VERSIONS:
            raise RecordError(
                f"This is `{form}` of version {version}; this Metol reads `{_FORMAT}` up to version {_VERSION}."
            )
        return Record.from_fields(content)

    @staticmethod
    def from_fields(content: Mapping[str, Any]) -> "Record":
        """Read the fields of a record by name, as JSON has them; raises RecordError where one is not what it should be.

        Whoever uses a record relies on what is looked at here: files of other people's hold anything.
        """
        try:
            return Record._from_content({"nest": "", **content})
        except KeyError as error:
            raise RecordError(f"A record is not whole: it has no {error}.") from None
        except (TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            raise RecordError(f"A record is not whole: {error}.") from None

    def _content(self) -> dict[str, Any]:
        content = {**asdict(self), "status": self.status.value}
        # So that records of version 1 are the same records still.
        return content if self.nest else {name: value for name, value in content.items() if name != "nest"}

    @staticmethod
    def _from_content(content: dict[str, Any]) -> "Record":
        for name, kind in _KINDS.items():
            if not isinstance(content[name], kind):
                raise TypeError(f"`{name}` is {content[name]!r}")
        key = RecordKey(**content["key"])
        if not all(isinstance(part, str) for part in asdict(key).values()):
            raise TypeError(f"its key is {content['key']!r}")
        _require_key(key)
        return Record(**{**content, "key": key, "status": Status(content["status"])})


_NUMBER = (int, float, type(None))
_KINDS: dict[str, type | tuple[type, ...]] = {
    "key": dict,
    "machine": dict,
    "run_ms": _NUMBER,
    "compile_seconds": _NUMBER,
    "predicted_seconds": _NUMBER,
    "interval_ms": (list, type(None)),
    "samples_ms": list,
    "is_verified": bool,
    "is_final": bool,
    **dict.fromkeys(
        ("label", "origin", "status", "detail", "schedule", "nest", "metol_version", "session", "made_at"), str
    ),
}
"""What the fields of a record are in JSON."""


# The keys of a database are few.
@functools.lru_cache(maxsize=256)
def _require_key(key: RecordKey) -> None:
    """Raise TypeError or ValueError where a key does not tell sizes and terms."""
    try:
        are_estimates = all(_is_estimate(name, value) for name, value in json.loads(key.estimates))
    except (TypeError, ValueError):
        are_estimates = False
    if not are_estimates:
        raise ValueError(f"`estimates` is {key.estimates!r}")
    try:
        terms = SearchTerms.from_text(key.terms)
    except (TypeError, ValueError):
        raise ValueError(f"`terms` is {key.terms!r}") from None
    kinds = (int, bool, bool, bool, str)
    if not all(type(value) is kind for value, kind in zip(asdict(terms).values(), kinds, strict=True)):
        raise ValueError(f"`terms` is {key.terms!r}")


def _is_estimate(name: Any, value: Any) -> bool:
    """Is this a name with a value, or with a lower bound and an extent for each dimension?"""
    sides = value if isinstance(value, list) else []
    is_box = all(len(side) == 2 and all(isinstance(number, int) for number in side) for side in sides)
    return isinstance(name, str) and isinstance(value, (bool, int, float, list)) and is_box


# Records of one schedule are many, and whoever looks for the best asks each of them.
@functools.lru_cache(maxsize=1024)
def _schedule_digest(schedule: str) -> str:
    try:
        return digest(schedule_identity(schedule))
    except ScheduleFormatError:  # of a later Metol: equal to itself
        return digest(schedule)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
