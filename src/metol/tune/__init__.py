"""Tuning by measurement: what was measured, kept in a database.

In: schedules and what became of them. Out: records, the best schedule for a pipeline on a machine, and whether one that
was saved still fits.
"""

from metol.tune.database import Records, best_of
from metol.tune.lock_file import LockReport, check_lock_file
from metol.tune.lookup import key_of
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.tune.record import Record, RecordKey, SearchTerms
from metol.tune.tables import is_database

__all__ = [
    "LockReport",
    "Record",
    "RecordKey",
    "Records",
    "SearchTerms",
    "best_of",
    "check_lock_file",
    "fingerprint",
    "is_database",
    "key_of",
    "machine_identity",
]
