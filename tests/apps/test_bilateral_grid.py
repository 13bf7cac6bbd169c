"""The bilateral grid."""

import numpy as np

import metol_apps

APP = metol_apps.get("bilateral_grid")


def test_bilateral_grid_keeps_a_flat_image(realize):
    image = np.full((20, 30), 0.25, np.float32)
    output = realize(APP, image.shape, {"input": image, "r_sigma": 0.1})
    assert np.allclose(output, image, rtol=1e-5)


def test_bilateral_grid_smooths_noise_and_keeps_edges(realize):
    clean = np.where(np.arange(96) < 48, 0.2, 0.8) * np.ones((96, 1))
    noisy = (clean + 0.03 * np.random.default_rng(0).standard_normal(clean.shape)).astype(np.float32)
    output = realize(APP, noisy.shape, {"input": noisy, "r_sigma": 0.1})
    assert np.std(output - clean) < np.std(noisy - clean) / 2
    assert np.allclose(output[:, 47], 0.2, atol=0.05)
    assert np.allclose(output[:, 48], 0.8, atol=0.05)


def test_bilateral_grid_matches_its_reference_for_other_ranges(realize):
    for r_sigma in (0.05, 0.3):
        inputs = {**APP.inputs((30, 40)), "r_sigma": r_sigma}
        assert APP.tolerance.accepts(realize(APP, (30, 40), inputs), APP.reference(inputs))
