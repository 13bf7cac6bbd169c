"""Schedules of Halide's autoschedulers, asked for in child processes, mended, and run."""

from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest

from metol.framing import frame_of
from metol.lower import Schedule
from metol.measure import Acceptance, BufferSizes, PipelineSource, RunOptions, verify_schedule
from metol.pipeline import PipelineDag, extract
from metol.tune import PeerSeed, peer_schedules

QUICK = ("adams2019-greedy", "mullapudi2016")


def frame_and_sizes(source: PipelineSource) -> tuple[Schedule, BufferSizes]:
    pipeline = source.build()
    dag = extract(pipeline)
    frame = frame_of(pipeline, dag, str(hl.get_host_target()), ())
    inputs = {func.name.split("$")[0]: region(dag, i) for i, func in enumerate(dag.funcs) if func.is_input}
    scalars = {p.name: p.estimate for p in dag.parameters if p.estimate is not None}
    return frame, BufferSizes(tuple(region(dag, output) for output in dag.outputs), inputs, scalars)


def region(dag: PipelineDag, func: int) -> tuple[tuple[int, int], ...]:
    return tuple((side.min, side.extent) for side in dag.funcs[func].estimate)


def accept_all(_: Schedule) -> str:
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("app", ["blur", "unsharp", "iir_blur"])
def test_mended_schedules_are_right_at_the_estimated_and_an_awkward_size(app: str) -> None:
    source = PipelineSource.parse(f"app:{app}")
    frame, sizes = frame_and_sizes(source)
    with Acceptance(source.build(), sizes, target=frame.target) as acceptance:
        seeds = list(peer_schedules(source, frame, QUICK, refuse=acceptance.refusal, threads=2, limit_seconds=120))
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
        "def unknown():\n"
        "    result = hl.Func('result')\n"
        "    result[hl.Var('x')] = 0\n"
        "    return result\n"
    )
    return PipelineSource.parse(f"{file}:brighten")


def test_schedule_that_the_judge_refuses_is_a_failure(source: PipelineSource) -> None:
    frame, _ = frame_and_sizes(source)
    seeds = peer_schedules(source, frame, ["mullapudi2016"], refuse=lambda _: "no", threads=1, limit_seconds=60)
    (seed,) = seeds
    assert (seed.origin, seed.schedule, seed.failure) == ("mullapudi2016", None, "no")
    assert seed.printed is not None


def test_peer_that_fails_is_told_with_why(source: PipelineSource) -> None:
    frame, _ = frame_and_sizes(source)
    seeds = peer_schedules(source, frame, ["mullapudi2016"], refuse=accept_all, threads=1, limit_seconds=0.001)
    assert list(seeds) == [PeerSeed("mullapudi2016", None, "timeout: over 0.001 s")]


def test_pipeline_that_cannot_be_read_fails_for_each_peer_in_order(source: PipelineSource) -> None:
    unknown = replace(source, function="unknown")
    seeds = list(peer_schedules(unknown, Schedule((), ()), refuse=accept_all, threads=1, limit_seconds=60))
    assert [seed.origin for seed in seeds] == ["mullapudi2016", "adams2019-greedy", "adams2019"]
    assert all("no estimate" in seed.failure for seed in seeds)


def test_nobody_is_asked_once_it_is_cancelled(source: PipelineSource) -> None:
    frame, _ = frame_and_sizes(source)
    seeds = peer_schedules(source, frame, refuse=accept_all, threads=1, limit_seconds=60, is_cancelled=lambda: True)
    assert list(seeds) == []
