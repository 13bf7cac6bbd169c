"""What autoschedulers of Halide printed, or print now, for the tests that read and mend it."""

from collections.abc import Callable
from pathlib import Path

import halide as hl

from metol.framing import frame_of
from metol.lower import Schedule, read_cpp
from metol.measure import PipelineSource, Scheduler
from metol.pipeline import PipelineDag, extract, strip_schedules

PRINTED = Path(__file__).parent / "fixtures" / "peers"
"""NAME.PEER.txt: what a peer printed for an application, with two threads on an AVX-512 machine."""


def printed_for_app(name: str) -> tuple[hl.Pipeline, PipelineDag, Schedule]:
    """The application, its DAG, and the schedule of a file in PRINTED."""
    pipeline = PipelineSource.parse(f"app:{name.split('.')[0]}").build()
    return (pipeline, *read_text((PRINTED / f"{name}.txt").read_text(), pipeline))


def printed_now(peer: str, build: Callable[[], hl.Pipeline]) -> tuple[str, hl.Pipeline]:
    """What a peer prints, and the pipeline that it has scheduled."""
    pipeline = build()
    strip_schedules(pipeline)
    return Scheduler.parse(peer).peer_schedule(pipeline, hl.get_host_target(), 2), pipeline


def read_text(text: str, pipeline: hl.Pipeline) -> tuple[PipelineDag, Schedule]:
    dag = extract(pipeline)
    return dag, read_cpp(text, frame_of(pipeline, dag, str(hl.get_host_target()), ()), dag)
