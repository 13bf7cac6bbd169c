"""Features of two small pipelines, worked out by hand from the definitions of Adams et al. 2019, appendix A."""

import math
from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import C, X, Y, blur, finish, func_named, image, make_space, matmul

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import extract
from metol.targets.cpu import CpuMachine, cpu_parameters

VECTOR_BYTES, LINE_BYTES = 32, 64
INNER = 4  # DecisionKind::Inner


def serial_at_root(build: Callable[[], hl.Pipeline]) -> dict[tuple[str, int], dict[str, float]]:
    """Everything at root, vectors along x, nothing unrolled, one thread: the features by Func and Stage."""
    dag = extract(build())
    parameters = cpu_parameters(CpuMachine.default(threads=1), dag)
    parameters.vector_bytes, parameters.cache_line_bytes, parameters.cores = VECTOR_BYTES, LINE_BYTES, 1
    options = _core.SpaceOptions()
    options.allow_inline = options.allow_compute_at = options.allow_unroll = False
    space = _core.Space(dag, parameters, options, 1)
    state = space.root()
    for _ in range(space.decision_count):
        children, _ = space.expand(state)
        paths = [space.path(children.take([i]))[-1] for i in range(len(children))]
        # The first candidate is along x with the reduction inside, and serial.
        state = children.take([0])
        assert paths[0][0] != INNER or paths[0][6] >= 0
    (rows,) = space.featurize(state)
    names = list(space.feature_table())
    return {
        (dag.funcs[stage.func].name.split("$")[0], stage.index): dict(zip(names, map(float, row), strict=True))
        for stage, row in zip(dag.stages, rows, strict=True)
    }


BLUR_Y = {
    "num_realizations": 1,
    "num_productions": 1,
    "points_computed_total": 40 * 24,
    "points_computed_per_realization": 40 * 24,
    "points_computed_per_production": 40 * 24,
    "points_computed_minimum": 40 * 24,
    "innermost_loop_extent": 16,
    "innermost_pure_loop_extent": 16,
    "unrolled_loop_extent": 1,
    "inner_parallelism": 1,
    "outer_parallelism": 1,
    "bytes_at_realization": 40 * 24 * 2,
    "bytes_at_production": 40 * 24 * 2,
    "bytes_at_root": 40 * 24 * 2,
    "innermost_bytes_at_realization": 40 * 2,
    "innermost_bytes_at_production": 40 * 2,
    "innermost_bytes_at_root": 40 * 2,
    "inlined_calls": 0,
    "vector_size": 16,
    "native_vector_size": 16,
    "num_vectors": 3 * 24,
    "num_scalars": 0,
    "vector_loads_per_vector": 3,
    "scalar_loads_per_vector": 0,
    "scalar_loads_per_scalar": 0,
    # All of blur_x, in rows of 80 bytes: longer than a line, so counted as they are.
    "unique_bytes_read_per_realization": 26 * 80,
    "unique_lines_read_per_realization": 26,
    # Three runs of 16 lanes of 2 bytes, each at least a line.
    "unique_bytes_read_per_vector": 3 * LINE_BYTES,
    "unique_lines_read_per_vector": 3,
    "working_set_at_root": 40 * 26 * 2,
    "is_output": 1,
}
BLUR_X = {
    "points_computed_total": 40 * 26,
    "points_computed_minimum": 40 * 26,
    "bytes_at_realization": 40 * 26 * 2,
    "num_vectors": 3 * 26,
    # Three taps; beyond the paper, half a line's worth of each of the two unaligned ones straddles two lines.
    "vector_loads_per_vector": 3 + 2 * VECTOR_BYTES / LINE_BYTES,
    # The input, in rows of 42 points of 2 bytes.
    "unique_bytes_read_per_realization": 26 * 84,
    "unique_lines_read_per_realization": 26,
    "is_output": 0,
}
PRODUCT_UPDATE = {
    "points_computed_total": 40 * 24 * 24,
    "points_computed_minimum": 40 * 24 * 24,
    "bytes_at_realization": 40 * 24 * 4,
    "vector_size": 8,
    "native_vector_size": 8,
    "num_vectors": 5 * 24 * 24,
    "innermost_loop_extent": 8,
    # One broadcast of `a`, by the port that loads; one dense load of `b`, and the accumulator once in 24 terms.
    "scalar_loads_per_vector": 0,
    "vector_loads_per_vector": 2 + 1 / 24,
    "vector_stores": 5 * 24,
}


@pytest.mark.parametrize(
    ("build", "stage", "expected"),
    [
        (blur, ("blur_y", 0), BLUR_Y),
        (blur, ("blur_x", 0), BLUR_X),
        (matmul, ("product", 1), PRODUCT_UPDATE),
    ],
)
def test_features_are_those_worked_out_by_hand(
    build: Callable[[], hl.Pipeline], stage: tuple[str, int], expected: dict[str, float]
) -> None:
    features = serial_at_root(build)[stage]
    assert {name: features[name] for name in expected} == pytest.approx(expected)


def mosaic(channel: hl.Expr) -> hl.Pipeline:
    """One of four channels at each point."""
    source, output = image(40, 24, 4), hl.Func("output")
    output[X, Y] = source[X, Y, channel] * 2
    return finish(output)


def test_lanes_that_take_turns_among_channels_are_loaded_one_by_one() -> None:
    alike = serial_at_root(lambda: mosaic(Y % 4))["output", 0]
    lanes = VECTOR_BYTES // 4
    for channel in ((X + 2 * Y) % 4, hl.select(X % 2 == 0, 0, 1)):
        in_turn = serial_at_root(lambda channel=channel: mosaic(channel))["output", 0]
        assert (in_turn["vector_loads_per_vector"], in_turn["scalar_loads_per_vector"]) == (0, lanes)
    assert alike["vector_loads_per_vector"] >= 1
    assert alike["scalar_loads_per_vector"] == 0


def in_turn(source: hl.Func | hl.ImageParam) -> hl.Expr:
    taps = [source[X + i, Y, (X + 2 * Y + i) % 4] for i in range(4)]
    return taps[0] * taps[1] + taps[2] * taps[3]


def read_by_lanes() -> hl.Pipeline:
    source, output = image(400, 240, 4), hl.Func("output")
    output[X, Y] = in_turn(source)
    return finish(output, sizes=(390, 230))


def read_by_lanes_inside() -> hl.Pipeline:
    """What reads in turn goes through what is inlined."""
    source, double, output = image(400, 240, 4), hl.Func("double"), hl.Func("output")
    double[X, Y, C] = source[X, Y, C] * 2
    output[X, Y] = in_turn(double)
    return finish(output, sizes=(390, 230))


@pytest.mark.parametrize("build", [read_by_lanes, read_by_lanes_inside])
def test_tiles_that_load_lane_by_lane_are_small(build: Callable[[], hl.Pipeline]) -> None:
    """Sixteen vectors with four loads a lane are a thousand loads; with five, a random program was never compiled."""
    dag = extract(build())
    space = make_space(dag)
    leaves = space.rollout(space.root(), range(300))
    first = sum(func.is_input for func in dag.funcs)
    loads = []
    for i in range(300):
        schedules = leaves.take([i]).describe()
        nest = schedules[dag.outputs[0]].stages[0]
        is_alone = all(s.placement == _core.Placement.INLINE or s.func == dag.outputs[0] for s in schedules[first:])
        if nest.vector_width > 1 and is_alone:
            loads.append(4 * math.prod(nest.levels[-1]))
    assert len(loads) > 10
    assert max(loads) <= 512


def look_up(index: hl.Expr, *, is_output: bool = True) -> hl.Pipeline:
    """Three channels of one value of a table; what shows them after is the output, if they are not."""
    table, looked_up, shown = hl.Func("table"), hl.Func("looked_up"), hl.Func("shown")
    table[X] = X * X
    looked_up[X, Y, C] = table[index] * (C + 1)
    shown[X, Y, C] = looked_up[X, Y, C] + looked_up[X, Y, 0]
    return finish(looked_up if is_output else shown, sizes=(400, 240, 3))


def value() -> hl.Expr:
    return hl.clamp(image(400, 240)[X, Y], 0, 255)


def by_value() -> hl.Pipeline:
    """Of an output, there is a version without guards."""
    return look_up(value())


def by_value_inside() -> hl.Pipeline:
    return look_up(value(), is_output=False)


def by_place() -> hl.Pipeline:
    return look_up(hl.clamp(X, 0, 255))


@pytest.mark.parametrize("build", [by_value_inside, by_value, by_place])
def test_tiles_share_loads_only_where_lowering_unrolls_them(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    space = make_space(dag)
    looked_up = func_named(dag, "looked_up")
    names = list(space.feature_table())
    leaves = space.rollout(space.root(), range(400))
    seen = 0
    for i in range(400):
        leaf = leaves.take([i])
        schedule = leaf.describe()[looked_up]
        if schedule.placement not in {_core.Placement.ROOT, _core.Placement.AT}:
            continue
        nest = schedule.stages[0]
        if nest.vector_loop != 0 or nest.levels[-1][2] < 2:
            continue
        (rows,) = space.featurize(leaf)
        row = dict(zip(names, map(float, rows[dag.funcs[looked_up].stages[0]]), strict=True))
        unrolled = [d for d in cpu_directives(dag, leaf.describe()) if d.func == looked_up and d.call is Call.UNROLL]
        loads = row["scalar_loads_per_vector"] + row["vector_loads_per_vector"]
        seen += 1
        if build is by_value_inside:
            assert (unrolled, row["unrolled_loop_extent"]) == ([], 1)
            assert loads >= nest.vector_width  # one a lane, again for each channel
        else:
            assert len(unrolled) >= 1
            assert row["unrolled_loop_extent"] == math.prod(nest.levels[-1])
    assert seen > 10
