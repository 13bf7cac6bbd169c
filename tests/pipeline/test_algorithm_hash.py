"""The hash of an algorithm: the same in every process, different for different algorithms."""

import subprocess
import sys
from pathlib import Path

import halide as hl
import pytest
from sample_algorithms import X, Y, blur, boundary, histogram, image, matmul, single

from metol.pipeline import extract

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("build", [blur, matmul, histogram, lambda: boundary("repeat_edge")])
def test_two_builds_have_one_hash(build: object) -> None:
    assert callable(build)
    assert extract(build()).algorithm_hash == extract(build()).algorithm_hash


def test_names_and_schedules_do_not_matter() -> None:
    first, second = hl.Func("one"), hl.Func("another")
    u, v = hl.Var("u"), hl.Var("v")
    first[X, Y] = X * 2 + Y
    second[u, v] = u * 2 + v
    for func in (first, second):
        func.set_estimates([(0, 8), (0, 8)])
    second.parallel(v)
    assert extract(first).algorithm_hash == extract(second).algorithm_hash


def test_another_process_computes_the_same_hash() -> None:
    code = (
        "import sys; sys.path[:] = [*sys.argv[1:], *sys.path]\n"
        "from sample_algorithms import blur, histogram\nfrom metol.pipeline import extract\n"
        "print(extract(histogram()).algorithm_hash, extract(blur()).algorithm_hash)"
    )
    command = [sys.executable, "-c", code, str(FOLDER), *sys.path]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(extract(histogram()).algorithm_hash), str(extract(blur()).algorithm_hash)]


def test_different_algorithms_have_different_hashes() -> None:
    source = image("source", (64, 64), hl.Int(32))
    values = [
        X + Y,
        Y + X,
        X - Y,
        X + Y + 1,
        X + Y + 2,
        hl.u32(X) + hl.u32(Y),
        hl.u32(X) // 3,
        X // 3,
        hl.f32(X),
        hl.f64(X),
        source[X, Y],
        source[Y, X],
        source[X, Y] + hl.Param(hl.Int(32), "p"),
        source[X, Y] + hl.Param(hl.Int(32), "q"),
        hl.select(X < Y, 1, 2),
        hl.select(X <= Y, 1, 2),
        hl.sum(hl.RDom([(0, 3)]).x + X),
        hl.sum(hl.RDom([(0, 4)]).x + X),
    ]
    hashes = [extract(single(value)).algorithm_hash for value in values]
    assert len(set(hashes)) == len(values)


def test_estimates_have_a_hash_of_their_own() -> None:
    small, large = extract(blur()), extract(blur(), {"blur_y": [(0, 1000), (0, 1000)]})
    assert small.algorithm_hash == large.algorithm_hash
    assert small.estimates_hash != large.estimates_hash
