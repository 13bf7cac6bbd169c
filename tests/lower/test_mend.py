"""Schedules of Halide's autoschedulers with tails of ours: the same loops, and right at every size."""

from dataclasses import replace

import halide as hl
import pytest
from lower_cases import without_renames
from peer_texts import printed_for_app, printed_now, read_text
from slow_cases import half_of, slow_but
from small_pipelines import HEIGHT, PIPELINES, WIDTH, ExactRuns, X, Y, finish, image, make_gate, sizes_of

from metol.errors import ScheduleFormatError
from metol.framing import frame_of
from metol.lower import Call, Directive, LoweringOptions, Schedule, Tail, Var, mend_schedule
from metol.lower.mend import mended_versions
from metol.measure import Acceptance
from metol.pipeline import extract

X_LOOP, Y_LOOP = Var("x"), Var("y")
PEERS = ("mullapudi2016", "adams2019-greedy")
MENDED = ("chain", "pyramid", "matmul_output", "sums_output", "in_place", "look_up", "half_boundary", "scan")


def refuse_all(_: Schedule) -> str:
    return "no"


def accept_all(_: Schedule) -> str:
    return ""


def mended_small(name: str, peer: str) -> tuple[Schedule, Schedule]:
    """What a peer prints for a small pipeline, and what the gate accepts of it."""
    text, _ = printed_now(peer, PIPELINES[name])
    dag, printed = read_text(text, PIPELINES[name]())
    mended, refusal = mend_schedule(printed, dag, make_gate(PIPELINES[name]).refusal)
    assert mended is not None, refusal
    return printed, mended


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", ["chain", "matmul", "boundary", "in_place"])
def test_what_the_gate_refuses_as_printed_is_accepted_once_mended(name: str, peer: str) -> None:
    printed, _ = mended_small(name, peer)
    assert "it needs" in make_gate(PIPELINES[name]).refusal(printed)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", slow_but((), MENDED, further=half_of(MENDED, ())))
def test_mended_schedule_is_right_at_every_size(name: str, peer: str) -> None:
    _, mended = mended_small(name, peer)
    ExactRuns(name).check(mended)


def calls_of(schedule: Schedule, *calls: Call) -> list[tuple]:
    """The calls of some kinds on versions that are not specialized, without tails."""
    return [
        (d.func, d.stage, d.call, *(arg for arg in d.args if not isinstance(arg, Tail)))
        for d in schedule.directives
        if d.call in calls and not d.branch
    ]


@pytest.mark.parametrize("name", ["blur.adams2019-greedy", "hist.adams2019-greedy", "iir_blur.mullapudi2016"])
def test_loops_places_and_orders_stay(name: str) -> None:
    _, dag, printed = printed_for_app(name)
    mended, _ = mend_schedule(printed, dag, accept_all)
    plain = replace(mended, directives=tuple(without_renames(mended.directives)))
    for call in (Call.SPLIT, Call.FUSE, Call.REORDER, Call.PARALLEL, Call.COMPUTE_AT, Call.STORE_AT, Call.STORE_IN):
        assert calls_of(plain, call) == calls_of(printed, call)


def test_output_gets_a_version_for_sizes_of_at_least_a_tile() -> None:
    _, dag, printed = printed_for_app("blur.adams2019-greedy")
    mended, _ = mend_schedule(printed, dag, accept_all)
    (output,) = dag.outputs
    own = [d for d in mended.directives if d.func == output]
    condition = Directive(output, 0, Call.SPECIALIZE, (1, 1279, 0, 512))
    assert condition in own
    splits = [d for d in own if d.call is Call.SPLIT]
    assert {d.args[-1] for d in splits if d.branch} == {Tail.SHIFT_INWARDS, Tail.ROUND_UP}
    assert [d.args[-1] for d in splits if not d.branch][:2] == [Tail.GUARD_WITH_IF] * 2


def test_output_that_may_be_an_input_is_guarded_at_every_size() -> None:
    _, dag, printed = printed_for_app("blur.adams2019-greedy")
    mended, _ = mend_schedule(printed, dag, accept_all, LoweringOptions(may_alias=True))
    assert not any(d.call.makes_branch for d in mended.directives)


def test_part_that_a_factor_does_not_divide_is_shifted_within() -> None:
    _, dag, printed = printed_for_app("blur.adams2019-greedy")  # rows are split by 1279, these by 8
    mended, _ = mend_schedule(printed, dag, accept_all)
    inner = [d for d in mended.directives if d.call is Call.SPLIT and d.args[0] == Var("yi")]
    assert {d.args[-1] for d in inner} == {Tail.SHIFT_INWARDS}


def test_updates_of_outputs_of_one_dimension_have_no_vectors() -> None:
    # Halide 21 loads them under a predicate as if the user's buffer were aligned to a vector.
    _, mended = mended_small("sums_output", "mullapudi2016")
    assert {d.stage for d in mended.directives if d.call is Call.VECTORIZE} == {0}


@pytest.mark.slow
def test_less_slides_where_halide_would_read_beyond_an_input() -> None:
    pipeline, dag, printed = printed_for_app("harris.adams2019")
    first = next(mended_versions(printed, dag))
    with Acceptance(pipeline, sizes_of(lambda: pipeline), target=printed.target) as acceptance:
        assert "of `input`" in acceptance.refusal(first)
        mended, refusal = mend_schedule(printed, dag, acceptance.refusal)
    assert mended is not None, refusal
    stores = calls_of(mended, Call.STORE_AT)
    assert stores
    assert set(stores) < set(calls_of(printed, Call.STORE_AT))
    assert any(d.call.makes_branch for d in mended.directives)


def clamped_to_the_estimate() -> hl.Pipeline:
    """Reads all of its input, as it is estimated, and no more; of smaller outputs, less."""
    source = image(WIDTH, HEIGHT)
    clamped, output = hl.Func("clamped"), hl.Func("output")
    clamped[X, Y] = source[hl.clamp(X, 0, WIDTH - 1), Y] * 2
    output[X, Y] = clamped[X, Y] + 1
    return finish(output)


def test_what_reads_no_more_than_the_estimate_is_guarded_where_others_need_less() -> None:
    text = (
        "Func output = pipeline.get_func(2); Func clamped = pipeline.get_func(1); Var x = clamped.args()[0];"
        'Var xi("xi"); output.compute_root(); clamped.compute_root().split(x, x, xi, 16).vectorize(xi);'
    )
    dag, printed = read_text(text, clamped_to_the_estimate())
    gate = make_gate(clamped_to_the_estimate)
    mended = next(mended_versions(printed, dag))
    assert gate.refusal(mended) == ""
    assert [d.args[-1] for d in mended.directives if d.call is Call.SPLIT] == [Tail.PREDICATE_LOADS]


def test_versions_differ_and_the_last_slides_nowhere_and_is_guarded_everywhere() -> None:
    _, dag, printed = printed_for_app("hist.adams2019-greedy")
    versions = list(mended_versions(printed, dag))
    assert len({version.directives for version in versions}) == len(versions) > 2
    last = {d.call for d in versions[-1].directives}
    assert not last & {Call.STORE_AT, Call.SPECIALIZE}
    splits = [d for d in without_renames(versions[-1].directives) if d.call is Call.SPLIT]
    assert {d.args[-1] for d in splits if d.args[0] in (X_LOOP, Y_LOOP)} == {Tail.GUARD_WITH_IF}


def test_refusal_is_that_of_the_fastest_version() -> None:
    _, dag, printed = printed_for_app("hist.adams2019-greedy")
    reasons = iter(["the first", *["another"] * 10])
    assert mend_schedule(printed, dag, lambda _: next(reasons)) == (None, "the first")


def read_output() -> hl.Pipeline:
    """Two outputs, one of which the other reads."""
    source = image(41, 24)
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] + source[X + 1, Y]
    second[X, Y] = first[X, Y] * 2
    return finish(first, second)


def test_output_that_is_read_is_not_split_twice() -> None:
    pipeline = read_output()
    dag = extract(pipeline)
    split = Directive(1, 0, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), 16, Tail.ROUND_UP))
    again = replace(split, args=(Var("xi"), Var("xio"), Var("xii"), 4, Tail.ROUND_UP))
    frame = frame_of(pipeline, dag, "", ())
    once, _ = mend_schedule(replace(frame, directives=(split,)), dag, accept_all)
    assert [d.args[-1] for d in without_renames(once.directives)] == [Tail.GUARD_WITH_IF]
    with pytest.raises(ScheduleFormatError, match="`first` is read by another Func, and its loop xi is split twice"):
        mend_schedule(replace(frame, directives=(split, again)), dag, refuse_all)
