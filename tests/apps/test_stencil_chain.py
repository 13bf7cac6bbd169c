"""The stencil chain."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("stencil_chain")


def test_stencil_chain_has_32_stages_after_its_boundary_condition(all_funcs):
    assert len(all_funcs(APP.build())) == 33


@pytest.mark.parametrize("level", [0, 1, 1023])
def test_stencil_chain_keeps_a_flat_image_of_ten_bits(realize, level):
    image = np.full((20, 30), level, np.uint16)
    assert np.array_equal(realize(APP, image.shape, {"input": image}), image)


def test_stencil_chain_stays_in_ten_bits(realize):
    image = np.random.default_rng(0).choice(np.array([0, 1023], np.uint16), (50, 50))
    assert realize(APP, image.shape, {"input": image}).max() <= 1023
