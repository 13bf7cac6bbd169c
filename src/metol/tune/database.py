"""Records in an SQLite file, safe for several processes at once.

In: records. Out: the same records, and which schedule is the best of them.
"""

import json
import shlex
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from metol.errors import RecordError
from metol.measure import Status
from metol.tune.record import Record, RecordKey, SearchTerms, canonical, digest
from metol.tune.tables import machines, open_engine, problems, reading, records, schedules

__all__ = ["Records", "best_of", "median_ms"]

# Columns of the table that are fields of `Record` by the same name and need no reading.
_PLAIN = [
    field.name
    for field in fields(Record)
    if field.name not in ("key", "status", "schedule", "interval_ms", "samples_ms", "machine")
]

# What happened once may happen again.
_DISGRACES = (Status.WRONG_RESULT, Status.RUN_FAILED)


class Records:
    """A database of records. A context manager: leaving it closes the file."""

    def __init__(self, path: str | Path, *, may_create: bool = True) -> None:
        """Open a file, and make it where there is none and `may_create` says so.

        Raises:
            RecordError: the file is missing, not ours, of a later version, or cannot be written.
        """
        self.path = Path(path)
        self._engine = open_engine(self.path, may_create=may_create)

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    def __enter__(self) -> "Records":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, *new: Record) -> int:
        """Write records, all of them or none, and return how many were not there before.

        When this returns they are on the disk.

        Raises:
            RecordError: the file cannot be written.
        """
        try:
            with self._engine.begin() as connection:
                return sum(_insert(connection, record) for record in new)
        except sa.exc.DBAPIError as error:
            raise RecordError(f"`{self.path}` cannot be written: {error.orig}.") from error

    def all(self, *, session: str | None = None) -> tuple[Record, ...]:
        """Return the records, of one run of the tuner or all, in the order in which they were made."""
        return tuple(self._select(() if session is None else (records.c.session == session,)))

    def of_key(self, key: RecordKey) -> tuple[Record, ...]:
        """Return what was measured under one key, failures included, in the order in which it was made."""
        return tuple(self._select(_same_key(key)))

    def best(self, key: RecordKey) -> Record | None:
        """Return the record of the schedule that is fastest under this key; None where none was right.

        Where nothing was measured on these inputs, what was measured on others counts.
        """
        return best_of(self.of_key(key)) or best_of(self._of_any_inputs(key))

    def _of_any_inputs(self, key: RecordKey) -> Iterator[Record]:
        """What was measured under keys that differ in the inputs alone."""
        wanted = replace(SearchTerms.from_text(key.terms), inputs="")
        *rest, _ = _same_key(key)
        for record in self._select(rest):
            if replace(SearchTerms.from_text(record.key.terms), inputs="") == wanted:
                yield record

    def seeds(self, key: RecordKey, limit: int = 4) -> tuple[Record, ...]:
        """Return the best of this algorithm on other machines, for other sizes, or by other releases of Halide.

        Their times mean nothing here; their schedules are worth trying, if no more was promised there than is here.
        Those for the same sizes come first.
        """
        terms = SearchTerms.from_text(key.terms)
        groups: dict[RecordKey, list[Record]] = defaultdict(list)
        for record in self._select((problems.c.algorithm == key.algorithm, records.c.target == key.target)):
            if record.key != key and terms.cover(SearchTerms.from_text(record.key.terms)):
                groups[record.key].append(record)
        best = [record for record in map(best_of, groups.values()) if record is not None]
        best.sort(key=lambda record: (record.key.estimates != key.estimates, record.key.machine != key.machine))
        found: dict[str, Record] = {}
        for record in best:
            found.setdefault(record.schedule_digest, record)
        return tuple(found.values())[:limit]

    def find(self, uid: str) -> Record:
        """Return the one record whose uid begins like this; raises RecordError for none or several."""
        found = list(self._select((records.c.uid.startswith(uid, autoescape=True),)))
        if len(found) != 1:
            how_many = f"{len(found)} records" if found else "no record"
            raise RecordError(f"`{self.path}` has {how_many} whose id begins with `{uid}`.")
        return found[0]

    def sessions(self) -> tuple[str, ...]:
        """Return the runs of the tuner, in the order in which they began."""
        query = sa.select(records.c.session).group_by(records.c.session).order_by(sa.func.min(records.c.id))
        try:
            with reading(self._engine) as connection:
                return tuple(connection.execute(query).scalars())
        except sa.exc.DatabaseError as error:
            raise RecordError(f"`{self.path}` cannot be read: {error.orig}.") from error

    def export(self) -> Iterator[str]:
        """Return every record as a line of JSON."""
        return (record.to_line() for record in self.all())

    def _select(self, conditions: Sequence[sa.ColumnElement[bool]]) -> Iterator[Record]:
        query = (
            sa.select(records, problems, machines, schedules.c.json)
            .join(problems, records.c.problem_id == problems.c.id)
            .join(machines, records.c.machine_id == machines.c.id)
            .outerjoin(schedules, records.c.schedule_id == schedules.c.id)
            .where(*conditions)
            .order_by(records.c.id)
        )
        try:
            with reading(self._engine) as connection:
                rows = connection.execute(query).mappings().all()
        except sa.exc.DatabaseError as error:
            raise RecordError(f"`{self.path}` cannot be read: {error.orig}.") from error
        except ValueError as error:  # of a column of JSON
            raise RecordError(f"`{self.path}` is damaged: times in a record are no JSON: {error}.") from error
        return map(self._record, rows)

    def _record(self, row: sa.RowMapping) -> Record:
        try:
            return Record.from_fields(_fields_of(row))
        except (RecordError, TypeError, ValueError, RecursionError) as error:
            number = row[records.c.id]
            raise RecordError(
                f"`{self.path}` is damaged in row {number} of its table `record`: {error} To go on without it: "
                f'sqlite3 {shlex.quote(str(self.path))} "DELETE FROM record WHERE id = {number}"'
            ) from error


def best_of(measured: Iterable[Record]) -> Record | None:
    """Return the record of the fastest schedule; None where no schedule was right.

    Where there are final measurements, only they count, each schedule by the median of its own: of many quick
    measurements the least is more luck than speed. A schedule that was ever wrong, or crashed, is out.
    """
    every = list(measured)
    broken = {record.schedule_digest for record in every if record.status in _DISGRACES}
    usable = [record for record in every if record.is_usable and record.schedule_digest not in broken]
    by_schedule: dict[str, list[Record]] = defaultdict(list)
    for record in [record for record in usable if record.is_final] or usable:
        by_schedule[record.schedule_digest].append(record)
    best: tuple[float, Record] | None = None
    for group in by_schedule.values():
        times = [(record.run_ms or 0.0, record) for record in group]
        median = statistics.median(ms for ms, _ in times)
        nearest = min(times, key=lambda pair: abs(pair[0] - median))[1]
        if best is None or median < best[0]:
            best = (median, nearest)
    return None if best is None else best[1]


def median_ms(measured: Iterable[Record]) -> dict[str, float]:
    """Return the median time of each schedule that was right, by its digest."""
    times: dict[str, list[float]] = defaultdict(list)
    for record in measured:
        if record.is_usable and record.run_ms is not None:
            times[record.schedule_digest].append(record.run_ms)
    return {digest: statistics.median(found) for digest, found in times.items()}


def _same_key(key: RecordKey) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        problems.c.algorithm == key.algorithm,
        problems.c.estimates == key.estimates,
        machines.c.fingerprint == key.machine,
        records.c.target == key.target,
        records.c.halide_version == key.halide_version,
        records.c.terms == key.terms,
    )


def _insert(connection: sa.Connection, record: Record) -> int:
    """Write one record unless it is there; returns 1 where it was not."""
    uid = record.uid
    if connection.execute(sa.select(records.c.id).where(records.c.uid == uid)).first() is not None:
        return 0
    key = record.key
    problem = _id_of(connection, problems, {"algorithm": key.algorithm, "estimates": key.estimates})
    machine = _id_of(connection, machines, {"fingerprint": key.machine, "description": canonical(dict(record.machine))})
    schedule = None
    if record.schedule:
        # By its very text: what two versions of Metol write has one `schedule_digest`, and both are to be kept.
        schedule = _id_of(connection, schedules, {"digest": digest(record.schedule)}, {"json": record.schedule})
    connection.execute(
        records.insert().values(
            uid=uid,
            problem_id=problem,
            machine_id=machine,
            schedule_id=schedule,
            target=key.target,
            halide_version=key.halide_version,
            terms=key.terms,
            status=record.status.value,
            interval_ms=record.interval_ms,
            samples_ms=record.samples_ms,
            **{name: getattr(record, name) for name in _PLAIN},
        )
    )
    return 1


def _id_of(
    connection: sa.Connection, table: sa.Table, unique: dict[str, Any], rest: dict[str, Any] | None = None
) -> int:
    """Return the id of a row that is there once, and write it where it is not."""
    connection.execute(sqlite.insert(table).values(**unique, **(rest or {})).on_conflict_do_nothing())
    wanted = [table.c[name] == value for name, value in unique.items()]
    return int(connection.execute(sa.select(table.c.id).where(*wanted)).scalar_one())


def _fields_of(row: sa.RowMapping) -> dict[str, Any]:
    """The fields of a record by name, as JSON has them."""
    key = {
        "algorithm": row[problems.c.algorithm],
        "estimates": row[problems.c.estimates],
        "machine": row[machines.c.fingerprint],
        **{name: row[records.c[name]] for name in ("target", "halide_version", "terms")},
    }
    return {
        "key": key,
        "status": row[records.c.status],
        "schedule": row[schedules.c.json] or "",
        "interval_ms": row[records.c.interval_ms],
        "samples_ms": row[records.c.samples_ms],
        "machine": json.loads(row[machines.c.description]),
        **{name: row[records.c[name]] for name in _PLAIN},
    }
