"""Names that Halide numbers: a pipeline built twice in one process has the same names for people."""

import subprocess
import sys
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image

from metol import SearchOptions
from metol.pipeline import base_name

QUICK = SearchOptions(strategy="greedy")


@pytest.mark.parametrize(
    ("name", "base"), [("f", "f"), ("f$3", "f"), ("s$1_intm", "s_intm"), ("f$2_in_g$12", "f_in_g"), ("f$1.0", "f.0")]
)
def test_numbers_are_left_out_wherever_they_stand(name: str, base: str) -> None:
    assert base_name(name) == base


def factored() -> hl.Pipeline:
    """Halide names what the author's own rfactor makes: `sums_intm`, and `sums$1_intm` the next time."""
    source = image(160, 90)
    sums, output = hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, 128)])
    sums[Y] = 0
    sums[Y] += source[r, Y]
    outer, inner, lane = hl.RVar("outer"), hl.RVar("inner"), hl.Var("lane")
    sums.update(0).split(r.x, outer, inner, 8)
    sums.update(0).rfactor(inner, lane).compute_root()
    output[X, Y] = sums[Y] + source[X, Y]
    return finish(output, sizes=(150, 90))


BUILT_AGAIN = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parent.parent)!r}]
from test_names import QUICK, factored
import metol

metol.autoschedule(factored(), options=QUICK, threads=2).save("sums.json")
metol.load("sums.json").apply(factored())
print(metol.autoschedule(factored(), options=QUICK, threads=2, keep=["sums"]).origin)
"""


def test_schedule_fits_a_pipeline_that_is_built_again(tmp_path: Path) -> None:
    """In a process of its own: where thousands of names were given before, Halide numbers some otherwise."""
    done = subprocess.run(
        [sys.executable, "-c", BUILT_AGAIN], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "search\n"
