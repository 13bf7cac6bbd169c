"""Several outputs: of several sizes, of Tuples, and read by each other."""

import halide as hl
import numpy as np
from small_pipelines import make_space, schedule_of
from verified_runs import Inputs, check, compare, image, integers

from metol.pipeline import extract

X, Y = hl.Var("x"), hl.Var("y")


def sizes() -> hl.Pipeline:
    """Half the size, the whole, and a single row, of one Func."""
    source = image(hl.Int(32), "source", 82, 62)
    shared, half, whole, row = (hl.Func(name) for name in ("shared", "half", "whole", "row"))
    shared[X, Y] = source[X, Y] + source[X + 1, Y + 1] * 2
    half[X, Y] = shared[2 * X, 2 * Y] + shared[2 * X + 1, 2 * Y]
    whole[X, Y] = shared[X, Y] - shared[X, Y + 1]
    row[X] = shared[X, 7]
    half.set_estimates([(0, 40), (0, 30)])
    whole.set_estimates([(0, 80), (0, 60)])
    row.set_estimates([(0, 80)])
    return hl.Pipeline([half, whole, row])


def test_outputs_of_different_sizes() -> None:
    check(sizes, [(40, 30), (80, 60), (80,)], [(1, 1), (1, 1), (1,)], [(3, 5), (37, 13), (50,)])


def tuples() -> hl.Pipeline:
    """A Tuple inside with an update of one part, and a Tuple of other types as output."""
    source = image(hl.Int(32), "source", 82, 60)
    r = hl.RDom([(0, 5)], "r")
    pair, output = hl.Func("pair"), hl.Func("output")
    pair[X, Y] = hl.Tuple((hl.i32(0), hl.i16(-1)))
    better = source[X + r.x, Y] > pair[X, Y][0]
    pair[X, Y] = hl.Tuple((hl.max(source[X + r.x, Y], pair[X, Y][0]), hl.select(better, hl.i16(r.x), pair[X, Y][1])))
    output[X, Y] = hl.Tuple((pair[X, Y][0] - pair[X + 1, Y][0], hl.u8(pair[X, Y][1])))
    output.set_estimates([(0, 70), (0, 60)])
    return hl.Pipeline(output)


def test_tuples() -> None:
    check(tuples, [(70, 60)] * 2, [(1, 1)] * 2, [(37, 5)] * 2, inputs=Inputs(fills={"source": integers(1, 99)}))


def consumed() -> hl.Pipeline:
    """An output that a stencil reads, which is an output, too; it has to be large enough for both."""
    source = image(hl.Int(32), "source", 80, 60)
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] * 3 + X
    second[X, Y] = first[X, Y] + first[X + 2, Y + 1]
    first.set_estimates([(0, 80), (0, 60)])
    second.set_estimates([(0, 78), (0, 59)])
    return hl.Pipeline([first, second])


def test_output_that_is_consumed() -> None:
    check(consumed, [(80, 60), (78, 59)], [(3, 2), (1, 1)], [(39, 14), (37, 13)])


def test_loops_of_a_consumed_output_are_guarded_however_they_are_split() -> None:
    # Halide 21 loses the guard where the outer part is split off first: rows beyond the output are written then.
    dag = extract(consumed())
    space = make_space(dag)
    for seed in (0, 3):
        state = space.rollout(space.root(), [seed])
        schedule = schedule_of(consumed, dag, state)
        compare(consumed, schedule, [[(3, 2), (1, 1)], [(39, 14), (37, 13)]])


def reduced() -> hl.Pipeline:
    """An output with an update, and its mean."""
    source = image(hl.Int(32), "source", 300)
    k, r = hl.RDom([(0, 3)], "k"), hl.RDom([(0, 200)], "r")
    smooth, total = hl.Func("smooth"), hl.Func("total")
    smooth[X] = 0
    smooth[X] += source[X + k.x] * (k.x + 1)
    total[()] = 0
    total[()] += smooth[r.x]
    smooth.set_estimate(X, 0, 200)
    return hl.Pipeline([smooth, total])


def test_output_with_an_update_that_is_consumed() -> None:
    check(reduced, [(200,), ()], [(211,), ()])


def constrained() -> hl.Pipeline:
    """Outputs whose place in memory is fixed, one of which the other reads."""
    source = image(hl.Int(32), "source", 100)
    first, second = hl.Func("first"), hl.Func("second")
    first[X] = source[X] * 3
    second[X] = first[X] + 1
    for func in (first, second):
        func.output_buffer().dim(0).set_min(0)
        func.set_estimate(X, 0, 100)
    return hl.Pipeline([first, second])


def test_outputs_in_fixed_places_need_not_be_aligned() -> None:
    # Halide takes memory that it can tell the place in for aligned when it reads it back.
    result = check(constrained, [(100,)] * 2, [(64,)] * 2)
    pipeline = constrained()
    result.schedule.apply(pipeline)
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    memory = np.zeros(3 * 256, np.int32)
    start = -memory.ctypes.data % 64 // 4 + 1
    arrays = [memory[start + 256 * i : start + 256 * i + 96] for i in range(3)]
    arrays[0][:] = np.arange(96)
    code(*(hl.Buffer(array) for array in arrays))
    np.testing.assert_array_equal(arrays[2], 3 * np.arange(96) + 1)
