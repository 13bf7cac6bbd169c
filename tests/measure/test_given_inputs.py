"""What a user gives for inputs: read in this process, checked and used in children that run the pipeline."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import halide as hl
import numpy as np
import pytest
from small_pipelines import HEIGHT, WIDTH, channels, histogram

from metol.errors import GivenInputError
from metol.measure import GivenInputs, LocalRunner, PipelineSource, RunOptions, Scheduler, Status
from metol.measure import messages as m
from metol.measure.at_root import schedule_at_root
from metol.measure.case import Case
from metol.measure.case_names import AWKWARD, ESTIMATED
from metol.measure.cases import pipeline_case
from metol.measure.compiled import CompiledPipeline
from metol.measure.process import Child

Planted = Callable[[str], PipelineSource]
# What `planted.blur` needs: one column to the left of its output, two to its right, and one row above and below.
BLUR_MINS, BLUR_SHAPE = (-1, -1), (202, 323)


def compiled(pipeline: hl.Pipeline) -> CompiledPipeline:
    schedule_at_root(pipeline)
    return CompiledPipeline.compile(pipeline, hl.get_host_target())


def blur_source(shape: tuple[int, ...] = BLUR_SHAPE) -> Any:
    """Pixels for `planted.blur`, from where it starts to read."""
    pixels = np.arange(np.prod(shape), dtype=np.uint32).reshape(shape) % 251
    buffer = hl.Buffer(pixels.astype(np.uint8))
    buffer.set_min(list(BLUR_MINS))
    return buffer


def made_cases(source: PipelineSource, given: GivenInputs, folder: Path) -> tuple[Case, Case]:
    """Let a child that holds the reference make both cases."""
    given.save(folder / "given")
    with Child(threads=1) as child:
        for request in (m.Build(str(source), "host"), m.ApplyScheduler("reference", 1), m.Compile()):
            assert isinstance(child.ask(request, 60), m.Done)
        made = child.ask(m.MakeCases(str(folder), 0, str(folder / "given")), 60)
    estimated, awkward = (Case.load(Path(case)) for case in made.cases)
    return estimated, awkward


def by_name(case: Case, name: str) -> Any:
    return next(item for item in case.inputs if item.name == name)


def test_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(GivenInputError, match=r"no input `sauce`; it has: source \(3 dimensions, uint8\)"):
        GivenInputs.read({"sauce": 3}, channels().infer_arguments())


def test_parse_reads_files_and_numbers(planted: Planted, tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", np.ones(BLUR_SHAPE, np.uint8))
    arguments = planted("blur").build().infer_arguments()
    given = GivenInputs.parse([f"source={tmp_path}/pixels.npy", "gain=0.5"], arguments)
    pixels, gain = given.inputs
    assert (pixels.name, pixels.array.shape) == ("source", BLUR_SHAPE)
    assert (gain.name, gain.number) == ("gain", 0.5)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["gain"], "`gain` gives no input; write NAME=FILE"),
        (["gain="], "`gain=` gives no input"),
        (["=0.5"], "`=0.5` gives no input"),
        (["gain=1", "gain=2"], "`gain` is given twice"),
        (["source=nowhere.png"], "`nowhere.png`, which is no file"),
        (["width=4"], "no input `width`"),
    ],
)
def test_parse_refuses_bad_text(texts: list[str], reason: str, planted: Planted) -> None:
    with pytest.raises(GivenInputError, match=reason):
        GivenInputs.parse(texts, planted("blur").build().infer_arguments())


def test_load_is_the_inverse_of_save(planted: Planted, tmp_path: Path) -> None:
    arguments = planted("blur").build().infer_arguments()
    given = GivenInputs.read({"source": blur_source(), "gain": 0.1}, arguments)
    given.save(tmp_path / "given")
    pixels, gain = GivenInputs.load(tmp_path / "given").inputs
    assert (pixels.name, pixels.mins, gain) == ("source", BLUR_MINS, given.inputs[1])
    np.testing.assert_array_equal(pixels.array, np.asarray(blur_source()))


def test_cases_of_a_child_take_arrays_at_the_estimated_size_and_numbers_at_both(
    planted: Planted, tmp_path: Path
) -> None:
    source = planted("blur")
    given = GivenInputs.read({"source": blur_source(), "gain": 2.0}, source.build().infer_arguments())
    estimated, awkward = made_cases(source, given, tmp_path)
    pixels = by_name(estimated, "source").array
    np.testing.assert_array_equal(pixels, np.asarray(blur_source()))
    assert by_name(awkward, "source").array.shape == (23, 36)
    assert by_name(estimated, "gain").number == by_name(awkward, "gain").number == 2.0
    wide = pixels.astype(np.float32)
    rows = wide[:, :-3] + wide[:, 3:]
    np.testing.assert_array_equal(estimated.expected[0], 2 * (rows[:-2] + rows[2:]))


def test_input_that_is_not_given_is_generated(planted: Planted, tmp_path: Path) -> None:
    source = planted("blur")
    given = GivenInputs.read({"gain": 2.0}, source.build().infer_arguments())
    estimated, _ = made_cases(source, given, tmp_path)
    assert by_name(estimated, "source").array.shape == BLUR_SHAPE
    assert by_name(estimated, "source").array.max() > 250


def test_larger_array_is_passed_whole() -> None:
    pipeline = histogram()
    code = compiled(pipeline)
    pixels = np.full((HEIGHT + 9, WIDTH + 5), 3, np.uint8)
    given = GivenInputs.read({"source": pixels}, code.arguments)
    case = pipeline_case(pipeline, code, ESTIMATED, 0, given=given)
    assert case.inputs[0].array.shape == pixels.shape
    (ranks,), _ = code.run_once(case)
    assert ranks.shape == (HEIGHT, WIDTH)
    assert (ranks == pixels.size).all(), "the histogram is of the whole input"


def test_array_follows_the_layout_that_the_pipeline_asks_for(planted: Planted) -> None:
    pipeline = planted("interleaved").build()
    code = compiled(pipeline)
    planar = np.arange(3 * 200 * 320, dtype=np.uint32).reshape(3, 200, 320).astype(np.uint8)
    given = GivenInputs.read({"source": planar}, code.arguments)
    case = pipeline_case(pipeline, code, ESTIMATED, 0, given=given)
    assert case.inputs[0].array.strides == (1, 3 * 320, 3)
    np.testing.assert_array_equal(case.inputs[0].array, planar)
    code.run_once(case)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((3, HEIGHT, WIDTH - 1), "from 0 to 39 in dimension 0 .* 39x24x3, reaches from 0 to 38"),
        ((2, HEIGHT, WIDTH), "from 0 to 2 in dimension 2 .* 40x24x2, reaches from 0 to 1"),
    ],
)
def test_array_that_is_too_small_is_refused_with_both_sizes(shape: tuple[int, ...], reason: str) -> None:
    pipeline = channels()
    code = compiled(pipeline)
    given = GivenInputs.read({"source": np.zeros(shape, np.uint8)}, code.arguments)
    with pytest.raises(GivenInputError, match=f"^Input `source` must reach {reason}"):
        pipeline_case(pipeline, code, ESTIMATED, 0, given=given)


def test_number_changes_how_much_of_an_array_is_needed() -> None:
    source, radius = hl.ImageParam(hl.Int(32), 1, "source"), hl.Param(hl.Int(32), "radius")
    x, output = hl.Var("x"), hl.Func("output")
    output[x] = source[x] + source[x + radius]
    output.set_estimates([(0, 90)])
    source.set_estimates([(0, 100)])
    radius.set_estimate(10)
    pipeline = hl.Pipeline(output)
    code = compiled(pipeline)
    given = GivenInputs.read({"radius": 30}, code.arguments)
    case = pipeline_case(pipeline, code, AWKWARD, 0, given=given)
    assert by_name(case, "source").array.shape == (9 + 30,)


def test_run_verifies_and_times_what_was_given(planted: Planted, brief_options: RunOptions) -> None:
    source = planted("blur")
    given = GivenInputs.read({"source": blur_source()}, source.build().infer_arguments())
    (row,) = LocalRunner(replace(brief_options, inputs=given)).run(source, [Scheduler("mullapudi2016")])
    assert row.status is Status.OK, row.detail
    assert row.run_ms is not None


def test_run_raises_what_is_wrong_with_what_was_given(planted: Planted, brief_options: RunOptions) -> None:
    source = planted("blur")
    pixels = np.zeros(BLUR_SHAPE, np.uint8)
    given = GivenInputs.read({"source": pixels}, source.build().infer_arguments())
    with pytest.raises(GivenInputError, match="must reach from -1 to 321 in dimension 0"):
        LocalRunner(replace(brief_options, inputs=given)).run(source, [Scheduler("reference")])


def test_run_raises_where_a_constraint_refuses_what_was_given(planted: Planted, brief_options: RunOptions) -> None:
    source = planted("interleaved")
    given = GivenInputs.read({"source": np.zeros((4, 200, 320), np.uint8)}, source.build().infer_arguments())
    with pytest.raises(GivenInputError, match=r"does not run with the inputs that were given: .*source"):
        LocalRunner(replace(brief_options, inputs=given)).run(source, [Scheduler("reference")])


def test_run_raises_where_the_inputs_are_another_pipelines(planted: Planted, brief_options: RunOptions) -> None:
    given = GivenInputs.read({"gain": 1}, planted("blur").build().infer_arguments())
    with pytest.raises(GivenInputError, match="no input `gain`"):
        LocalRunner(replace(brief_options, inputs=given)).run(planted("pair"), [Scheduler("reference")])


@pytest.mark.slow
def test_given_array_replaces_an_applications_own(tmp_path: Path) -> None:
    source = PipelineSource.parse("app:blur")
    pixels = np.full((2600, 1600), 1000, np.uint16)
    given = GivenInputs.read({"input": pixels}, source.build().infer_arguments())
    estimated, awkward = made_cases(source, given, tmp_path)
    np.testing.assert_array_equal(estimated.inputs[0].array, pixels)
    assert (estimated.expected[0] == 1000).all()
    assert awkward.inputs[0].array.shape < (100, 100)
    assert estimated.tolerances == awkward.tolerances


@pytest.mark.slow
def test_given_array_that_is_too_small_for_an_application_is_refused(brief_options: RunOptions) -> None:
    source = PipelineSource.parse("app:blur")
    given = GivenInputs.read({"input": np.zeros((9, 9), np.uint16)}, source.build().infer_arguments())
    with pytest.raises(GivenInputError, match="Input `input` must reach from 0 to 1535 in dimension 0"):
        LocalRunner(replace(brief_options, inputs=given)).run(source, [Scheduler("reference")])
