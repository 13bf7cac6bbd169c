"""Tuning by measurement: what was measured, kept in a database, and what to measure next.

In: a pipeline and a budget. Out: records of all that was measured, and the best schedule for the pipeline here.
"""

from metol.tune.budget import TuningBudget
from metol.tune.database import Records, best_of
from metol.tune.final_race import FinalRace
from metol.tune.lock_file import LockReport, check_lock_file
from metol.tune.lookup import key_of
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.tune.peers import PeerSeed, peer_schedules
from metol.tune.problem import Problem
from metol.tune.progress import Progress, TuningProgress, shown_progress, tell_how_to_stop
from metol.tune.record import Record, RecordKey, SearchTerms
from metol.tune.result import TuningFailure, TuningResult
from metol.tune.rounds import RoundPlan
from metol.tune.tables import is_database
from metol.tune.tuner import Retrainer, TunerOptions
from metol.tune.tuning import (
    MODES,
    TUNING_STRATEGIES,
    autotune,
    mode_budget,
    settings_of_mode,
    settings_of_strategy,
    tune_all,
    tuning_strategy,
)
from metol.tune.tuning_run import TuningSettings

__all__ = [
    "MODES",
    "TUNING_STRATEGIES",
    "FinalRace",
    "LockReport",
    "PeerSeed",
    "Problem",
    "Progress",
    "Record",
    "RecordKey",
    "Records",
    "Retrainer",
    "RoundPlan",
    "SearchTerms",
    "TunerOptions",
    "TuningBudget",
    "TuningFailure",
    "TuningProgress",
    "TuningResult",
    "TuningSettings",
    "autotune",
    "best_of",
    "check_lock_file",
    "fingerprint",
    "is_database",
    "key_of",
    "machine_identity",
    "mode_budget",
    "peer_schedules",
    "settings_of_mode",
    "settings_of_strategy",
    "shown_progress",
    "tell_how_to_stop",
    "tune_all",
    "tuning_strategy",
]
