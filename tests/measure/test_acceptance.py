"""Judging schedules of a live pipeline, in a child and without one."""

import os
import signal
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import X, Y, chain

import metol.measure.acceptance
from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs, root_directives
from metol.measure import Acceptance, BufferSizes
from metol.measure.process import Child
from metol.pipeline import extract, placements

TARGET = str(hl.get_host_target())
SIZES = BufferSizes((((0, 40), (0, 24)),), {}, {})


def schedules(pipeline: hl.Pipeline) -> tuple[Schedule, Schedule]:
    """One that is right, and one that needs a whole vector of its output."""
    funcs, at_root = describe_funcs(pipeline), root_directives(extract(pipeline))
    (last,) = (func.index for func in funcs if func.output == 0)
    split = Directive(last, 0, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), 16, Tail.ROUND_UP))
    return Schedule(funcs, at_root), Schedule(funcs, (*at_root, split))


def kill(child: Child, _request: object) -> None:
    os.kill(child._process.pid, signal.SIGKILL)


def check_both(acceptance: Acceptance, pipeline: hl.Pipeline) -> None:
    right, wrong = schedules(pipeline)
    assert acceptance.refusal(right) == ""
    assert "it needs" in acceptance.refusal(wrong)
    assert acceptance.refusal(right) == ""


def test_pipeline_keeps_the_schedule_that_it_carries() -> None:
    pipeline = chain()
    pipeline.get_func(1).compute_root().parallel(Y)
    pipeline.get_func(2).compute_at(pipeline.outputs()[0], X)
    before = placements(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        assert acceptance.is_protected
        check_both(acceptance, pipeline)
        assert acceptance.is_protected
    assert placements(pipeline) == before


def test_pipeline_that_cannot_be_written_is_judged_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("cannot serialize")

    monkeypatch.setattr(metol.measure.acceptance, "save_pipeline", refuse)
    pipeline = chain()
    pipeline.get_func(1).compute_root().parallel(Y)
    before = placements(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        assert not acceptance.is_protected
        check_both(acceptance, pipeline)
    assert placements(pipeline) == before


def test_child_that_cannot_read_the_pipeline_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metol.measure.acceptance, "save_pipeline", lambda _, path: Path(path).write_bytes(b"nonsense"))
    pipeline = chain()
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        check_both(acceptance, pipeline)
        assert not acceptance.is_protected


def test_what_was_foreseen_is_judged_like_anything_else() -> None:
    pipeline = chain()
    right, wrong = schedules(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        for foreseen in (right, wrong, right):  # before the child is there
            acceptance.foresee(foreseen)
        check_both(acceptance, pipeline)
        acceptance.foresee(wrong)
        assert "it needs" in acceptance.refusal(wrong)
        acceptance.foresee(wrong)
        assert acceptance.refusal(right) == ""
        assert acceptance.is_protected


def test_more_is_foreseen_than_a_child_has_room_for() -> None:
    pipeline = chain()
    right, wrong = schedules(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        for _ in range(200):
            acceptance.foresee(wrong)
            acceptance.foresee(right)
        assert acceptance.refusal(right) == ""


def test_what_is_foreseen_of_a_pipeline_that_cannot_be_written_is_judged_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("cannot serialize")

    monkeypatch.setattr(metol.measure.acceptance, "save_pipeline", refuse)
    pipeline = chain()
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        acceptance.foresee(schedules(pipeline)[1])
        check_both(acceptance, pipeline)


def test_child_that_dies_while_it_foresees_refuses_what_it_was_asked() -> None:
    pipeline = chain()
    right, wrong = schedules(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        assert acceptance.refusal(right) == ""
        assert acceptance._child is not None
        acceptance.foresee(wrong)
        kill(acceptance._child, None)
        acceptance.foresee(right)
        assert "killed by SIGKILL" in acceptance.refusal(right)
        assert acceptance.refusal(right) == ""  # of another child


def test_schedule_that_takes_too_long_is_refused() -> None:
    pipeline = chain()
    with Acceptance(pipeline, SIZES, target=TARGET, limit_seconds=0) as acceptance:
        assert "does not lower it within 0 s" in acceptance.refusal(schedules(pipeline)[0])
        assert acceptance.is_protected


def test_schedule_that_kills_the_child_is_refused_and_the_next_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = chain()
    right, _ = schedules(pipeline)
    with Acceptance(pipeline, SIZES, target=TARGET) as acceptance:
        assert acceptance.refusal(right) == ""
        with monkeypatch.context() as patch:
            patch.setattr(Child, "send", kill)
            assert "Halide fails to lower it: killed by SIGKILL" in acceptance.refusal(right)
        assert acceptance.refusal(right) == ""
        assert acceptance.is_protected
