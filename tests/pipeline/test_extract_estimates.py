"""Where sizes come from, and what is said when one is missing."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from sample_algorithms import X, Y, blur, image, single

from metol.errors import (
    ContradictoryEstimateError,
    ExtractionError,
    MissingEstimateError,
    UndefinedPipelineError,
    UnsupportedTargetError,
)
from metol.pipeline import EstimateMap, extract


def depth_without_last_estimate() -> hl.Pipeline:
    depth = hl.ImageParam(hl.Int(32), 3, "depth")
    depth.dim(0).set_estimate(0, 16)
    depth.dim(1).set_estimate(0, 12)
    return single(depth[X, Y, 0])


def test_missing_input_estimate_names_the_dimension() -> None:
    with pytest.raises(MissingEstimateError) as caught:
        extract(depth_without_last_estimate())
    assert str(caught.value) == (
        "Input `depth` has no estimate in dimension 2; call depth.set_estimate(...), pass estimates={'depth': ...} or, "
        "on the command line, --estimates FILE.json."
    )


def test_estimates_from_outside_fill_in() -> None:
    dag = extract(depth_without_last_estimate(), {"depth": [(0, 16), (0, 12), (0, 3)]})
    assert [interval.extent for interval in dag.funcs[0].estimate] == [16, 12, 3]


def test_estimates_from_outside_take_precedence() -> None:
    dag = extract(blur(), {"blur_y": [(10, 20), (0, 5)]})
    assert [(interval.min, interval.max) for interval in dag.funcs[-1].root_region] == [(10, 29), (0, 4)]


def test_missing_output_estimate_names_func_and_dimension() -> None:
    output = hl.Func("brightened")
    output[X, Y] = X + Y
    output.set_estimate(X, 0, 8)
    with pytest.raises(MissingEstimateError, match=r"Output Func `brightened` has no estimate in dimension 1 \(`y`\)"):
        extract(output)


def test_missing_parameter_estimate_matters_only_to_sizes() -> None:
    offset, gain = hl.Param(hl.Int(32), "offset"), hl.Param(hl.Float(32), "gain")
    source = image("source", (32, 12), hl.Float(32))
    with pytest.raises(MissingEstimateError, match=r"Parameter `offset` has no estimate"):
        extract(single(source[X + offset, Y]))
    dag = extract(single(source[X, Y] * gain))
    assert [(p.name, p.type, p.estimate) for p in dag.parameters] == [("gain", "float32", None)]


def test_default_of_a_parameter_serves_as_its_estimate() -> None:
    source = image("source", (32, 12), hl.Float(32))
    dag = extract(single(source[X + hl.Param(hl.Int(32), "offset", 5), Y]))
    assert dag.funcs[0].root_region[0].min == 5
    assert dag.parameters[0].estimate == 5


def test_constraints_and_bound_buffers_count_as_estimates() -> None:
    constrained = hl.ImageParam(hl.Float(32), 2, "constrained")
    constrained.dim(0).set_bounds(0, 16)
    constrained.dim(1).set_extent(12)
    assert [i.extent for i in extract(single(constrained[X, Y])).funcs[0].estimate] == [16, 12]
    pixels = np.zeros((12, 16), np.float32)
    bound = hl.ImageParam(hl.Float(32), 2, "bound")
    bound.set(hl.Buffer(pixels))
    assert [i.extent for i in extract(single(bound[X, Y])).funcs[0].estimate] == [16, 12]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(MissingEstimateError, match=r"`blury`.*`blur_y`, `source`"):
        extract(blur(), {"blury": [(0, 8), (0, 8)]})


@pytest.mark.parametrize("estimate", ["text", [1, 2], [(0, 0)], [(0, 1, 2)], [("a", "b")]])
def test_malformed_estimates_are_refused(estimate: object) -> None:
    estimates: EstimateMap = {"source": estimate}  # type: ignore[dict-item]
    with pytest.raises(MissingEstimateError, match="The estimate of `source` must be"):
        extract(blur(), estimates)


def test_undefined_pipelines_are_refused() -> None:
    with pytest.raises(UndefinedPipelineError, match="Func `nothing` has no definition"):
        extract(hl.Func("nothing"))
    with pytest.raises(UndefinedPipelineError, match="no output"):
        extract(hl.Pipeline())


@pytest.mark.parametrize("thing", [None, 3, hl.Var("x"), "pipeline"])
def test_other_objects_are_refused(thing: object) -> None:
    with pytest.raises(ExtractionError, match=r"Expected an hl.Pipeline or an hl.Func"):
        extract(thing)


def constrained(minimum: int = 0, extent: int = 16) -> hl.Pipeline:
    source = hl.ImageParam(hl.Float(32), 2, "source")
    source.dim(0).set_bounds(minimum, extent)
    source.set_estimates([(0, 16), (0, 12)])
    return single(source[X, Y])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: constrained(extent=17), r"input `source` in dimension 0 has extent 17 by its constraint, and 16 by"),
        (lambda: constrained(minimum=3), r"input `source` in dimension 0 has min 3 by its constraint, and 0 by"),
    ],
)
def test_estimates_that_contradict_a_constraint_are_refused(build: Callable[[], hl.Pipeline], message: str) -> None:
    with pytest.raises(ContradictoryEstimateError, match=message):
        extract(build())


def test_estimates_of_an_output_that_contradict_a_constraint_are_refused() -> None:
    pipeline = blur()
    pipeline.outputs()[0].output_buffer().dim(1).set_bounds(0, 7)
    with pytest.raises(ContradictoryEstimateError, match=r"output `blur_y` in dimension 1 has extent 7 by its"):
        extract(pipeline)
    with pytest.raises(ContradictoryEstimateError, match=r"output `blur_y` in dimension 1 .* 8 by its estimate"):
        extract(pipeline, {"blur_y": [(0, 16), (0, 8)]})
    assert extract(pipeline, {"blur_y": [(0, 16), (0, 7)]}).outputs == [2]


def test_empty_estimates_are_refused() -> None:
    output = hl.Func("output")
    output[X] = X
    output.set_estimate(X, 0, 0)
    with pytest.raises(ContradictoryEstimateError, match=r"output `output` in dimension 0 has extent 0"):
        extract(output)


def test_estimate_outside_of_the_range_of_a_parameter_is_refused() -> None:
    offset = hl.Param(hl.Int(32), "offset")
    offset.set_range(0, 9)
    offset.set_estimate(12)
    with pytest.raises(ContradictoryEstimateError, match=r"parameter `offset` is estimated as 12, outside"):
        extract(single(image("source", (32, 12), hl.Float(32))[X + offset, Y]))


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        ({"source": 3}, "`source` is a number, and `source` is an image"),
        ({"source": [(0, 9)]}, "`source` has 1 dimensions, and `source` has 2"),
        ({"blur_y": [(0, 9)] * 3}, "`blur_y` has 3 dimensions, and `blur_y` has 2"),
    ],
)
def test_estimates_of_another_kind_are_refused(estimates: EstimateMap, message: str) -> None:
    with pytest.raises(ContradictoryEstimateError, match=message):
        extract(blur(), estimates)


def test_a_size_for_a_parameter_is_refused() -> None:
    pipeline = single(image("source", (32, 12), hl.Float(32))[X, Y] * hl.Param(hl.Float(32), "gain"))
    with pytest.raises(ContradictoryEstimateError, match="`gain` is a size, and `gain` is a parameter"):
        extract(pipeline, {"gain": [(0, 4)]})


def test_malformed_targets_are_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="x86-99-nope"):
        extract(blur(), target="x86-99-nope")
    assert extract(blur(), target="host").outputs == [2]
