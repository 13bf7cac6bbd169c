"""Inputs that the pipeline says something of: where they begin, how large they are estimated to be."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, Y, finish, image, make_gate, schedule_with

import metol
from metol import SearchOptions
from metol.lower import Call, Directive, Tail, Var

Build = Callable[[], hl.Pipeline]
QUICK = SearchOptions(strategy="greedy")
SIZE = (64, 48)


def beginning_at(min_constraint: int, first: int) -> hl.Pipeline:
    """An input that begins at `min_constraint`, and is read from `first` on."""
    source = image(80, 60)
    source.dim(0).set_min(min_constraint)
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y] = source[X + first, Y] * 3
    output[X, Y] = sums[X, Y] + sums[X + 1, Y + 1]
    return finish(output, sizes=SIZE)


def begins_at_zero() -> hl.Pipeline:
    return beginning_at(0, 1)


def begins_before_zero() -> hl.Pipeline:
    return beginning_at(-2, 0)


def begins_where_it_is_read() -> hl.Pipeline:
    return beginning_at(0, 0)


BUILDS = (begins_at_zero, begins_before_zero, begins_where_it_is_read)


@pytest.mark.parametrize("build", BUILDS)
def test_inputs_may_begin_before_what_is_read(build: Build) -> None:
    result = metol.autoschedule(build(), options=QUICK, threads=2, verify=True)
    assert (result.origin, result.fallbacks) == ("search", ())
    assert result.is_compared


@pytest.mark.parametrize("build", BUILDS)
def test_what_is_read_beyond_the_end_is_refused(build: Build) -> None:
    """Halide moves where an input begins, and asks for as many elements as before: its end has to be known, too."""
    gate, sums, loop = make_gate(build), 1, Var("x")
    at_root = Directive(sums, 0, Call.COMPUTE_ROOT, ())
    blocks = (loop, Var("x_o"), Var("x_i"), 16)
    assert gate.refusal(schedule_with(build, (at_root,))) == ""
    guarded = Directive(sums, 0, Call.SPLIT, (*blocks, Tail.GUARD_WITH_IF))
    assert gate.refusal(schedule_with(build, (at_root, guarded))) == ""
    rounded = Directive(sums, 0, Call.SPLIT, (*blocks, Tail.ROUND_UP))
    assert "in dimension 0 of `source`" in gate.refusal(schedule_with(build, (at_root, rounded)))


def test_code_without_bounds_queries_is_verified() -> None:
    result = metol.autoschedule(
        begins_where_it_is_read(), options=QUICK, threads=2, target="host-no_bounds_query", verify=True
    )
    assert result.is_compared


def skewed() -> hl.Pipeline:
    """Inline it reads its input straight; the box of `turned` at root, and what it reads, is much larger."""
    source = image(140, 48)
    turned, output = hl.Func("turned"), hl.Func("output")
    turned[X, Y] = source[X + Y, Y] * 2
    output[X, Y] = turned[X - Y, Y] + turned[X - Y + 1, Y]
    return finish(output, sizes=SIZE)


def test_no_schedule_needs_more_than_an_input_is_estimated_to_have_where_inlining_does_not() -> None:
    at_root = (Directive(1, 0, Call.COMPUTE_ROOT, ()),)
    assert "estimated from 0 to 139; inline" in make_gate(skewed).refusal(schedule_with(skewed, at_root))
    pipeline = skewed()
    metol.autoschedule(pipeline, options=QUICK, threads=2)
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    source, output = hl.Buffer(hl.Int(32), [140, 48]), hl.Buffer(hl.Int(32), list(SIZE))
    source.fill(1)
    code(source, output)
    assert (np.asarray(output) == 4).all()
