"""Tolerances."""

import numpy as np
import pytest

from metol_apps import Tolerance

EXPECTED = np.array([0, 1, 100], np.float32)


def test_tolerance_adds_absolute_and_relative():
    tolerance = Tolerance(absolute=0.5, relative=0.01)
    assert tolerance.accepts(EXPECTED + np.array([0.49, 0.5, 1.49], np.float32), EXPECTED)
    assert not tolerance.accepts(EXPECTED + np.array([0, 0, 1.51], np.float32), EXPECTED)
    assert not tolerance.accepts(EXPECTED + np.array([0.51, 0, 0], np.float32), EXPECTED)


def test_tolerance_never_accepts_nan():
    assert not Tolerance(absolute=1e9, relative=1).accepts(np.full(3, np.nan, np.float32), EXPECTED)


def test_tolerance_compares_unsigned_integers_without_wrapping():
    low, high = np.array([0], np.uint8), np.array([255], np.uint8)
    assert not Tolerance(absolute=1, relative=0).accepts(low, high)
    assert not Tolerance(absolute=1, relative=0).accepts(high, low)
    assert Tolerance(absolute=1, relative=0).accepts(high - np.uint8(1), high)


def test_tolerance_of_zero_is_exact():
    exact = Tolerance(absolute=0, relative=0)
    large = np.array([2**60], np.int64)
    assert exact.accepts(large, large)
    assert not exact.accepts(large + 1, large)


@pytest.mark.parametrize("actual", [EXPECTED[:2], EXPECTED.astype(np.float64)])
def test_tolerance_refuses_another_shape_or_type(actual):
    assert not Tolerance(absolute=1e9, relative=0).accepts(actual, EXPECTED)
