"""Harris corners on images whose corners are known, and the user's example beside the app."""

import importlib.util
from pathlib import Path

import numpy as np

import metol_apps

APP = metol_apps.get("harris")
EXAMPLE = Path(__file__).parents[2] / "examples" / "harris.py"


def square() -> np.ndarray:
    """Return a black image with a white square whose first pixel is at row 20, column 24 of the output."""
    image = np.zeros((3, 64, 64), np.float32)
    image[:, 22:42, 26:46] = 1
    return image


def test_harris_finds_corners_and_refuses_edges(realize):
    response = realize(APP, (60, 60), {"input": square()})
    assert response[20, 24] > 0
    assert response[30, 24] < 0
    assert response[5, 5] == 0


def test_harris_is_symmetric(realize):
    image = APP.inputs((30, 40))["input"]
    response = realize(APP, (30, 40), {"input": image})
    transposed = realize(APP, (40, 30), {"input": np.ascontiguousarray(image.transpose(0, 2, 1))})
    assert APP.tolerance.accepts(transposed.T, response)


def test_harris_example_computes_the_same(compile_at_root):
    spec = importlib.util.spec_from_file_location("example_harris", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = APP.inputs(APP.small_output_shape)
    actual = compile_at_root(module.harris()).run(inputs, APP.empty_output(APP.small_output_shape))
    assert APP.tolerance.accepts(actual, APP.reference(inputs))
