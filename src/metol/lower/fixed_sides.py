"""What lowering tells Halide where the user promises that outputs have the estimated size, for any target."""

from metol.lower.directive import Call, Directive, Var
from metol.pipeline import PipelineDag

__all__ = ["fixed_sides"]


def fixed_sides(dag: PipelineDag, output: int) -> list[Directive]:
    """The estimated region of an output as a constraint on its buffer, which Halide checks before it runs.

    Of one that the pipeline reads back, as an estimate alone. Where Halide 21 can tell in which place of a vector a
    load of an output starts, it takes memory of the caller for aligned, and faults where it is not; of a region that
    it knows, or a part of it such as the extents, it often can. What suits no other size is still refused: outputs
    whose tails are not guarded ask for more than there is.
    """
    func = dag.funcs[output]
    is_read = any(
        (stage.func == output and stage.self_accesses) or any(edge.producer == output for edge in stage.edges)
        for stage in dag.stages
    )
    if is_read:
        sides = zip(func.args, func.estimate, strict=True)
        return [Directive(output, 0, Call.SET_ESTIMATE, (Var(arg), side.min, side.extent)) for arg, side in sides]
    return [Directive(output, 0, Call.SET_BOUNDS, (d, side.min, side.extent)) for d, side in enumerate(func.estimate)]
