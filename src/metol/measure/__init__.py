"""Compile, run, verify and time schedules in child processes.

In: where a pipeline comes from (`PipelineSource`) and what schedules it (`Scheduler`). Out: a `Measurement` each. A
crash, a hang or a wrong result is a row of the table, never an exception.
"""

from typing import TYPE_CHECKING

from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.measure.acceptance import Acceptance
    from metol.measure.at_root import schedule_at_root
    from metol.measure.block_limits import BlockLimits
    from metol.measure.emulation import is_untold, run_emulated
    from metol.measure.extern_libraries import undefined_functions
    from metol.measure.gate import BufferSizes, Gate
    from metol.measure.given_inputs import GivenInputs
    from metol.measure.given_values import InputValue
    from metol.measure.halide_values import is_numpy_type
    from metol.measure.kernel_inspection import inspect_kernels
    from metol.measure.kernels import Kernel
    from metol.measure.measurement import Measurement, Status
    from metol.measure.peer_trial import PeerAnswer, ask_peer
    from metol.measure.ptxas import find_ptxas
    from metol.measure.race import RacePlan
    from metol.measure.runner import LocalRunner, PreparedTrials, Progress, Runner, verify_schedule
    from metol.measure.scheduler import GPU_PEERS, OWN, PEERS, Scheduler, is_own
    from metol.measure.search_trial import SearchMeasurement, measure_search
    from metol.measure.serialized import promises_bounds, save_pipeline
    from metol.measure.size_checks import CheckOutcome, OutputSizes, SizeCheck, SizeChecker, sizes_to_check
    from metol.measure.source import PipelineSource, SourceKind
    from metol.measure.timing import TimingPlan
    from metol.measure.together import TogetherPlan, measure_together
    from metol.measure.trial import RunOptions, Trial
    from metol.measure.workbench import Fallen, LocalWorkbench, Outcome, Workbench, WorkbenchTimes

__all__ = [
    "GPU_PEERS",
    "OWN",
    "PEERS",
    "Acceptance",
    "BlockLimits",
    "BufferSizes",
    "CheckOutcome",
    "Fallen",
    "Gate",
    "GivenInputs",
    "InputValue",
    "Kernel",
    "LocalRunner",
    "LocalWorkbench",
    "Measurement",
    "Outcome",
    "OutputSizes",
    "PeerAnswer",
    "PipelineSource",
    "PreparedTrials",
    "Progress",
    "RacePlan",
    "RunOptions",
    "Runner",
    "Scheduler",
    "SearchMeasurement",
    "SizeCheck",
    "SizeChecker",
    "SourceKind",
    "Status",
    "TimingPlan",
    "TogetherPlan",
    "Trial",
    "Workbench",
    "WorkbenchTimes",
    "ask_peer",
    "find_ptxas",
    "inspect_kernels",
    "is_numpy_type",
    "is_own",
    "is_untold",
    "measure_search",
    "measure_together",
    "promises_bounds",
    "run_emulated",
    "save_pipeline",
    "schedule_at_root",
    "sizes_to_check",
    "undefined_functions",
    "verify_schedule",
]

_HOMES = {
    "Fallen": "metol.measure.workbench",
    "WorkbenchTimes": "metol.measure.workbench",
    "Workbench": "metol.measure.workbench",
    "RacePlan": "metol.measure.race",
    "Outcome": "metol.measure.workbench",
    "LocalWorkbench": "metol.measure.workbench",
    "Acceptance": "metol.measure.acceptance",
    "BlockLimits": "metol.measure.block_limits",
    "BufferSizes": "metol.measure.gate",
    "Gate": "metol.measure.gate",
    "CheckOutcome": "metol.measure.size_checks",
    "GivenInputs": "metol.measure.given_inputs",
    "InputValue": "metol.measure.given_values",
    "Kernel": "metol.measure.kernels",
    "LocalRunner": "metol.measure.runner",
    "PreparedTrials": "metol.measure.runner",
    "Measurement": "metol.measure.measurement",
    "OutputSizes": "metol.measure.size_checks",
    "GPU_PEERS": "metol.measure.scheduler",
    "OWN": "metol.measure.scheduler",
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
    "TogetherPlan": "metol.measure.together",
    "Trial": "metol.measure.trial",
    "ask_peer": "metol.measure.peer_trial",
    "find_ptxas": "metol.measure.ptxas",
    "is_own": "metol.measure.scheduler",
    "inspect_kernels": "metol.measure.kernel_inspection",
    "is_numpy_type": "metol.measure.halide_values",
    "is_untold": "metol.measure.emulation",
    "run_emulated": "metol.measure.emulation",
    "measure_search": "metol.measure.search_trial",
    "measure_together": "metol.measure.together",
    "promises_bounds": "metol.measure.serialized",
    "save_pipeline": "metol.measure.serialized",
    "schedule_at_root": "metol.measure.at_root",
    "sizes_to_check": "metol.measure.size_checks",
    "undefined_functions": "metol.measure.extern_libraries",
    "verify_schedule": "metol.measure.runner",
}

__getattr__ = lazy_names(__name__, _HOMES)
