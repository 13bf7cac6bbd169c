"""The target feature `strict_float`: sums of floats are taken in the order that the algorithm says."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, finish, image

import metol
from metol import SearchOptions
from metol.lower import Call
from metol.pipeline import extract

TERMS, ROWS = 4096, 8
STRICT = "host-strict_float"
QUICK = SearchOptions(strategy="greedy")


def sums_of(pixel: hl.Type, factor: hl.Expr) -> hl.Pipeline:
    source, sums, output = image(TERMS, ROWS, pixel=pixel), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, TERMS)])
    sums[X] = hl.cast(pixel, 0)
    sums[X] += source[r, X] * factor
    output[X] = sums[X] * 2
    return finish(output, sizes=(ROWS,))


def sums_of_floats() -> hl.Pipeline:
    return sums_of(hl.Float(32), hl.f32(0.1))


def sums_of_integers() -> hl.Pipeline:
    return sums_of(hl.Int(32), hl.i32(3))


@pytest.mark.parametrize(
    ("build", "target", "is_associative"),
    [
        (sums_of_floats, "", True),
        (sums_of_floats, "host", True),
        (sums_of_floats, STRICT, False),
        (sums_of_integers, STRICT, True),
    ],
)
def test_only_strict_floats_keep_their_order(
    build: Callable[[], hl.Pipeline], target: str, is_associative: bool
) -> None:
    (update,) = (stage for stage in extract(build(), target=target).stages if stage.index == 1)
    assert (update.is_associative, update.has_safe_identities) == (is_associative, is_associative)


@pytest.mark.parametrize(
    "options", [QUICK, *(SearchOptions(strategy="random", refine=False, seed=seed) for seed in range(3))]
)
def test_results_are_those_of_the_algorithm_bit_by_bit(options: SearchOptions) -> None:
    values = (np.random.default_rng(0).random((ROWS, TERMS)) * 1000).astype(np.float32)
    results = []
    for is_scheduled in (False, True):
        pipeline = sums_of_floats()
        if is_scheduled:
            result = metol.autoschedule(pipeline, target=STRICT, options=options, threads=2)
            assert not any(directive.call is Call.RFACTOR for directive in result.schedule.directives)
        code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.Target(STRICT))
        output = hl.Buffer(hl.Float(32), [ROWS])
        code(hl.Buffer(values), output)
        results.append(np.array(output))
    np.testing.assert_array_equal(*results)
