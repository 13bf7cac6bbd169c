"""The loops of a Stage, and names for what they are split into and fused into, that no loop of the same Stage has.

In: a Stage. Out: what such names begin with; an underscore and whatever tells the parts apart follow.
"""

from collections.abc import Iterable

from metol import _core
from metol.lower.directive import Loop, RVar, Var

__all__ = ["free_base", "loop_bases", "whole_loop"]


def whole_loop(dim: _core.LoopDim) -> Loop:
    """Return a loop as it is before anything is done to it."""
    return (RVar if dim.is_rvar else Var)(dim.name)


def loop_bases(stage: _core.Stage) -> tuple[str, ...]:
    """Return, by loop of a Stage, what the names of its parts begin with: `x`, of `x_o` and `x_i`."""
    names = [loop.name.replace("$", "_") for loop in stage.loops]
    bases: list[str] = []
    for i, name in enumerate(names):
        bases.append(_free(_of_stage(stage, name), [*names[:i], *names[i + 1 :], *bases]))
    return tuple(bases)


def free_base(stage: _core.Stage, word: str) -> str:
    """Return what names of loops begin with that several loops of a Stage are fused into, such as `tasks`."""
    return _free(_of_stage(stage, word), [*(loop.name.replace("$", "_") for loop in stage.loops), *loop_bases(stage)])


def _of_stage(stage: _core.Stage, name: str) -> str:
    """Updates have names of their own: not all of them are split in the same way."""
    return f"{name}_u{stage.index}" if stage.index else name


def _free(base: str, names: Iterable[str]) -> str:
    taken = list(names)
    while any(name == base or name.startswith(f"{base}_") for name in taken):
        base += "_"
    return base
