"""Which Funcs may be inlined, held against what Halide asks of inputs."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import halide as hl
import pytest
from sample_algorithms import C, X, image

from metol.pipeline import PipelineDag, Staging, extract

PLANES = 3

Reads = Callable[[hl.Func], hl.Func]


def of_reader(reader: Reads) -> tuple[hl.Pipeline, hl.ImageParam, hl.Func]:
    """Three planes of `output`, from four of what reads the three of an image by way of the Func `plane`."""
    source, plane, output = image("source", (20, PLANES), hl.Int(32)), hl.Func("plane"), hl.Func("output")
    plane[X, C] = source[X, C] + 1
    read = reader(plane)
    output[X, C] = read[X, C] + read[X, PLANES]
    output.set_estimates([(0, 20), (0, PLANES)])
    read.compute_root()
    return hl.Pipeline(output), source, plane


def asked_for(pipeline: hl.Pipeline, source: hl.ImageParam) -> list[tuple[int, int]]:
    """The region of an input that Halide asks for."""
    pipeline.infer_input_bounds([20, PLANES])
    sides = [source.get().dim(d) for d in range(2)]
    return [(side.min(), side.extent()) for side in sides]


def is_inlinable(dag: PipelineDag) -> dict[str, bool]:
    return {func.name.split("$")[0]: func.is_inlinable for func in dag.funcs}


def defined(value: hl.Expr, name: str = "reader") -> hl.Func:
    func = hl.Func(name)
    func[X, C] = value
    return func


def summed(value: hl.Expr) -> hl.Func:
    func = defined(hl.i32(0))
    func[X, C] += value
    return func


def _through_another(plane: hl.Func) -> hl.Func:
    middle = defined(plane[X, C] + plane[X + 1, C], "middle")
    return defined(hl.select(C < PLANES, middle[X, C], 0))


def _where(plane: hl.Func) -> hl.Func:
    r = hl.RDom([(0, 4)], "r")
    r.where(C < PLANES)
    return summed(plane[X + r.x, C])


READERS: dict[str, tuple[Reads, bool]] = {
    "select": (lambda plane: defined(hl.select(C < PLANES, plane[X, C], 0)), False),
    "other_branch": (lambda plane: defined(hl.select(C >= PLANES, 0, plane[X, C])), False),
    "inside": (lambda plane: defined(2 * hl.select(C < PLANES, 1 + plane[X, C], 0) + X), False),
    "update": (lambda plane: summed(hl.select(C < PLANES, plane[X, C], 0)), False),
    "through_another": (_through_another, False),
    "clamp": (lambda plane: defined(hl.select(C < PLANES, plane[X, hl.min(C, PLANES - 1)], 0)), True),
    "where": (_where, True),
    "first_dimension": (lambda plane: defined(hl.select(X > 3, plane[X, hl.clamp(C, 0, PLANES - 1)], 0)), False),
    "no_condition": (lambda plane: defined(plane[X, C]), True),
    "no_interval": (lambda plane: defined(hl.select(C != 1, plane[X, C], 0)), True),
}


@pytest.mark.parametrize("name", list(READERS))
def test_what_only_a_condition_keeps_from_an_input_is_not_inlined(name: str) -> None:
    reader, may_be = READERS[name]
    pipeline, source, plane = of_reader(reader)
    marks = is_inlinable(extract(pipeline))
    assert marks["plane"] == may_be
    assert not marks["source_im"]
    assert not marks["output"]
    inlined = asked_for(pipeline, source)
    pipeline, source, plane = of_reader(reader)
    plane.compute_root()
    assert (inlined == asked_for(pipeline, source)) == may_be


@pytest.mark.parametrize("name", ["select", "through_another", "clamp", "no_condition"])
def test_what_has_the_condition_is_not_inlined_either(name: str) -> None:
    reader, may_be = READERS[name]
    marks = is_inlinable(extract(of_reader(reader)[0]))
    assert marks["reader"] == may_be


@pytest.mark.parametrize("is_inlined", [False, True])
def test_condition_on_an_input_itself_is_not_looked_at(is_inlined: bool) -> None:
    source = image("source", (20, PLANES), hl.Int(32))
    guarded = defined(hl.select(C < PLANES, source[X, C], 0), "guarded")
    reader = defined(hl.select(C < PLANES, guarded[X, C], 0))
    output = defined(reader[X, C] + reader[X, PLANES], "output")
    output.set_estimates([(0, 20), (0, PLANES)])
    pipeline = hl.Pipeline(output)
    marks = is_inlinable(extract(pipeline))
    assert not marks["guarded"]
    assert not marks["reader"]
    guarded.compute_root()
    if not is_inlined:
        reader.compute_root()
    assert asked_for(pipeline, source) == [(0, 20), (0, PLANES + is_inlined)]


def test_what_something_else_reads_without_a_condition_may_be_inlined() -> None:
    source, plane = image("source", (20, PLANES + 1), hl.Int(32)), hl.Func("plane")
    plane[X, C] = source[X, C] + 1
    guarded = defined(hl.select(C < PLANES, plane[X, C], 0), "guarded")
    output = defined(guarded[X, C] + plane[X, C], "output")
    output.set_estimates([(0, 20), (0, PLANES + 1)])
    assert is_inlinable(extract(hl.Pipeline(output)))["plane"]


def test_a_condition_that_the_estimates_always_meet_is_no_reason() -> None:
    source, plane = image("source", (20, PLANES), hl.Int(32)), hl.Func("plane")
    plane[X, C] = source[X, C] + 1
    output = defined(hl.select(C < PLANES, plane[X, C], 0), "output")
    output.set_estimates([(0, 20), (0, PLANES)])
    assert is_inlinable(extract(hl.Pipeline(output)))["plane"]


def test_the_reader_of_a_copy_is_computed_and_not_the_copy() -> None:
    pipeline, _, _ = of_reader(READERS["select"][0])
    dag = extract(pipeline)
    ids = {func.name.split("$")[0]: position for position, func in enumerate(dag.funcs)}
    copied = extract(pipeline, stagings=[Staging(ids["source_im"], ids["plane"])])
    wrapper = next(func for func in copied.funcs if func.is_wrapper)
    assert wrapper.is_inlinable
    assert not is_inlinable(copied)["plane"]


def test_updates_outputs_and_inputs_are_not_inlined() -> None:
    pipeline, _, _ = of_reader(lambda plane: summed(plane[X, C]))
    assert [name for name, may_be in is_inlinable(extract(pipeline)).items() if may_be] == ["plane"]


def read_by_one_value(*, reads_both: bool, calls: str) -> hl.Pipeline:
    """A Tuple whose first value calls `shared`, and whose second an image, or what reads the image or `shared`."""
    source = hl.ImageParam(hl.Int(32), 1, "source")
    source.set_estimates([(0, 20)])
    shared, idle, both, output = (hl.Func(name) for name in ("shared", "idle", "both", "output"))
    shared[X] = source[X] * 3
    idle[X] = (shared if calls == "reader of shared" else source)[X] + 1
    both[X] = (shared[X] + 1, (source if calls == "image" else idle)[X])
    output[X] = both[X][0] + (both[X][1] if reads_both else 0)
    output.set_estimates([(0, 20)])
    shared.compute_root()
    idle.compute_root()
    return hl.Pipeline(output)


@pytest.mark.parametrize("reads_both", [False, True])
@pytest.mark.parametrize("calls", ["image", "reader of image", "reader of shared"])
def test_a_tuple_is_not_inlined_where_that_leaves_an_unread_reader(reads_both: bool, calls: str) -> None:
    may_be = reads_both or calls != "reader of shared"
    assert is_inlinable(extract(read_by_one_value(reads_both=reads_both, calls=calls)))["both"] == may_be
    # What Halide does, in a process of its own.
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import halide as hl, test_inlinable as own\n"
        f"pipeline = own.read_by_one_value(reads_both={reads_both}, calls={calls!r})\n"
        "pipeline.compile_to_module(pipeline.infer_arguments(), 'both', hl.get_host_target())"
    )
    folders = map(str, (Path(__file__).parent, *map(Path, sys.path)))
    done = subprocess.run([sys.executable, "-c", code, *folders], capture_output=True, check=False)
    assert done.returncode == (0 if may_be else -signal.SIGSEGV), done.stderr
