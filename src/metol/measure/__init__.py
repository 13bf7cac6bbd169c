"""Compile, run, verify and time schedules in child processes.

In: where a pipeline comes from (`PipelineSource`) and what schedules it (`Scheduler`). Out: a `Measurement` each. A
crash, a hang or a wrong result is a row of the table, never an exception.
"""

from metol.measure.acceptance import Acceptance
from metol.measure.gate import BufferSizes
from metol.measure.measurement import Measurement, Status
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
    "measure_search",
    "schedule_at_root",
    "sizes_to_check",
    "verify_schedule",
]
