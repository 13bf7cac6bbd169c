"""Tuning by measurement: what was measured, kept in a database.

In: schedules and what became of them. Out: records, and the best schedule for a pipeline on a machine.
"""

from metol.tune.database import Records, best_of
from metol.tune.lookup import key_of
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.tune.peers import PeerSeed, peer_schedules
from metol.tune.record import Record, RecordKey, SearchTerms
from metol.tune.tables import is_database

__all__ = [
    "PeerSeed",
    "Record",
    "RecordKey",
    "Records",
    "SearchTerms",
    "best_of",
    "fingerprint",
    "is_database",
    "key_of",
    "machine_identity",
    "peer_schedules",
]
