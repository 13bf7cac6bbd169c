"""Schedules of the applications by hand, as a person who knows them would write: what searches are to be compared with.

In: the name of an application and its pipeline, freshly built. Out: the pipeline, scheduled in place, for the estimated
size; smaller outputs than a tile may be refused. The three kinds of application have a file each.
"""

import contextlib
import importlib
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from metol.errors import UnknownAppError

if TYPE_CHECKING:
    import halide as hl

__all__ = ["Funcs", "named_funcs", "schedule_by_hand"]

Funcs: TypeAlias = "Mapping[str, hl.Func]"
"""The Funcs of a pipeline by name, without what Halide adds to tell namesakes apart."""

_HOMES = ("by_hand_stencils", "by_hand_pyramids", "by_hand_layers")


def schedule_by_hand(name: str, pipeline: "hl.Pipeline", lanes: int) -> None:
    """Schedule an application.

    Args:
        name: of the application, or of a variant of it.
        pipeline: what its `build` made, without a schedule.
        lanes: 32-bit values in a native vector.

    Raises:
        UnknownAppError: nobody has written a schedule for it.
    """
    schedules: dict[str, Callable[[Funcs, int], None]] = {}
    for home in _HOMES:
        schedules |= importlib.import_module(f".{home}", __package__).SCHEDULES
    if name not in schedules:
        raise UnknownAppError(f"There is no schedule by hand of `{name}`; there are some of {', '.join(schedules)}.")
    schedules[name](named_funcs(pipeline), lanes)


def named_funcs(pipeline: "hl.Pipeline") -> Funcs:
    """Return what a schedule by hand gets: the Funcs of a pipeline by name; of namesakes the last."""
    import halide as hl

    funcs: dict[str, hl.Func] = {}
    with contextlib.suppress(hl.HalideError):  # of a number that no Func has
        for number in itertools.count():
            func = pipeline.get_func(number)
            funcs[func.name().partition("$")[0]] = func
    return funcs
