from pathlib import Path

import pytest
from loop_nests import loops

from metol.errors import BuilderError, MetolError
from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler
from metol.pipeline import extract

SEVERAL = """
import halide as hl
x = hl.Var("x")
def _build(value: int = 1) -> hl.Func:
    f = hl.Func("built")
    f[x] = value + x
    f.set_estimates([(0, 1000)])
    return f
def second() -> hl.Pipeline:
    return hl.Pipeline(_build(2))
def first(value: int = 3) -> "hl.Func":
    return _build(value)
def of_what(value: int) -> hl.Func:
    return _build(value)
def number() -> int:
    return 4
again, _hidden = first, second
class Called:
    def __call__(self) -> hl.Func:
        return _build()
called = Called()
@hl.generator(name="several_generated")
class Generated:
    output = hl.OutputBuffer(hl.Int(32), 1)
    def generate(self):
        self.output[x] = x
        self.output.set_estimates([(0, 1000)])
def by_hand(funcs, lanes):
    funcs["built"].vectorize(funcs["built"].args()[0], lanes)
SCHEDULES = {"second": by_hand, "first": lambda funcs, lanes: funcs["forgotten"]}
"""


@pytest.fixture(scope="module")  # Halide registers a Generator once a process
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "several.py"
    file.write_text(SEVERAL)
    return file


def test_a_file_is_all_its_pipelines_in_order(several: Path) -> None:
    sources = PipelineSource.parse_all(str(several))
    assert [source.function for source in sources] == ["second", "first", "Generated"]
    for source in sources:
        assert source == PipelineSource.parse(str(source))
        assert len(extract(source.build()).funcs) == 1


def test_any_other_text_is_one_pipeline() -> None:
    assert PipelineSource.parse_all("blur") == (PipelineSource.parse("blur"),)


def test_a_file_without_pipelines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "number.py"
    file.write_text("def number() -> int:\n    return 4\n")
    with pytest.raises(MetolError, match=r"number\.py` has no Generator, and no public function"):
        PipelineSource.parse_all(str(file))


def test_a_schedule_by_hand_stands_beside_the_function(several: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = PipelineSource.parse(f"{several}:second")
    pipeline = source.build()
    source.schedule_by_hand(pipeline, 16)
    assert "vectorized x" in loops(pipeline, capfd)
    assert "[0, 15]" in loops(pipeline, capfd)


def test_a_schedule_by_hand_is_verified(several: Path) -> None:
    source = PipelineSource.parse(f"{several}:second")
    (row,) = LocalRunner(RunOptions(timing=None)).run(source, [Scheduler.parse("hand").of_pipeline(source)])
    assert row.is_ok, row.problem


def test_a_function_without_a_schedule_by_hand_is_told_how_to_get_one(several: Path) -> None:
    source = PipelineSource.parse(f"{several}:Generated")
    with pytest.raises(MetolError, match=r"no schedule by hand of `Generated`; write SCHEDULES = \{\"Generated\""):
        source.schedule_by_hand(source.build(), 8)


def test_random_programs_have_no_schedule_by_hand() -> None:
    source = PipelineSource.parse("random:1")
    with pytest.raises(MetolError, match="`random:1` has no schedule by hand; applications"):
        source.schedule_by_hand(source.build(), 8)


def test_what_a_schedule_by_hand_raises_is_told(several: Path) -> None:
    source = PipelineSource.parse(f"{several}:first")
    with pytest.raises(BuilderError, match="forgotten"):
        source.schedule_by_hand(source.build(), 8)
