"""Schedules of Halide's autoschedulers, asked for in child processes, mended, and run."""

from pathlib import Path

import halide as hl
import pytest

from metol.framing import frame_of
from metol.lower import Schedule
from metol.measure import Acceptance, BufferSizes, PipelineSource, RunOptions, verify_schedule
from metol.pipeline import PipelineDag, extract
from metol.tune import peer_schedules

QUICK = ("adams2019-greedy", "mullapudi2016")


def frame_and_sizes(source: PipelineSource) -> tuple[Schedule, PipelineDag, BufferSizes]:
    pipeline = source.build()
    dag = extract(pipeline)
    frame = frame_of(pipeline, dag, str(hl.get_host_target()), ())
    inputs = {func.name.split("$")[0]: region(dag, i) for i, func in enumerate(dag.funcs) if func.is_input}
    scalars = {p.name: p.estimate for p in dag.parameters if p.estimate is not None}
    return frame, dag, BufferSizes(tuple(region(dag, output) for output in dag.outputs), inputs, scalars)


def region(dag: PipelineDag, func: int) -> tuple[tuple[int, int], ...]:
    return tuple((side.min, side.extent) for side in dag.funcs[func].estimate)


def accept_all(_: Schedule) -> str:
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("app", ["blur", pytest.param("iir_blur", marks=pytest.mark.exhaustive)])
def test_mended_schedules_are_right_at_the_estimated_and_an_awkward_size(app: str) -> None:
    source = PipelineSource.parse(f"app:{app}")
    frame, dag, sizes = frame_and_sizes(source)
    with Acceptance(source.build(), sizes, target=frame.target) as acceptance:
        seeds = list(peer_schedules(source, frame, dag, QUICK, refuse=acceptance.refusal, threads=2, limit_seconds=120))
    assert [(seed.origin, seed.failure) for seed in seeds] == [("mullapudi2016", ""), ("adams2019-greedy", "")]
    for seed in seeds:
        row = verify_schedule(source, seed.schedule, options=RunOptions(threads=2, timing=None))
        assert row.verified, f"{seed.origin}: {row.problem}"


@pytest.fixture
def source(tmp_path: Path) -> PipelineSource:
    """A file of small pipelines."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import halide as hl\n"
        "def brighten():\n"
        "    x, y = hl.Var('x'), hl.Var('y')\n"
        "    image, result = hl.ImageParam(hl.UInt(8), 2, 'image'), hl.Func('result')\n"
        "    result[x, y] = hl.u8_sat(hl.u16(image[x, y]) * 2)\n"
        "    image.set_estimates([(0, 320), (0, 200)])\n"
        "    result.set_estimates([(0, 320), (0, 200)])\n"
        "    return result\n"
    )
    return PipelineSource.parse(f"{file}:brighten")


def test_schedule_that_the_judge_refuses_is_a_failure(source: PipelineSource) -> None:
    frame, dag, _ = frame_and_sizes(source)
    seeds = peer_schedules(source, frame, dag, ["mullapudi2016"], refuse=lambda _: "no", threads=1, limit_seconds=60)
    (seed,) = seeds
    assert (seed.origin, seed.schedule, seed.failure) == ("mullapudi2016", None, "no")
    assert seed.printed is not None


def test_peer_that_fails_is_told_with_why(source: PipelineSource) -> None:
    frame, dag, _ = frame_and_sizes(source)
    seeds = peer_schedules(source, frame, dag, ["mullapudi2016"], refuse=accept_all, threads=1, limit_seconds=0.001)
    (seed,) = seeds
    assert (seed.origin, seed.schedule, seed.printed) == ("mullapudi2016", None, None)
    assert seed.failure.startswith("timeout: over ")


def test_those_for_whom_no_time_is_left_are_told(source: PipelineSource) -> None:
    frame, dag, _ = frame_and_sizes(source)
    seeds = list(peer_schedules(source, frame, dag, refuse=accept_all, threads=1, limit_seconds=1e-9))
    assert [seed.origin for seed in seeds] == ["mullapudi2016", "adams2019-greedy", "adams2019"]
    assert all("not asked" in seed.failure for seed in seeds[1:])


def test_nobody_is_asked_once_it_is_cancelled(source: PipelineSource) -> None:
    frame, dag, _ = frame_and_sizes(source)
    seeds = peer_schedules(
        source, frame, dag, refuse=accept_all, threads=1, limit_seconds=60, is_cancelled=lambda: True
    )
    assert list(seeds) == []
