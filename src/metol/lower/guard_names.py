"""Loops that Halide splits with a guard, under names of their own, so that the guard stays.

In: directives. Out: the same, with a loop of the algorithm renamed before a guarded split of it. What is computed
does not change.

A guard of Halide compares the loop that is put together again, `f.s0.y`, with the last value that is asked for,
`f.s0.y.max`. Where Halide 21 splits the iterations at the ends of a loop off the others, it bounds each value that a
`let` gives a name, and names the bounds as it names what is asked for: `f.s0.y.max`. The guard then compares a value
with itself, and is dropped. It depends on what else was simplified, and so on names and numbers, whether it happens.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from metol.lower.directive import Call, Directive, RVar, Tail, Var
from metol.pipeline import PipelineDag

__all__ = ["with_guards_named"]

_UNGUARDED = frozenset({Tail.ROUND_UP, Tail.SHIFT_INWARDS})


def with_guards_named(
    dag: PipelineDag, directives: Iterable[Directive], share_loops: Set[int] = frozenset()
) -> Iterator[Directive]:
    """Yield directives, with a `rename` before each guarded split of a whole loop.

    Args:
        dag: The pipeline.
        directives: A schedule, or a part of one, in which loops have the names that they have in the DAG.
        share_loops: Funcs that run in the loops of others (`compute_with`), and those others. Halide wants the loops
            of both to have the same names from the first split on, so all of them are renamed, guarded or not.
    """
    for directive in directives:
        match directive.call, directive.args:
            case Call.SPLIT, (Var() | RVar() as old, *parts, Tail() as tail) if (
                tail not in _UNGUARDED or directive.func in share_loops
            ):
                names = _unbounded_loops(dag, directive)
                if old.name in names:
                    whole = type(old)(_new_name(old.name, directive, names))
                    yield replace(directive, call=Call.RENAME, args=(old, whole))
                    directive = replace(directive, args=(whole, *parts, tail))
        yield directive


def _unbounded_loops(dag: PipelineDag, directive: Directive) -> set[str]:
    """Names of the loops of the algorithm whose ends are no constants."""
    stage = dag.stages[dag.funcs[directive.func].stages[directive.stage]]
    return {loop.name for loop in stage.loops if not (loop.is_rvar and loop.has_constant_extent)}


def _new_name(name: str, directive: Directive, taken: set[str]) -> str:
    base = name.replace("$", "_") + (f"_u{directive.stage}" if directive.stage else "")
    taken = taken | {arg.name for arg in directive.args if isinstance(arg, Var | RVar)}
    return next(new for new in (f"{base}_all", f"{base}_whole", f"{base}_all_of_it") if new not in taken)
