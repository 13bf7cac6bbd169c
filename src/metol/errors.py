"""Everything that Metol raises: bad input from a person, never an illegal candidate or a failed run.

Each message says the rule, the offending value, the Func and the next step.
"""

__all__ = [
    "BuilderError",
    "ContradictoryEstimateError",
    "ExtractionError",
    "GivenInputError",
    "KeepError",
    "KernelError",
    "MachineFormatError",
    "MetolError",
    "MissingDeviceError",
    "MissingEstimateError",
    "MissingToolError",
    "OccupancyError",
    "RecordError",
    "RefusedDirectiveError",
    "ScheduleFormatError",
    "ScheduleMismatchError",
    "SearchError",
    "TuningError",
    "UndefinedPipelineError",
    "UnknownAppError",
    "UnsupportedTargetError",
    "WeightsError",
]


class MetolError(Exception):
    """Base class of every error that Metol raises on bad input."""


class BuilderError(MetolError):
    """The code that builds a pipeline raises an exception, which is the cause; the message tells where."""


class UndefinedPipelineError(MetolError):
    """A Pipeline or one of its Funcs has no definition."""


class MissingEstimateError(MetolError):
    """An output, an input or a scalar parameter has no estimate, so that no size can be reasoned about."""


class ContradictoryEstimateError(MetolError):
    """An estimate differs from what the pipeline demands, is empty, or is of another kind than what it is of."""


class ExtractionError(MetolError):
    """The pipeline does something that the DAG cannot describe, such as an unbounded read."""


class GivenInputError(MetolError):
    """What was given for an input cannot be read, is of the wrong type or size, or there is no such input."""


class KeepError(MetolError):
    """A Func that is to keep its schedule is not in the pipeline, or cannot keep it while others are scheduled."""


class UnsupportedTargetError(MetolError):
    """The target is not one that Metol can schedule for."""


class ScheduleFormatError(MetolError):
    """A schedule file is not valid JSON, not a schedule, or of a version that this Metol cannot read."""


class ScheduleMismatchError(MetolError):
    """A schedule was made for another pipeline."""


class RefusedDirectiveError(MetolError):
    """Halide refused a call of a schedule that otherwise fits; the message names the directive."""


class MachineFormatError(MetolError):
    """A machine file is not valid JSON, not a machine, or of a version that this Metol cannot read."""


class KernelError(MetolError):
    """The kernels of a schedule cannot be compiled, not in time, or ptxas refuses one; the message has its text."""


class MissingToolError(MetolError):
    """A program that was asked for is not installed; the message says what brings it."""


class MissingDeviceError(MetolError):
    """A schedule is to be run on a GPU, and there is none here that runs it; the message says what can be done."""


class OccupancyError(MetolError):
    """Occupancy was asked of what cannot be a kernel, such as a block of no threads."""


class RecordError(MetolError):
    """A file of records is missing, of something else, or cannot be written; or a record is not what was asked for."""


class UnknownAppError(MetolError):
    """No application of that name; the message lists those that exist."""


class SearchError(MetolError):
    """The search was asked for something it cannot do, such as a beam of width 0."""


class DeadEndError(SearchError):
    """No candidate for a decision is legal, so that a search ends before there is a complete loop nest."""


class TuningError(MetolError):
    """Tuning was asked for something it cannot do, such as a budget of nothing."""


class WeightsError(MetolError):
    """A file of weights is missing, of something else, or for features that this Metol does not have."""
