import math
import os
import random
import subprocess
import sys
from functools import cache

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but

from metol import _core
from metol.lower.func_ref import pipeline_funcs
from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler, schedule_at_root
from metol.measure.case import BufferShape
from metol.measure.case_names import ESTIMATED
from metol.measure.cases import pipeline_case
from metol.measure.compiled import CompiledPipeline
from metol.pipeline import PipelineDag, extract
from metol.pipeline.random_programs import STAGE_KINDS, RandomProgram, random_program
from metol.pipeline.random_programs.builder import Builder
from metol.pipeline.random_programs.values import Values

FINGERPRINTS = """
from metol.pipeline import extract
from metol.pipeline.random_programs import random_program
for seed in range(25):
    dag = extract(random_program(seed).pipeline)
    print(f"{dag.algorithm_hash:016x} {dag.estimates_hash:016x}")
"""

# An output of fewer points may well be constant.
MANY_POINTS = 64


@cache
def program(seed: int, most_funcs: int = 30) -> RandomProgram:
    return random_program(seed, most_funcs=most_funcs)


@cache
def dag_of(seed: int) -> PipelineDag:
    return extract(program(seed).pipeline)


def func_count(dag: PipelineDag) -> int:
    return sum(not func.is_input for func in dag.funcs)


def test_a_seed_gives_the_same_program_in_every_process() -> None:
    printed = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", FINGERPRINTS]
        printed.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    here = "".join(f"{dag_of(s).algorithm_hash:016x} {dag_of(s).estimates_hash:016x}\n" for s in range(25))
    assert printed == [here, here]


def test_seeds_give_different_programs() -> None:
    assert len({dag_of(seed).algorithm_hash for seed in range(60)}) == 60


def test_all_stage_kinds_occur() -> None:
    assert {kind for seed in range(150) for kind in program(seed).kinds} == set(STAGE_KINDS)


def test_dimensions_types_and_features_vary() -> None:
    funcs = [func for seed in range(60) for func in dag_of(seed).funcs]
    stages = [stage for seed in range(60) for stage in dag_of(seed).stages]
    assert {func.dimensions for func in funcs} >= {0, 1, 2, 3, 4}
    assert {width for func in funcs for width in func.value_bytes} == {1, 2, 4, 8}
    assert any(len(func.value_bytes) > 1 for func in funcs)
    assert any(func.is_boundary_condition for func in funcs)
    assert any(stage.has_data_dependent_read for stage in stages)
    assert any(stage.has_data_dependent_write for stage in stages)
    assert any(stage.has_predicate for stage in stages)
    assert any(stage.self_accesses for stage in stages)
    assert {len(dag_of(seed).outputs) for seed in range(60)} >= {1, 2, 3}


@pytest.mark.parametrize(("least", "most"), [(2, 4), (5, 9), (20, 30)])
def test_number_of_funcs_is_as_asked(least: int, most: int) -> None:
    counts = [
        func_count(extract(random_program(seed, least_funcs=least, most_funcs=most).pipeline)) for seed in range(20)
    ]
    # A Stage may need several Funcs, and inexact outputs one more each.
    assert least <= min(counts)
    assert max(counts) <= most + 6
    assert len(set(counts)) > 2


def test_a_product_of_a_product_has_two_axes_of_different_names() -> None:
    dag = extract(random_program(100_004, most_funcs=40, size=1).pipeline)
    assert func_count(dag) >= 3


@pytest.mark.parametrize("seed", range(14))
def test_results_are_finite_vary_and_lie_in_their_range(seed: int) -> None:
    made = random_program(seed, most_funcs=12)
    schedule_at_root(made.pipeline)
    code = CompiledPipeline.compile(made.pipeline, hl.get_host_target())
    results, _ = code.run_once(pipeline_case(made.pipeline, code, ESTIMATED, seed))
    for result, values in zip(results, made.output_values, strict=True):
        assert np.isfinite(result).all()
        slack = 1e-3 * values.magnitude if values.is_float else 0
        assert values.low - slack <= result.min()
        assert result.max() <= values.high + slack
        assert str(result.dtype) == str(values.halide_type())
    assert any(len(np.unique(result)) > min(4, result.size // 8) for result in results)
    assert any(result.any() for result in results)


@pytest.mark.parametrize("seed", range(10))
def test_extracted_regions_of_inputs_are_those_that_halide_asks_for(seed: int) -> None:
    pipeline = random_program(100 + seed, most_funcs=8).pipeline
    dag = extract(pipeline)
    inputs = {base_name(func.name).removesuffix("_im"): func for func in dag.funcs if func.is_input}
    schedule_at_root(pipeline)
    code = CompiledPipeline.compile(pipeline, hl.get_host_target())
    buffers = [a for a in code.arguments if a.kind == hl.ArgumentKind.InputBuffer]
    wanted = [shape_of(a.type, inputs[base_name(a.name)].estimate) if a in buffers else 1 for a in code.arguments]
    outputs = [
        shape_of(type_, dag.funcs[number].estimate)
        for number, func in zip(dag.outputs, pipeline.outputs(), strict=True)
        for type_ in func.types()
    ]
    needed, _ = code.query_inputs(wanted, outputs)
    for argument, shape in zip(buffers, needed, strict=True):
        region = inputs[base_name(argument.name)].root_region
        assert shape.mins == tuple(side.min for side in region)
        assert shape.extents == tuple(side.extent for side in region)


def base_name(name: str) -> str:
    return name.split("$")[0]


def shape_of(type_: hl.Type, region: list[_core.Interval]) -> BufferShape:
    lows, extents = tuple(side.min for side in region), tuple(side.extent for side in region)
    return BufferShape(str(type_), lows, extents, tuple(range(len(region))))


def stored_types(pipeline: hl.Pipeline) -> set[str]:
    """The types of the Funcs that only store values."""
    funcs = [func for func in pipeline_funcs(pipeline) if func.name().startswith("stored_otherwise")]
    return {str(func.types()[0]) for func in funcs}


@pytest.mark.parametrize(
    ("values", "types"),
    [
        (Values("u8", 0, 1), {"bool", "int8", "uint32", "int64", "uint64", "float64"}),
        (Values("i16", -100, 100), {"int8", "int64", "float64"}),
        (Values("i16", -1000, 10), {"int64", "float64"}),
        (Values("u16", 0, 1000), {"uint32", "int64", "uint64", "float64"}),
        (Values("f32", 0.5, 1.0, 0), {"float64"}),
    ],
)
def test_values_are_stored_in_types_that_hold_them(values: Values, types: set[str]) -> None:
    found = set()
    for seed in range(80):
        b = Builder(random.Random(seed), 1e6)
        b.images.append(b.input([("x", 64)], values.type, values))
        assert b.attempt("stored_otherwise", STAGE_KINDS["stored_otherwise"])
        ((image,),) = b.outputs()
        assert str(image.at().expr.type()) == str(image.values.halide_type())
        if (image.values.low, image.values.high) == (values.low, values.high):
            found.add(str(image.func.types()[0]))
    assert found == types


@cache
def storing_seed(type_: str) -> int:
    """The first program with a Func of a storage type."""
    return next(seed for seed in range(1000) if type_ in stored_types(program(seed, 12).pipeline))


@pytest.mark.parametrize("type_", ["bool", "uint32", "int64", "uint64", "float64"])
def test_storage_types_occur(type_: str) -> None:
    assert storing_seed(type_) < 300


@pytest.mark.parametrize(
    "type_",
    slow_but(
        (),
        ["bool", "int8", "uint32", "int64", "uint64", "float64"],
        further=["bool", "int8", "int64", "uint64", "float64"],
    ),
)
def test_programs_that_store_otherwise_are_right_under_a_random_schedule(type_: str) -> None:
    source = PipelineSource.parse(f"random:{storing_seed(type_)}/most_funcs=12")
    assert type_ in stored_types(source.build())
    scheduler = Scheduler.parse("metol:strategy=random/refine=False/seed=1")
    (row,) = LocalRunner(RunOptions(threads=2, timeout_seconds=120, timing=None)).run(source, [scheduler])
    assert row.verified, f"{source}: {row.problem}"


def points_of(seed: int, size: int) -> int:
    """How many points a program computes."""
    dag = extract(random_program(seed, most_funcs=8, size=size).pipeline)
    funcs = [func for func in dag.funcs if not func.is_input]
    return sum(math.prod(side.extent for side in func.root_region) for func in funcs)


def test_a_larger_program_computes_more_within_its_means() -> None:
    points = {size: [points_of(seed, size) for seed in range(20)] for size in (1, 4, 16)}
    assert sum(points[4]) > 2 * sum(points[1])
    assert sum(points[16]) > 2 * sum(points[4])
    for size, each in points.items():
        assert max(each) <= size * 3e7


def test_a_source_tells_how_large_its_program_is() -> None:
    source = PipelineSource.parse("random:3/least_funcs=3/most_funcs=8/size=4")
    assert str(source) == "random:3/least_funcs=3/most_funcs=8/size=4"
    expected = extract(random_program(3, least_funcs=3, most_funcs=8, size=4).pipeline)
    found = extract(source.build())
    assert (found.algorithm_hash, found.estimates_hash) == (expected.algorithm_hash, expected.estimates_hash)
    plain = extract(PipelineSource.parse("random:3/most_funcs=8").build())
    single = extract(PipelineSource.parse("random:3/most_funcs=8/size=1").build())
    assert (plain.algorithm_hash, plain.estimates_hash) == (single.algorithm_hash, single.estimates_hash)
    assert plain.estimates_hash != found.estimates_hash
