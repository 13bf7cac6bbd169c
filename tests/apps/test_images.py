"""Generated images."""

import numpy as np
import pytest

from metol_apps.images import gray_photograph, photograph, photograph_uint8, photograph_uint16


@pytest.mark.parametrize("make", [photograph, photograph_uint8, photograph_uint16])
def test_images_depend_on_the_seed_alone(make):
    assert np.array_equal(make(40, 30, seed=3), make(40, 30, seed=3))
    assert not np.array_equal(make(40, 30, seed=3), make(40, 30, seed=4))


def test_images_have_the_asked_shape_type_and_order():
    for image, dtype in (
        (photograph(20, 30), np.float32),
        (photograph_uint8(20, 30), np.uint8),
        (photograph_uint16(20, 30), np.uint16),
    ):
        assert (image.shape, image.dtype) == ((3, 20, 30), dtype)
        assert image.flags.c_contiguous
    assert gray_photograph(20, 30).shape == (20, 30)


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (7, 3)])
def test_images_may_be_tiny(size):
    assert photograph(*size).shape == (3, *size)


def test_images_use_most_of_the_range_on_256_levels():
    image = photograph(200, 150)
    assert 0 <= image.min() < 0.1
    assert 0.9 < image.max() <= 1
    assert np.array_equal(np.rint(image * 255) / np.float32(255), image)


def test_images_are_smooth_with_edges_and_noise():
    rows = np.diff(photograph(200, 150)[0])
    assert np.median(np.abs(rows)) < 0.05
    assert np.max(np.abs(rows)) > 0.2
    assert np.mean(rows == 0) < 0.5
