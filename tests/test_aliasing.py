"""Outputs that lie over an input: what is read of that input later must be computed before it is overwritten."""

from collections.abc import Callable
from dataclasses import replace

import halide as hl
import numpy as np
import pytest
from slow_cases import EXHAUSTIVE
from small_pipelines import HEIGHT, WIDTH, X, Y, finish, image

import metol
from metol import SearchOptions
from metol.candidates import last_resorts
from metol.lower import Tail
from metol.measure import PipelineSource
from metol.pipeline import Staging, base_name, extract, funcs_before_outputs
from metol.planner import Planner

Build = Callable[[], hl.Pipeline]


def doubled(name: str = "doubled") -> hl.Func:
    func = hl.Func(name)
    func[X, Y] = image(WIDTH, HEIGHT)[X, Y] * 2 + 1
    return func


def updated() -> hl.Pipeline:
    source, output = doubled(), hl.Func("output")
    output[X, Y] = source[X, Y] * 3
    output[X, Y] += source[X, Y]
    return finish(output)


def reduced() -> hl.Pipeline:
    source, output = doubled(), hl.Func("output")
    r = hl.RDom([(0, 5)])
    output[X, Y] = source[X, Y] * 3
    output[X, Y] = output[X, Y] // 2 + source[X, Y] * r
    return finish(output)


def two() -> hl.Pipeline:
    source, first, second = doubled(), hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] * 3
    second[X, Y] = source[X, Y] + 5
    return finish(first, second)


def copied() -> hl.Pipeline:
    """A copy of the input itself, which is otherwise never computed."""
    source, copy, output = image(WIDTH, HEIGHT), hl.Func("copy"), hl.Func("output")
    copy[X, Y] = source[X, Y]
    output[X, Y] = copy[X, Y] * 3
    output[X, Y] += copy[X, Y]
    return finish(output)


def run_in_place(pipeline: hl.Pipeline, target: hl.Target) -> list[np.ndarray]:
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), target)
    shared = np.random.default_rng(0).integers(0, 1000, (HEIGHT, WIDTH)).astype(np.int32)
    others = [np.zeros_like(shared) for _ in pipeline.outputs()[1:]]
    buffer = hl.Buffer(shared)
    code(buffer, buffer, *map(hl.Buffer, others))
    buffer.copy_to_host()
    return [shared, *others]


def at_root(build: Build) -> hl.Pipeline:
    pipeline = build()
    for func in range(len(pipeline.outputs()) + 1):
        pipeline.get_func(func).compute_root()
    return pipeline


SEARCHES = [SearchOptions(strategy="greedy", may_alias=True)] + [
    SearchOptions(strategy="random", refine=False, seed=seed, may_alias=True) for seed in range(4)
]


@pytest.mark.parametrize("searches", [SEARCHES[:3], pytest.param(SEARCHES[3:], marks=EXHAUSTIVE)])
@pytest.mark.parametrize("build", [updated, reduced, two, copied])
def test_schedules_are_right_in_place(build: Build, searches: list[SearchOptions]) -> None:
    expected = run_in_place(at_root(build), hl.get_host_target())
    for options in searches:
        pipeline = build()
        result = metol.autoschedule(pipeline, options=options, threads=2)
        assert result.origin == "search"
        for got, wanted in zip(run_in_place(pipeline, hl.get_host_target()), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_what_the_only_definition_needs_may_be_computed_anywhere() -> None:
    source, output = doubled(), hl.Func("output")
    output[X, Y] = source[X, Y] * 3
    assert funcs_before_outputs(extract(finish(output))) == frozenset()


def test_what_needs_no_input_may_be_computed_anywhere() -> None:
    ramp, output = hl.Func("ramp"), hl.Func("output")
    ramp[X, Y] = X * Y
    output[X, Y] = image(WIDTH, HEIGHT)[X, Y]
    output[X, Y] += ramp[X, Y]
    assert funcs_before_outputs(extract(finish(output))) == frozenset()


def test_producers_further_up_are_free() -> None:
    source, stencil, output = doubled(), hl.Func("stencil"), hl.Func("output")
    stencil[X, Y] = source[X, Y] + source[X, Y]
    output[X, Y] = stencil[X, Y]
    output[X, Y] += stencil[X, Y]
    dag = extract(finish(output))
    assert [base_name(dag.funcs[func].name) for func in funcs_before_outputs(dag)] == ["stencil"]


def test_copies_are_part_of_what_reads_them() -> None:
    """A copy that search makes for an update is no Func of its own that could be at root: what it copies is."""
    source, output = doubled(), hl.Func("output")
    r = hl.RDom([(0, 5)])
    output[X, Y] = 0
    output[X, Y] += source[X, Y] * r
    pipeline = finish(output)
    names = ["doubled", "output"]
    plain = extract(pipeline)
    ids = [next(i for i, func in enumerate(plain.funcs) if base_name(func.name) == name) for name in names]
    origins = [plain.funcs[func].origin for func in ids]
    dag = extract(pipeline, stagings=(Staging(*origins),))
    assert any(func.is_wrapper for func in dag.funcs)
    assert [base_name(dag.funcs[func].name) for func in funcs_before_outputs(dag)] == ["doubled"]


@pytest.mark.slow
def test_gpu_forms_with_copies_are_searched() -> None:
    """Of this random program, the search for a GPU looks at copies of what comes before an output."""
    source = PipelineSource.parse("random:830073/most_funcs=16")
    options = SearchOptions(strategy="random", refine=False, seed=830073000, may_alias=True)
    planner = Planner(source.build(), options, target="cuda", gpu="h200", threads=2)
    assert planner.search().result is not None


@pytest.mark.parametrize(("target", "gpu"), [("host", None), ("host-opencl", "opencl-cpu")])
def test_last_resorts_are_right_in_place(target: str, gpu: str | None) -> None:
    options = SearchOptions(may_alias=True)
    for build in (updated, copied):
        expected = run_in_place(at_root(build), hl.get_host_target())
        planner = Planner(build(), options, target=target, gpu=gpu, threads=2)
        candidates = list(last_resorts(planner.form(), planner.machine, planner.lowering))
        # Inline, the update would read what has been overwritten.
        assert [candidate.origin for candidate in candidates] == ["safe", "root"]
        for candidate in candidates:
            pipeline = build()
            replace(planner.frame, directives=candidate.directives()).apply(pipeline)
            (got,) = run_in_place(pipeline, hl.Target(planner.target))
            np.testing.assert_array_equal(got, expected[0])


def test_safe_kernels_compute_no_point_twice() -> None:
    """A kernel that is shifted inwards would read, at its last blocks, what the others have written."""

    def build() -> hl.Pipeline:
        output = hl.Func("output")
        output[X] = image(1001)[X] * 2 + 1
        return finish(output, sizes=(1001,))

    planner = Planner(build(), SearchOptions(may_alias=True), target="host-opencl", gpu="opencl-cpu", threads=2)
    safe = next(last_resorts(planner.form(), planner.machine, planner.lowering))
    tails = {arg for directive in safe.directives() for arg in directive.args if isinstance(arg, Tail)}
    assert tails == {Tail.GUARD_WITH_IF}
