from dataclasses import replace

import halide as hl
import numpy as np
import pytest

from metol.errors import MissingEstimateError
from metol.measure.at_root import schedule_at_root
from metol.measure.case import Case, Input
from metol.measure.case_names import AWKWARD, ESTIMATED
from metol.measure.cases import app_cases, nudge_inputs, pipeline_case
from metol.measure.compiled import CompiledPipeline
from metol.measure.source import load_app


def make_case(source, name):
    pipeline = source.build()
    schedule_at_root(pipeline)
    code = CompiledPipeline.compile(pipeline, hl.get_host_target())
    return code, pipeline_case(pipeline, code, name, seed=5)


def test_awkward_case_has_inputs_of_exactly_the_needed_size(planted) -> None:
    code, case = make_case(planted("blur"), AWKWARD)
    image, gain = case.inputs[1], case.inputs[0]
    if image.array is None:
        image, gain = gain, image
    assert case.outputs[0].extents == (33, 21)
    assert image.array.shape == (21 + 2, 33 + 3)
    assert image.mins == (-1, -1)
    assert gain.number == 0.25
    (result,), is_intact = code.run_once(case)
    assert is_intact
    wide = image.array.astype(np.float32)
    rows = wide[:, :-3] + wide[:, 3:]
    np.testing.assert_allclose(result, 0.25 * (rows[:-2] + rows[2:]))


def test_estimated_case_takes_the_estimated_inputs(planted) -> None:
    _, case = make_case(planted("histogram"), ESTIMATED)
    assert case.inputs[0].array.shape == (200, 320)
    assert case.inputs[0].array.max() == 255


def test_case_follows_the_layout_that_the_pipeline_asks_for(planted) -> None:
    code, case = make_case(planted("interleaved"), AWKWARD)
    assert case.outputs[0].extents == (33, 21, 3)
    assert case.outputs[0].order == (2, 0, 1)
    assert case.inputs[0].array.strides[0] == 1
    code.run_once(case)


def test_case_has_one_output_for_each_element_of_a_tuple(planted) -> None:
    code, case = make_case(planted("pair"), AWKWARD)
    (floats, integers), _ = code.run_once(case)
    assert (floats.dtype, integers.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(integers, (case.inputs[0].array * np.float32(100)).astype(np.int32))


def test_numbers_of_64_bits_without_a_sign_go_in_and_out(planted) -> None:
    code, case = make_case(planted("wide_numbers"), AWKWARD)
    (result,), _ = code.run_once(case)
    rows = np.arange(21, dtype=np.uint64)[:, None]
    np.testing.assert_array_equal(result, case.inputs[0].array * np.uint64(3) + rows)


def test_case_is_the_same_for_the_same_seed(planted) -> None:
    (_, first), (_, second) = (make_case(planted("pair"), AWKWARD) for _ in range(2))
    np.testing.assert_array_equal(first.inputs[0].array, second.inputs[0].array)


def test_case_wants_estimates(planted) -> None:
    with pytest.raises(MissingEstimateError, match="output `constant` has no estimate in dimension 0"):
        make_case(planted("has_no_estimate"), ESTIMATED)


def test_app_cases_take_the_sizes_and_inputs_of_the_app() -> None:
    app = load_app("harris")
    estimated, awkward = app_cases(app, tuple(app.build().infer_arguments()), seed=0)
    assert estimated.outputs[0].extents == app.output_shape[::-1]
    assert awkward.outputs[0].extents == app.small_output_shape[::-1]
    np.testing.assert_array_equal(awkward.inputs[0].array, app.inputs(app.small_output_shape, seed=0)["input"])


def test_nudging_moves_floats_by_a_few_places_and_nothing_else() -> None:
    floats, integers = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4), np.arange(4)
    case = Case("odd", (Input("a", array=floats.copy()), Input("b", array=integers.copy()), Input("c", 3)), ())
    assert nudge_inputs(case, 1)
    moved, same, _ = (item.array for item in case.inputs)
    assert moved is not None
    assert 0 < np.abs(moved - floats).max() <= 10 * np.finfo(np.float32).eps
    np.testing.assert_array_equal(same, integers)
    assert not nudge_inputs(replace(case, inputs=case.inputs[1:]), 1)
