"""What could be measured next: a schedule, where it is from, and the decisions that led to it."""

import json
import math
from dataclasses import dataclass

from metol import _core
from metol.candidates import Nest
from metol.lower import Argument, RVar, Schedule, Site, Tail, Var
from metol.planner import Planner
from metol.search import Form

__all__ = ["Proposal", "directives_text", "propose_state"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One schedule that could be measured."""

    origin: str
    """Where it is from: ``search``, ``safe``, ``sample``, ``neighbour``, ``record``, or the name of a peer."""
    schedule: Schedule
    """The schedule, that nobody has judged yet."""
    nest: Nest | None = None
    """The decisions that led to it; None where no search of ours made it."""
    predicted_seconds: float = math.nan
    """What the cost model says of it; NaN where it was not asked."""
    is_foreign: bool = False
    """Whether somebody else wrote its directives, so that it is right at every size only if a run shows it."""
    printed: Schedule | None = None
    """What somebody else wrote, before its tails were mended; None where that is not known."""

    @property
    def text(self) -> str:
        """The directives as text, equal for schedules that are the same."""
        return directives_text(self.schedule)


def directives_text(schedule: Schedule) -> str:
    """Return the directives of a schedule as text that is equal for schedules that do the same.

    Loops are numbered, for the names of those that nobody named differ from run to run.
    """
    names: dict[int, dict[str, int]] = {}
    for func in schedule.funcs:
        loops = [*func.args, *(name for update in func.rvars for name in update)]
        names[func.index] = {name: number for number, name in enumerate(dict.fromkeys(loops))}

    def shown(func: int, value: Argument) -> object:
        match value:
            case Var() | RVar():
                known = names.setdefault(func, {})
                return [type(value).__name__, known.setdefault(value.name, len(known))]
            case Site():
                return [value.func, value.stage, None if value.loop is None else shown(value.func, value.loop)]
            case Tail():
                return value.value
        return value

    lines = [
        [one.func, one.stage, one.branch, one.call.value, *(shown(one.func, value) for value in one.args)]
        for one in schedule.directives
    ]
    return json.dumps(lines)


def propose_state(
    planner: Planner, form: Form, state: _core.States, nest: Nest, origin: str, *, predicted_seconds: float
) -> Proposal | None:
    """Propose a loop nest, a batch of one; None where it cannot be written as directives."""
    schedule = planner.schedule_of(form, state, nest)
    return None if schedule is None else Proposal(origin, schedule, nest, predicted_seconds)
