"""Funcs that keep the schedule their author gave them, while all others are scheduled around them.

Enters: Funcs or their names. Leaves: their positions and where their schedules put them. The search sees such a Func as
inline or at root, with loops that nothing can be computed in.
"""

from collections.abc import Sequence

import halide as hl

from metol.errors import KeepError
from metol.lower import Kept
from metol.pipeline import base_name, func_names, placements

__all__ = ["find_kept"]


def find_kept(pipeline: object, keep: Sequence[hl.Func | str] | hl.Func | str) -> tuple[Kept, ...]:
    """Find the Funcs of a pipeline that are to keep their schedule.

    Args:
        pipeline: An hl.Pipeline, or the hl.Func of its only output, as its author scheduled it.
        keep: The Funcs, or their names, with or without `$n`; or a single one.

    Raises:
        KeepError: No Func has that name, or several have, or its schedule names loops of a Func that is not kept.
    """
    if isinstance(keep, str | hl.Func):
        keep = (keep,)
    if not keep:
        return ()
    names = func_names(pipeline)
    positions = sorted({_position(names, func) for func in keep})
    found = placements(pipeline)
    for position in positions:
        for host in found[position][1]:
            if names.index(host) not in positions:
                func, name = base_name(names[position]), base_name(host)
                raise KeepError(
                    f"The schedule of `{func}` is at a loop of `{name}`, which is to be scheduled anew. Keep `{name}`, "
                    f"too, or compute `{func}` at the root."
                )
    return tuple(Kept(position, found[position][0]) for position in positions)


def _position(names: tuple[str, ...], func: hl.Func | str) -> int:
    name = func if isinstance(func, str) else str(func.name())
    matches = [i for i, full in enumerate(names) if full == name] or [
        i for i, full in enumerate(names) if isinstance(func, str) and base_name(full) == name
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        known = ", ".join(base_name(full) for full in names)
        raise KeepError(f"The pipeline has no Func `{name}` whose schedule could be kept; it has: {known}.")
    raise KeepError(f"{len(matches)} Funcs are called `{name}`; pass the Func itself to keep its schedule.")
