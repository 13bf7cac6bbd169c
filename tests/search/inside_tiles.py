"""Loop nests in which a Func is computed inside tiles of the output, and how large these are."""

from collections.abc import Callable, Iterator

import halide as hl
import numpy as np
from small_pipelines import make_space

from metol import _core
from metol.pipeline import PipelineDag, extract

__all__ = ["computed_in_tiles", "space_of", "tile_of"]

TRIES = 400


def space_of(build: Callable[[], hl.Pipeline], *, iterations: bool) -> tuple[PipelineDag, _core.Space]:
    dag = extract(build())
    options = _core.SpaceOptions()
    options.allow_iterations = iterations
    return dag, make_space(dag, options=options)


def tile_of(nest: _core.StageNest, level: int, *loops: int) -> list[int]:
    """The sides of a tile below a level."""
    return [int(np.prod([trips[loop] for trips in nest.levels[level + 1 :]])) for loop in loops]


def computed_in_tiles(
    dag: PipelineDag, space: _core.Space, func: int
) -> Iterator[tuple[_core.States, list[_core.FuncSchedule], tuple[int, int]]]:
    """Random loop nests, and how many points along x and y a tile has of the output that a Func is computed in."""
    (output, *_) = dag.outputs
    leaves = space.rollout(space.root(), range(TRIES))
    for i in range(TRIES):
        leaf = leaves.take([i])
        nests = leaf.describe()
        site = nests[func].compute
        if nests[func].placement == _core.Placement.AT and dag.stages[site.stage].func == output:
            x, y = tile_of(nests[output].stages[0], site.level, 0, 1)
            yield leaf, nests, (x, y)
