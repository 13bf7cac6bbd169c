"""Funcs that are stored outside of loops in which they are computed: what slides in a list of directives.

In: directives, and the loops that all Stages have in the end. Out: the dimensions in which each such Func moves, or
directives with which fewer slide: those of which Halide computes more than is needed stay behind.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from metol.lower.directive import Call, Directive, Site
from metol.lower.loop_origins import LoopOrigins
from metol.pipeline import PipelineDag

__all__ = ["narrow_stores", "slide_dims"]

StageLoops: TypeAlias = Mapping[int, LoopOrigins]  # by Stage of the DAG

_STORES = (Call.STORE_AT, Call.STORE_ROOT)


def slide_dims(dag: PipelineDag, directives: Sequence[Directive], loops: StageLoops) -> dict[int, Set[int]]:
    """Return, of each Func that is stored outside of loops in which it is computed, the dimensions that these move."""
    moved: dict[int, Set[int]] = {}
    for directive in directives:
        if directive.call in _STORES:
            dims: set[int] = set()
            for site in _sites_within(dag, directives, directive, loops):
                dims |= _moving_dims(dag, *_origin(dag, site, loops), directive.func)
            moved[directive.func] = dims
    return moved


def narrow_stores(
    dag: PipelineDag, directives: Sequence[Directive], loops: StageLoops, readers: Set[int]
) -> Iterator[Directive]:
    """Yield the directives, with less storage outside of the loops in which Funcs are computed.

    ::

        store f at y, compute it at yii                       -->   store f at yi, compute it at yii
        for y: [store f] for yi: for yii: f                   -->   for y: for yi: [store f] for yii: f

        store f at y, compute it at yi, and a reader, too     -->   compute both at yi
        for y: [store f] for yi: [store reader] reader, f     -->   for y: for yi: [store reader, f] reader, f

    Where a Func slides along two loops over one dimension, Halide 21 computes more than is needed. Where it slides, the
    loop starts earlier, and all that is computed there from an input, and does not slide, is computed there, too.

    Args:
        dag: The pipeline.
        directives: All of the schedule.
        loops: Those of each Stage, in the end.
        readers: Funcs that read more of an input where they are computed at more places.
    """
    stored = {directive.func for directive in directives if directive.call in _STORES}
    hosts = {reader: list(_hosts(directives, reader)) for reader in readers - stored}
    for directive in directives:
        if directive.call not in _STORES:
            yield directive
            continue
        sites = list(_sites_within(dag, directives, directive, loops))
        if any(site.func == directive.func or site in sites for found in hosts.values() for site in found):
            continue
        origins = [_origin(dag, site, loops) for site in sites]
        repeated = [i for i, origin in enumerate(origins) if origin in origins[:i]]
        yield replace(directive, call=Call.STORE_AT, args=(sites[repeated[0]],)) if repeated else directive


def _hosts(directives: Sequence[Directive], func: int) -> Iterator[Site]:
    """Yield where a Func is computed, where the Func of that loop is, and so on to the root."""
    places = _compute_sites(directives)
    while func in places:
        yield places[func]
        func = places[func].func


def _compute_sites(directives: Sequence[Directive]) -> dict[int, Site]:
    """Return where each Func is computed that is computed in the loops of others."""
    places = ((d.func, d.args[0]) for d in directives if d.call is Call.COMPUTE_AT)
    return {func: site for func, site in places if isinstance(site, Site) and site.loop is not None}


def _origin(dag: PipelineDag, site: Site, loops: StageLoops) -> tuple[int, int]:
    """Return the Stage that a loop is of, and the position of the loop of the algorithm that it comes from."""
    assert site.loop is not None
    stage = dag.funcs[site.func].stages[site.stage]
    return stage, loops[stage][site.loop].loop


def _sites_within(
    dag: PipelineDag, directives: Sequence[Directive], stored: Directive, loops: StageLoops
) -> Iterator[Site]:
    """Yield the loops from that in which a Func is computed to that in which it is stored, without the latter."""
    store = stored.args[0] if stored.args else None
    for compute in _hosts(directives, stored.func):
        assert compute.loop is not None
        for loop in loops[dag.funcs[compute.func].stages[compute.stage]].from_within(compute.loop):
            if isinstance(store, Site) and (store.func, store.loop) == (compute.func, loop):
                return
            yield Site(compute.func, compute.stage, loop)


def _moving_dims(dag: PipelineDag, stage: int, loop: int, producer: int) -> set[int]:
    """Return the dimensions of a Func in which what is read of it moves with a loop of a Stage, through any others."""
    moving: dict[int, set[int]] = {}
    waiting = [(stage, {loop})]
    while waiting:
        number, moved = waiting.pop()
        for edge in dag.stages[number].edges:
            dims = {
                dim
                for access in edge.accesses
                for dim, row in enumerate(access.jacobian)
                if any(i < 0 or not row.is_known[i] or row.numerator[i] != 0 for i in moved)
            }
            known = moving.setdefault(edge.producer, set())
            if dims <= known:
                continue
            known |= dims
            for other in dag.funcs[edge.producer].stages:
                loops = enumerate(dag.stages[other].loops)
                positions = {i for i, dim in loops if not dim.is_rvar and dim.pure_dim in known}
                waiting.append((other, positions))
    return moving.get(producer, set())
