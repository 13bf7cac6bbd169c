"""Matrix multiplication."""

import numpy as np
import pytest

import metol_apps


@pytest.mark.parametrize("name", ["matmul", "matmul_f64"])
def test_matmul_by_the_identity_keeps_a_matrix(realize, name):
    app = metol_apps.get(name)
    matrix = app.inputs((7, 1536))["A"]
    output = realize(app, matrix.shape, {"A": matrix, "B": np.eye(1536, dtype=matrix.dtype)})
    assert np.array_equal(output, matrix)


def test_matmul_f64_is_more_precise_than_f32():
    single, double = metol_apps.get("matmul"), metol_apps.get("matmul_f64")
    assert (single.output_type, double.output_type) == (np.float32, np.float64)
    assert double.tolerance.absolute < single.tolerance.absolute / 1e6
