"""A finished schedule, and the four things that can be done with it.

Enters: a list of directives, or a file. Leaves: a scheduled pipeline, Python source, C++ source, or JSON. What writes
source is imported when it is first needed: children that judge schedules have no use for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import halide as hl

from metol.destinations import write_text
from metol.lower.apply import apply_schedule
from metol.lower.function_name import FUNCTION_NAME, require_function_name
from metol.lower.json_format import read_schedule, write_schedule
from metol.lower.schedule_data import ScheduleData

__all__ = ["Schedule", "load"]


@dataclass(frozen=True, slots=True)
class Schedule(ScheduleData):
    """A finished schedule: which pipeline it is for, and the calls of Halide's scheduling language to make."""

    def apply(self, pipeline: hl.Pipeline | hl.Func) -> None:
        """Schedule a pipeline, or the pipeline that ends in a Func, that carries no schedule yet.

        Raises:
            ScheduleMismatchError: the schedule is for another pipeline; nothing has been scheduled then.
            RefusedDirectiveError: Halide refused a directive; those before it have been applied.
        """
        apply_schedule(self, pipeline)

    def to_python(self, function_name: str = FUNCTION_NAME) -> str:
        """Return a Python module with one function, which makes the same calls without Metol.

        Raises:
            MetolError: no function of Python and C++ can have that name.
        """
        from metol.lower.emit_python import emit_python

        require_function_name(function_name)
        return emit_python(self, function_name)

    def to_cpp(self, function_name: str = FUNCTION_NAME) -> str:
        """Return a C++ header with one inline function, which makes the same calls without Metol; errors as above."""
        from metol.lower.emit_cpp import emit_cpp

        require_function_name(function_name)
        return emit_cpp(self, function_name)

    def to_json(self) -> str:
        """Return the schedule in the format of schedule files."""
        return write_schedule(self)

    @classmethod
    def from_json(cls, text: str) -> "Schedule":
        """Return the schedule that `to_json` wrote; raises ScheduleFormatError for anything else."""
        return read_schedule(text, cls)

    def save(self, path: str | Path) -> None:
        """Write the schedule as Python (.py), as C++ (.h, .hpp), or in any other file as JSON; its folders are made."""
        writers: dict[str, Callable[[], str]] = {".py": self.to_python, ".h": self.to_cpp, ".hpp": self.to_cpp}
        write_text(Path(path), writers.get(Path(path).suffix, self.to_json)())


def load(path: str | Path) -> Schedule:
    """Return the schedule that `Schedule.save` wrote to a file; raises ScheduleFormatError for anything else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = ""
    return Schedule.from_json(text)
