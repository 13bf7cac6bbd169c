"""A stripped pipeline lowers like one that was never scheduled."""

import re
from collections.abc import Callable
from pathlib import Path

import halide as hl
import numpy as np
import pytest
from sample_algorithms import X, Y, blur, histogram, matmul

from metol.errors import ExtractionError
from metol.pipeline import extract, strip_schedules


def schedule_blur(pipeline: hl.Pipeline) -> None:
    source, blur_x, blur_y = (pipeline.get_func(i) for i in range(3))
    xo, xi = hl.Var("xo"), hl.Var("xi")
    blur_y.split(X, xo, xi, 8, hl.TailStrategy.GuardWithIf).vectorize(xi).parallel(Y)
    blur_y.specialize(blur_y.output_buffer().width() >= 32).unroll(xo, 2)
    blur_x.store_root().compute_at(blur_y, Y).fold_storage(Y, 4).align_storage(X, 16)
    blur_x.in_(blur_y).compute_at(blur_y, xo)
    source.in_().compute_root()


def schedule_matmul(pipeline: hl.Pipeline) -> None:
    product = pipeline.get_func(2)
    rvar = product.rvars(0)[0]
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    product.update(0).split(rvar, ro, ri, 8).reorder(X, Y, ri, ro).vectorize(X, 8)
    product.bound(X, 0, 128)


def schedule_histogram(pipeline: hl.Pipeline) -> None:
    for i in range(1, 3):
        pipeline.get_func(i).compute_root()
    pipeline.get_func(1).store_in(hl.MemoryType.Stack)
    pipeline.get_func(1).update(0).atomic()
    pipeline.get_func(3).compute_root().parallel(Y)


UNIQUE_SUFFIX = re.compile(r"\$\d+|_\d+\b|\bt\d+\b")

CASES = [(blur, schedule_blur), (matmul, schedule_matmul), (histogram, schedule_histogram)]


def lowered(pipeline: hl.Pipeline, path: Path) -> str:
    """The lowered code, with the suffixes that make names unique taken off."""
    pipeline.compile_to_lowered_stmt(str(path), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    return UNIQUE_SUFFIX.sub("", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("build", "schedule"), CASES)
def test_stripping_undoes_a_schedule(
    build: Callable[[], hl.Pipeline], schedule: Callable[[hl.Pipeline], None], tmp_path: Path
) -> None:
    scheduled = build()
    schedule(scheduled)
    strip_schedules(scheduled)
    assert lowered(scheduled, tmp_path / "stripped.stmt") == lowered(build(), tmp_path / "fresh.stmt")


def test_a_stripped_pipeline_can_be_scheduled_again() -> None:
    pipeline = blur()
    schedule_blur(pipeline)
    strip_schedules(pipeline)
    schedule_blur(pipeline)
    with pytest.raises(hl.HalideError):
        pipeline.get_func(2).split(hl.Var("gone"), hl.Var("a"), hl.Var("b"), 4)


def test_estimates_survive_stripping() -> None:
    pipeline = blur()
    before = extract(pipeline)
    strip_schedules(pipeline)
    after = extract(pipeline)
    assert before.estimates_hash == after.estimates_hash
    assert before.algorithm_hash == after.algorithm_hash


def test_the_result_is_unchanged() -> None:
    pixels = np.arange(40, dtype=np.int32).reshape(5, 8)
    source = hl.Buffer(pixels, "source")
    doubled, output = hl.Func("doubled"), hl.Func("output")
    doubled[X, Y] = source[X, Y] * 2
    output[X, Y] = doubled[X, Y] + 1
    doubled.compute_at(output, Y).vectorize(X, 4, hl.TailStrategy.GuardWithIf)
    pipeline = hl.Pipeline(output)
    strip_schedules(pipeline)
    assert np.array_equal(np.asarray(pipeline.realize([8, 5])), np.asarray(pixels * 2 + 1))


def test_only_pipelines_and_funcs_can_be_stripped() -> None:
    with pytest.raises(ExtractionError, match=r"Expected an hl.Pipeline"):
        strip_schedules(3)
