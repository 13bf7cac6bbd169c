"""Samples of random programs whose times were invented, and not measured: by the analytical model and a rule."""

from collections.abc import Callable
from functools import cache

from small_pipelines import SOME_TARGET

from metol import _core
from metol.measure import PipelineSource, Status
from metol.options import SearchOptions
from metol.planner import Planner
from metol.train import Drawn, DrawPlan, ProgramSamples, Sample, draw_nests
from metol.train.samples import sample_id

__all__ = ["QUICK", "drawn_of", "planner_of", "program_of", "sampled"]

QUICK = SearchOptions(
    strategy="greedy", refine=False, rfactor=False, staging=False, weights="analytical", budget_seconds=None
)


def program_of(seed: int, most_funcs: int = 4) -> str:
    return f"random:{seed}/least_funcs=3/most_funcs={most_funcs}"


@cache
def planner_of(program: str, gpu: str | None = None) -> Planner:
    target = SOME_TARGET if gpu is None else f"{SOME_TARGET}-cuda"
    return Planner(PipelineSource.parse(program).build(), QUICK, target=target, gpu=gpu, threads=2)


@cache
def drawn_of(program: str, count: int, seed: int = 0, gpu: str | None = None) -> tuple[Drawn, ...]:
    planner = planner_of(program, gpu)
    return tuple(draw_nests(planner, planner.search(), _core.CostModel(), DrawPlan(count), seed))


def sampled(
    program: str,
    count: int = 8,
    *,
    slower: Callable[[Drawn], float] = lambda _: 1.0,
    generation: int = 0,
    seed: int = 0,
    gpu: str | None = None,
) -> ProgramSamples:
    """A program with samples, each of which took `slower` times as long as the analytical model predicts."""
    planner = planner_of(program, gpu)
    algorithm = planner.frame.algorithm_hash
    samples = []
    for drawn in drawn_of(program, count, seed, gpu):
        form, state = planner.state_of(drawn.nest)
        ms = 1e3 * float(form.space.cost(state, _core.CostModel())[0]) * slower(drawn)
        text = drawn.nest.to_json()
        samples.append(
            Sample(
                sample_id(algorithm, planner.target, text), drawn.origin, text, Status.OK, (1.2 * ms, ms, 1.1 * ms), 0.1
            )
        )
    return ProgramSamples(
        program=program,
        algorithm=algorithm,
        machine={"cpu": "some"} if gpu is None else {"cpu": "some", "gpu": planner.machine.name},
        target=planner.target,
        threads=2,
        versions={"metol": "1", "halide": "2"},
        has_fixed_sizes=True,
        generation=generation,
        samples=tuple(samples),
    )
