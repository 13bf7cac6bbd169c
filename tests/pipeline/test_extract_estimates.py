"""Where sizes come from, and what is said when one is missing."""

import halide as hl
import numpy as np
import pytest
from sample_algorithms import X, Y, blur, image, single

from metol.errors import ExtractionError, MissingEstimateError, UndefinedPipelineError, UnsupportedTargetError
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
        "Input `depth` has no estimate in dimension 2; call depth.set_estimate(...) or pass estimates={'depth': ...}."
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


def test_extern_stages_are_refused() -> None:
    source, external = hl.Func("source"), hl.Func("external")
    source[X] = X
    external.define_extern("some_function", [source], hl.Int(32), [X])
    with pytest.raises(ExtractionError, match="Func `external` is defined by the external function `some_function`"):
        extract(single(external[X]))


def test_malformed_targets_are_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="x86-99-nope"):
        extract(blur(), target="x86-99-nope")
    assert extract(blur(), target="host").outputs == [2]
