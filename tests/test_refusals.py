"""Reasons why schedules are refused: those that say the same are told once."""

import pytest

from metol.refusals import are_alike, group_refusals


def touches(what: str, place: int, *, size: str = "1x1") -> str:
    return f"{what}: for an output of {size} its code touches element {place} of `a`, which has 1"


def test_those_that_differ_in_numbers_are_one_line_with_a_count() -> None:
    refusals = (
        touches("the best found", 511),
        "the next best found: Halide does not lower it within 30 s",
        touches("the next best found", 1023, size="512x17"),
        touches("the best found in a narrower space", 63),
    )
    assert group_refusals(refusals) == (f"{refusals[0]} (2 more, for the same reason)", refusals[1])


def test_single_refusals_stay_as_they_are() -> None:
    refusals = (touches("the best found", 511), "the safe schedule: it needs 0 to 3 of `source`")
    assert group_refusals(refusals) == refusals
    assert group_refusals(()) == ()


@pytest.mark.parametrize(("other", "alike"), [("a", True), ("b", False)])
def test_what_is_touched_tells_reasons_apart(other: str, alike: bool) -> None:
    one, two = touches("the best found", 1), touches("the next best found", 2).replace("`a`", f"`{other}`")
    assert are_alike([one, two]) == alike
