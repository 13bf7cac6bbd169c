"""Non-local means."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("nl_means")
SHAPE = (3, 41, 67)


def test_nl_means_keeps_a_flat_image(realize):
    image = np.full(SHAPE, 0.25, np.float32)
    assert np.allclose(realize(APP, SHAPE, {"input": image, "sigma": 0.12}), image, rtol=1e-5)


def test_nl_means_smooths_noise_and_keeps_edges(realize):
    clean = np.where(np.arange(96) < 48, 0.2, 0.8) * np.ones((3, 48, 1))
    noisy = (clean + 0.03 * np.random.default_rng(0).standard_normal(clean.shape)).astype(np.float32)
    output = realize(APP, noisy.shape, {"input": noisy, "sigma": 0.12})
    assert np.std(output - clean) < np.std(noisy - clean) / 2
    assert np.allclose(output[..., 47], 0.2, atol=0.05)
    assert np.allclose(output[..., 48], 0.8, atol=0.05)


def test_nl_means_compares_patches_of_all_colours(realize):
    image = np.full(SHAPE, 0.5, np.float32)
    image[2, :, 33:] = 1
    # Red does not vary: it is the same on both sides of an edge that only blue has, and stays so.
    output = realize(APP, SHAPE, {"input": image, "sigma": 0.12})
    assert np.allclose(output[0], 0.5, rtol=1e-5)
    assert np.all(output[2, :, 34:] > 0.99)


@pytest.mark.parametrize("sigma", [0.02, 1.0])
def test_nl_means_matches_its_reference_for_other_sigmas(realize, sigma):
    inputs = {**APP.inputs(SHAPE), "sigma": sigma}
    assert APP.tolerance.accepts(realize(APP, SHAPE, inputs), APP.reference(inputs))


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 2, 9)])
def test_nl_means_matches_its_reference_at_sizes_below_its_patch(realize, shape):
    inputs = APP.inputs(shape)
    assert APP.tolerance.accepts(realize(APP, shape, inputs), APP.reference(inputs))
