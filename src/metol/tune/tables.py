"""The tables of a database of records, and how one that an earlier Metol made is brought up to date.

In: a path. Out: an engine on an SQLite file that is ours, of the version that this Metol writes.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from metol.errors import RecordError

__all__ = ["is_database", "machines", "open_engine", "problems", "reading", "records", "schedules"]

_METADATA = sa.MetaData()

problems = sa.Table(
    "problem",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("algorithm", sa.String, nullable=False),
    sa.Column("estimates", sa.String, nullable=False),
    sa.UniqueConstraint("algorithm", "estimates"),
)
"""An algorithm, and the sizes and values that it is scheduled for."""

machines = sa.Table(
    "machine",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("fingerprint", sa.String, nullable=False),
    sa.Column("description", sa.String, nullable=False),
    sa.UniqueConstraint("fingerprint", "description"),
)
"""A machine by its fingerprint, with what people want to know of it."""

schedules = sa.Table(
    "schedule",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String, nullable=False, unique=True),
    sa.Column("json", sa.Text, nullable=False),
)
"""The text of a schedule, however often it was measured, under the hash of that text."""

records = sa.Table(
    "record",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.String, nullable=False, unique=True),
    sa.Column("problem_id", sa.ForeignKey("problem.id"), nullable=False),
    sa.Column("machine_id", sa.ForeignKey("machine.id"), nullable=False),
    sa.Column("schedule_id", sa.ForeignKey("schedule.id")),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("halide_version", sa.String, nullable=False),
    sa.Column("terms", sa.String, nullable=False),
    sa.Column("label", sa.String, nullable=False),
    sa.Column("origin", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("run_ms", sa.Float),
    sa.Column("interval_ms", sa.JSON(none_as_null=True)),
    sa.Column("samples_ms", sa.JSON, nullable=False),
    sa.Column("compile_seconds", sa.Float),
    sa.Column("predicted_seconds", sa.Float),
    sa.Column("nest", sa.Text, nullable=False, server_default=""),
    sa.Column("is_verified", sa.Boolean, nullable=False),
    sa.Column("is_final", sa.Boolean, nullable=False),
    sa.Column("metol_version", sa.String, nullable=False),
    sa.Column("session", sa.String, nullable=False),
    sa.Column("made_at", sa.String, nullable=False),
    sa.Index("record_by_problem", "problem_id", "machine_id"),
    sa.Index("record_by_session", "session"),
)
"""One measurement; the columns are the fields of `Record`."""

# In the header of the file: which program's it is ("Metl"), and the version of its tables.
_APPLICATION_ID = 0x4D65746C
_VERSION = 2


def _add_nests(connection: sa.Connection) -> None:
    """Version 2: the decisions that led to a schedule."""
    connection.exec_driver_sql("ALTER TABLE record ADD COLUMN nest TEXT DEFAULT '' NOT NULL")


# From each earlier version to the next.
_MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {1: _add_nests}

_WAIT_SECONDS = 60.0
_READING = "metol_reading"
_SQLITE_HEADER = b"SQLite format 3\x00"


def open_engine(path: Path, *, may_create: bool) -> sa.Engine:
    """Open a database that any number of processes may read and write at once.

    Every transaction that has ended is on the disk: killing the process at any moment loses nothing else.

    Raises:
        RecordError: the file is missing, of another kind, made by a later Metol, or cannot be written.
    """
    _require_database(path, may_create=may_create)
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": _WAIT_SECONDS})
    sa.event.listen(engine, "connect", _configure)
    sa.event.listen(engine, "begin", _begin)
    try:
        with reading(engine) as connection:
            is_current = _is_current(connection, path)
        if not is_current:
            with engine.begin() as connection:
                _update(connection, path)
    except (sa.exc.OperationalError, sa.exc.DatabaseError) as error:
        engine.dispose()
        raise RecordError(f"`{path}` cannot be used for records: {error.orig}.") from error
    except RecordError:
        engine.dispose()
        raise
    return engine


def _require_database(path: Path, *, may_create: bool) -> None:
    """Raise RecordError on what plainly is none, before SQLite makes files beside it."""
    if path.is_dir():
        raise RecordError(f"`{path}` is a folder; name a file for the records.")
    if not path.parent.is_dir():
        raise RecordError(f"There is no folder `{path.parent}` to hold the records; make it first.")
    try:
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            if not may_create:
                raise RecordError(f"There are no records in `{path}`; `metol records import` reads some into it.")
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise RecordError(f"`{path}` cannot be written: there is no permission.")
            return
        is_sqlite = is_database(path)
    except OSError as error:
        raise RecordError(f"`{path}` cannot be read: {error.strerror}.") from error
    if not is_sqlite:
        raise RecordError(f"`{path}` is no database; `metol records import` reads JSON lines into one.")


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, ours or not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def _configure(connection: sqlite3.Connection, _: Any) -> None:
    # SQLAlchemy begins transactions itself (`_begin`); the driver would begin them too late.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    # Whoever will write waits here for the other writers, and not in the middle, where SQLite can only give up.
    is_reading = connection.get_execution_options().get(_READING, False)
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


def reading(engine: sa.Engine) -> sa.Connection:
    """Return a connection that writes nothing, and so needs no permission to, and keeps nobody from writing."""
    return engine.connect().execution_options(**{_READING: True})


def _versions(connection: sa.Connection) -> tuple[int, int]:
    """The program that the file is of, and the version of its tables."""
    application, version = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("application_id", "user_version")
    )
    return application, version


def _is_empty(connection: sa.Connection) -> bool:
    return _versions(connection) == (0, 0) and not sa.inspect(connection).get_table_names()


def _is_current(connection: sa.Connection, path: Path) -> bool:
    """Are the tables those of this Metol? Raises RecordError for a database of something else."""
    if _is_empty(connection):
        return False
    application, version = _versions(connection)
    if application != _APPLICATION_ID:
        raise RecordError(f"`{path}` is a database of another program; name another file for the records.")
    if version > _VERSION:
        raise RecordError(
            f"`{path}` has records of version {version}, and this Metol reads up to {_VERSION}; install a later one."
        )
    return version == _VERSION


def _update(connection: sa.Connection, path: Path) -> None:
    """Make the tables, or bring them up to date. Another process may have done so meanwhile."""
    if _is_empty(connection):
        _METADATA.create_all(connection)
        connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {_VERSION}")
    elif not _is_current(connection, path):
        for number in range(_versions(connection)[1], _VERSION):
            _MIGRATIONS[number](connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {number + 1}")
