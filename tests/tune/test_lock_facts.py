"""What a schedule file says beside what is here, fact by fact."""

from dataclasses import replace

import pytest

from metol.findings import Check, Outcome
from metol.lower import Estimate, Measured, Schedule
from metol.tune.lock_facts import Speed, compare_algorithms, compare_estimates, compare_targets, compare_versions

HOST = "x86-64-linux-avx-avx2-f16c-fma-sse41"
LOCKED = Schedule(
    funcs=(),
    directives=(),
    target=HOST,
    estimates=(Estimate("output", ((0, 640), (0, 480))), Estimate("radius", value=3)),
    algorithm_hash="0123456789abcdef",
    halide_version="21.0.0",
    metol_version="0.1.0",
)
THEN = Measured(2.0, (1.9, 2.1), 2, "m" * 16, "Some CPU", False, "2026-01-02T03:04:05Z")


def outcomes(*checks: Check) -> list[Outcome]:
    return [check.outcome for check in checks]


def test_versions_that_are_the_same_are_fine() -> None:
    assert outcomes(*compare_versions(LOCKED, LOCKED)) == [Outcome.OK, Outcome.OK]


def test_other_versions_are_told() -> None:
    checks = compare_versions(LOCKED, replace(LOCKED, halide_version="22.0.0", metol_version="0.2.0"))
    assert outcomes(*checks) == [Outcome.WARN, Outcome.WARN]
    assert [check.found for check in checks] == ["made with 0.1.0; this is 0.2.0", "made with 21.0.0; this is 22.0.0"]


@pytest.mark.parametrize(
    ("target", "outcome", "found"),
    [
        (HOST, Outcome.OK, HOST),
        ("x86-64-linux-sse41", Outcome.OK, "x86-64-linux-sse41"),
        (f"{HOST}-opencl-no_asserts", Outcome.OK, "opencl"),
        ("", Outcome.WARN, "the file tells none"),
        ("x86-64-linux-avx-avx512", Outcome.FAIL, "this machine has no avx512"),
        ("arm-64-linux", Outcome.FAIL, "made for arm-64-linux; this machine is x86-64-linux"),
    ],
)
def test_target_fits_a_machine_that_has_all_it_needs(target: str, outcome: Outcome, found: str) -> None:
    check = compare_targets(target, HOST)
    assert check.outcome is outcome
    assert found in check.found


@pytest.mark.parametrize(
    ("was", "now", "outcome"),
    [
        ("0" * 16, "0" * 16, Outcome.OK),
        ("0" * 16, "1" * 16, Outcome.FAIL),
        ("0" * 16, "", Outcome.FAIL),
        ("", "0" * 16, Outcome.WARN),
    ],
)
def test_another_algorithm_fails(was: str, now: str, outcome: Outcome) -> None:
    locked, here = (replace(LOCKED, algorithm_hash=digits) for digits in (was, now))
    assert compare_algorithms(locked, here).outcome is outcome


def test_equal_estimates_are_listed() -> None:
    check = compare_estimates(LOCKED, LOCKED)
    assert check == Check("estimates", Outcome.OK, "output 640x480, radius = 3")


def test_only_estimates_that_differ_are_named() -> None:
    here = replace(LOCKED, estimates=(Estimate("output", ((1, 640), (0, 480))), Estimate("radius", value=3)))
    check = compare_estimates(LOCKED, here)
    assert check.outcome is Outcome.WARN
    assert check.found == "made for output 640x480; here output 640x480 from 1, 0"


def test_file_without_estimates_is_a_warning() -> None:
    assert compare_estimates(replace(LOCKED, estimates=()), LOCKED).outcome is Outcome.WARN


def speed(
    run_ms: float, interval_ms: tuple[float, float] | None, *, then: Measured | None = THEN, tolerance: float = 0.1
) -> Speed:
    return Speed(then, replace(THEN, run_ms=run_ms, interval_ms=interval_ms), True, tolerance)


@pytest.mark.parametrize(
    ("run_ms", "interval_ms", "is_slower"),
    [
        (2.0, (1.9, 2.1), False),
        (1.0, (0.9, 1.1), False),
        (2.19, (2.15, 2.25), False),
        (2.4, (2.05, 2.9), False),
        (2.4, (2.2, 2.6), True),
        (2.4, None, True),
        (2.19, None, False),
    ],
)
def test_slower_is_by_more_than_the_tolerance_and_than_chance(
    run_ms: float, interval_ms: tuple[float, float] | None, is_slower: bool
) -> None:
    found = speed(run_ms, interval_ms)
    assert found.is_slower is is_slower
    assert found.to_check().outcome is (Outcome.WARN if is_slower else Outcome.OK)


def test_tolerance_is_the_users() -> None:
    assert speed(2.15, (2.12, 2.18), tolerance=0.0).is_slower
    assert not speed(4.0, (3.9, 4.1), tolerance=1.0).is_slower


def test_how_much_slower_is_told() -> None:
    found = speed(3.0, (2.9, 3.1)).to_check().found
    assert found == "3 ms (2.9 to 3.1): 1.5x slower than when it was measured, 2 ms (1.9 to 2.1) on 2026-01-02"


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (None, "no measured time in the file"),
        (replace(THEN, machine="n" * 16), "measured on another machine (Some CPU)"),
        (replace(THEN, machine="n" * 16, cpu=""), "measured on another machine (nnnn"),
        (replace(THEN, threads=4), "measured with 4 threads"),
        (replace(THEN, is_cold=True), "measured with empty caches"),
    ],
)
def test_times_of_other_circumstances_are_not_compared(then: Measured | None, why: str) -> None:
    found = speed(99.0, (98.0, 100.0), then=then)
    assert not found.is_slower
    assert found.to_check().outcome is Outcome.WARN
    assert why in found.to_check().found


def test_times_of_other_problems_are_not_compared() -> None:
    found = replace(speed(99.0, None), is_same_problem=False)
    assert not found.is_slower
    assert "for another algorithm or other sizes" in found.to_check().found
