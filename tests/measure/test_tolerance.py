from collections.abc import Sequence

import numpy as np
import pytest

from metol.measure.tolerance import Tolerance, compare, default_tolerance

EXACT = Tolerance(0, 0)


def test_compare_accepts_equal_arrays_of_every_kind() -> None:
    for dtype in (np.uint8, np.int64, np.uint64, np.float16, np.float32, np.float64, np.bool_):
        array = np.arange(12).reshape(3, 4).astype(dtype)
        assert compare(array, array.copy(), EXACT).is_equal


def test_compare_tells_where_the_first_difference_is_in_halides_order() -> None:
    expected = np.zeros((4, 5), np.int32)
    result = expected.copy()
    result[2, 1] = 9
    comparison = compare(result, expected, EXACT)
    assert not comparison.is_equal
    assert "1 of 20 elements differ; the first, at (1, 2), is 9 instead of 0" in comparison.text


def test_compare_lets_nan_equal_nan_and_an_infinity_itself_alone() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert compare(expected.copy(), expected, EXACT).is_equal
    for place, other in ((0, 1.0), (1, -np.inf), (1, np.nan), (3, np.nan), (3, np.inf)):
        result = expected.copy()
        result[place] = other
        assert not compare(result, expected, Tolerance(1e30, 1)).is_equal


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_compare_measures_the_distance_of_extreme_integers(dtype: type) -> None:
    info = np.iinfo(dtype)
    low, high = np.array([info.min], dtype), np.array([info.max], dtype)
    assert not compare(low, high, Tolerance(100, 0)).is_equal
    assert compare(high - dtype(1), high, Tolerance(1, 0)).is_equal


def test_compare_rejects_another_shape_or_type() -> None:
    expected = np.zeros((2, 3), np.float32)
    assert not compare(np.zeros((3, 2), np.float32), expected, Tolerance(1, 1)).is_equal
    assert not compare(np.zeros((2, 3), np.float64), expected, Tolerance(1, 1)).is_equal


def test_default_tolerance_forgives_bytes_rounded_from_floats_by_one_only() -> None:
    expected = np.full(10, 100, np.uint8)
    tolerance = default_tolerance(expected, narrowest_float=32)
    assert compare(expected + np.uint8(1), expected, tolerance).is_equal
    assert not compare(expected + np.uint8(2), expected, tolerance).is_equal
    assert default_tolerance(expected) == EXACT
    assert default_tolerance(expected.astype(np.int32), narrowest_float=32) == EXACT


def test_default_tolerance_forgives_a_reassociated_sum_but_no_missing_term() -> None:
    rng = np.random.default_rng(0)
    terms = rng.standard_normal((4000, 50)).astype(np.float32)
    forward, backward = (np.add.accumulate(t, axis=0)[-1] for t in (terms, terms[::-1]))
    tolerance = default_tolerance(forward)
    assert compare(backward, forward, tolerance).is_equal
    assert not compare(forward - terms[7], forward, tolerance).is_equal


def test_default_tolerance_follows_the_precision_of_the_type() -> None:
    expected = np.ones(4)
    relative = [default_tolerance(expected.astype(t)).relative for t in ("f8", "f4", "f2")]
    assert relative[0] < 1e-10 < relative[1] == 1e-3 < relative[2] <= 0.05


def test_default_tolerance_follows_the_narrowest_floats_that_went_in() -> None:
    expected = np.array([3.0, -1.0])
    exact, from_single, from_half = (default_tolerance(expected, narrowest_float=bits) for bits in (64, 32, 16))
    assert exact == default_tolerance(expected)
    assert exact.relative < from_single.relative < from_half.relative
    # Wider floats went into it, too: it is no more precise for that.
    single = expected.astype(np.float32)
    assert default_tolerance(single, narrowest_float=64) == default_tolerance(single)


def one_of_a_thousand(is_bad: Sequence[int]) -> np.ndarray:
    found = np.zeros((50, 40), np.int32)
    found.flat[list(is_bad)] = 7
    return found


@pytest.mark.parametrize(
    ("result", "witness", "is_equal"),
    [
        ([3, 99], [3, 99], True),
        ([3, 99], [99, 3], True),
        ([3], [3, 99], True),
        ([3, 99], [3], False),
        ([3, 99, 1999], [3, 99], False),
        ([3, 99, 1999], [3, 99, 1999], False),
        ([3, 99], [3, 99, 1999], False),
    ],
)
def test_few_elements_may_be_those_of_a_witness(result: list[int], witness: list[int], *, is_equal: bool) -> None:
    expected = one_of_a_thousand([])
    found = compare(one_of_a_thousand(result), expected, EXACT, [one_of_a_thousand(witness)])
    assert found.is_equal is is_equal
    assert found.is_few is (len(result) <= 2)
    assert not compare(one_of_a_thousand(result), expected, EXACT).is_equal


def test_each_of_few_elements_may_be_that_of_another_witness() -> None:
    expected, result = one_of_a_thousand([]), one_of_a_thousand([3, 99])
    one, other, wild = one_of_a_thousand([3]), one_of_a_thousand([99]), one_of_a_thousand(range(2000))
    assert compare(result, expected, EXACT, [one, other]).is_equal
    assert not compare(result, expected, EXACT, [one, wild]).is_equal


def test_witness_vouches_for_one_element_of_few_but_for_no_whole_output() -> None:
    for size, is_equal in ((1, False), (2, True)):
        expected, result = np.zeros(size, np.int32), np.zeros(size, np.int32)
        result[0] = 1
        assert compare(result, expected, EXACT, [result.copy()]).is_equal is is_equal


def test_witness_vouches_for_what_lies_as_close_to_it_as_to_the_expected() -> None:
    expected = np.full(4000, 100, np.float32)
    witness, result = expected.copy(), expected.copy()
    witness[9] = 200
    for value, is_equal in ((200.1, True), (150, False), (np.nan, False), (np.inf, False)):
        result[9] = value
        assert compare(result, expected, Tolerance(0, 1e-3), [witness]).is_equal is is_equal
