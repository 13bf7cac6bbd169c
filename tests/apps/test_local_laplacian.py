"""The local Laplacian filter."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("local_laplacian")
SHAPE = (3, 41, 67)


def test_local_laplacian_is_a_deep_pipeline(all_funcs):
    assert len(all_funcs(APP.build())) == 85


@pytest.mark.slow
def test_local_laplacian_without_detail_keeps_the_image(realize):
    inputs = {**APP.inputs(SHAPE), "alpha": 0.0}
    output = realize(APP, SHAPE, inputs)
    assert np.max(np.abs(output.astype(int) - inputs["input"])) <= 2


@pytest.mark.slow
def test_local_laplacian_raises_detail(realize):
    inputs = APP.inputs(SHAPE)
    image = inputs["input"].astype(float)
    output = realize(APP, SHAPE, inputs).astype(float)
    assert np.std(np.diff(output)) > 1.1 * np.std(np.diff(image))


@pytest.mark.parametrize(("levels", "alpha", "beta"), [(2, 0.5, 1.0), (5, -0.5, 0.7)])
def test_local_laplacian_matches_its_reference_for_other_parameters(realize, levels, alpha, beta):
    inputs = {**APP.inputs(SHAPE), "levels": levels, "alpha": alpha, "beta": beta}
    assert APP.tolerance.accepts(realize(APP, SHAPE, inputs), APP.reference(inputs))
