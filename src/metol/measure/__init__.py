"""Compile, run, verify and time schedules in child processes.

In: where a pipeline comes from (`PipelineSource`) and what schedules it (`Scheduler`). Out: a `Measurement` each. A
crash, a hang or a wrong result is a row of the table, never an exception.
"""

from typing import TYPE_CHECKING

from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.measure.acceptance import Acceptance
    from metol.measure.gate import BufferSizes
    from metol.measure.measurement import Measurement, Status
    from metol.measure.peer_trial import PeerAnswer, ask_peer
    from metol.measure.runner import LocalRunner, Progress, Runner, verify_schedule
    from metol.measure.scheduler import PEERS, Scheduler, schedule_at_root
    from metol.measure.search_trial import SearchMeasurement, measure_search
    from metol.measure.size_checks import CheckOutcome, OutputSizes, SizeCheck, SizeChecker, sizes_to_check
    from metol.measure.source import PipelineSource, SourceKind
    from metol.measure.timing import TimingPlan
    from metol.measure.trial import RunOptions

__all__ = [
    "PEERS",
    "Acceptance",
    "BufferSizes",
    "CheckOutcome",
    "LocalRunner",
    "Measurement",
    "OutputSizes",
    "PeerAnswer",
    "PipelineSource",
    "Progress",
    "RunOptions",
    "Runner",
    "Scheduler",
    "SearchMeasurement",
    "SizeCheck",
    "SizeChecker",
    "SourceKind",
    "Status",
    "TimingPlan",
    "ask_peer",
    "measure_search",
    "schedule_at_root",
    "sizes_to_check",
    "verify_schedule",
]

_HOMES = {
    "Acceptance": "metol.measure.acceptance",
    "BufferSizes": "metol.measure.gate",
    "CheckOutcome": "metol.measure.size_checks",
    "LocalRunner": "metol.measure.runner",
    "Measurement": "metol.measure.measurement",
    "OutputSizes": "metol.measure.size_checks",
    "PEERS": "metol.measure.scheduler",
    "PeerAnswer": "metol.measure.peer_trial",
    "PipelineSource": "metol.measure.source",
    "Progress": "metol.measure.runner",
    "RunOptions": "metol.measure.trial",
    "Runner": "metol.measure.runner",
    "Scheduler": "metol.measure.scheduler",
    "SearchMeasurement": "metol.measure.search_trial",
    "SizeCheck": "metol.measure.size_checks",
    "SizeChecker": "metol.measure.size_checks",
    "SourceKind": "metol.measure.source",
    "Status": "metol.measure.measurement",
    "TimingPlan": "metol.measure.timing",
    "ask_peer": "metol.measure.peer_trial",
    "measure_search": "metol.measure.search_trial",
    "schedule_at_root": "metol.measure.scheduler",
    "sizes_to_check": "metol.measure.size_checks",
    "verify_schedule": "metol.measure.runner",
}

__getattr__ = lazy_names(__name__, _HOMES)
