"""Learned demosaicking, with filters that learned something simple."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("learned_demosaic")
SHAPE = (3, 24, 38)
LAYERS = 4


def inputs_without_filters() -> dict[str, np.ndarray]:
    inputs = dict(APP.inputs(SHAPE))
    return {name: value if name == "input" else np.zeros_like(value) for name, value in inputs.items()}


@pytest.mark.slow
def test_learned_demosaic_without_filters_leaves_the_mosaic(realize):
    inputs = inputs_without_filters()
    output = realize(APP, SHAPE, inputs)
    assert np.array_equal(output.sum(axis=0), inputs["input"])
    assert np.array_equal(output[1, ::2, ::2], inputs["input"][::2, ::2])
    assert not output[[0, 2], ::2, ::2].any()
    assert np.array_equal(output[0, ::2, 1::2], inputs["input"][::2, 1::2])
    assert np.array_equal(output[2, 1::2, ::2], inputs["input"][1::2, ::2])


def test_learned_demosaic_carries_a_colour_through_all_layers(realize):
    inputs = inputs_without_filters()
    # Red of the group to the right becomes red of the first pixel of a group.
    inputs["filter_0"][1, 1, 2, 7] = 1
    for level in range(1, LAYERS - 1):
        inputs[f"filter_{level}"][7, 1, 1, 7] = 1
    inputs[f"filter_{LAYERS - 1}"][7, 1, 1, 0] = 1
    output = realize(APP, SHAPE, inputs)
    assert np.array_equal(output[0, ::2, :-2:2], inputs["input"][::2, 3::2])
