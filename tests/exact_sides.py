"""Loop nests of which an output has a version for sides of the estimated size."""

from dataclasses import replace

from metol.planner import Nest, Planner

SEEDS = range(200)


def nest_with_exact_sides(planner: Planner) -> Nest:
    """The first roll-out that is lowered to other directives without such a version."""
    form = planner.form()
    for seed in SEEDS:
        state = form.space.rollout(form.space.root(), [seed])
        nest = planner.nest_of(form, state)
        plain = replace(nest, specialize_estimate=False)
        schedule = planner.schedule_of(form, state, nest)
        if schedule is not None and schedule != planner.schedule_of(form, state, plain):
            return nest
    raise AssertionError("no loop nest computes anything where a side of the output is whole")
