"""The pipelines of examples/fields: each has a schedule by hand, for vectors of any width, which changes no result."""

from pathlib import Path

import halide as hl
import pytest
from slow_cases import slow_but

from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler

FOLDER = Path(__file__).parents[1] / "examples" / "fields"
SOURCES = {
    f"{file.stem}:{source.function}": source
    for file in sorted(FOLDER.glob("*.py"))
    for source in PipelineSource.parse_all(str(file))
}
# Of each field one that is quick to compile and run.
QUICK = ("camera:deinterlace", "networks:softmax_rows", "physics:red_black", "signals:argmax_rows")
TARGETS = {8: "x86-64-linux-avx-avx2-f16c-fma-sse41", 16: "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"}


def test_there_are_many() -> None:
    assert len(SOURCES) > 40


@pytest.mark.parametrize("lanes", TARGETS)
@pytest.mark.parametrize("name", slow_but(QUICK, SOURCES))
def test_a_schedule_by_hand_lowers(name: str, lanes: int) -> None:
    pipeline = SOURCES[name].build()
    SOURCES[name].schedule_by_hand(pipeline, lanes)
    pipeline.compile_to_module(pipeline.infer_arguments(), "by_hand", hl.Target(TARGETS[lanes]))


@pytest.mark.parametrize("name", slow_but((), SOURCES))
def test_a_schedule_by_hand_is_right(name: str) -> None:
    (row,) = LocalRunner(RunOptions(timing=None)).run(SOURCES[name], [Scheduler("hand").of_pipeline(SOURCES[name])])
    assert row.is_ok, row.problem
