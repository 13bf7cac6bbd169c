from pathlib import Path

import halide as hl
import numpy as np
import pytest

from metol.errors import MetolError
from metol.measure import PEERS, Scheduler
from metol.measure.scheduler import schedule_at_root


@pytest.mark.parametrize(
    "text", ["metol", "reference", *PEERS, "metol:beam_width=8/strategy=greedy", "adams2019:x=0.5"]
)
def test_str_is_the_inverse_of_parse(text: str) -> None:
    assert str(Scheduler.parse(text)) == text


def test_parse_reads_the_type_of_an_option() -> None:
    options = Scheduler.parse("metol:a=8/b=0.5/c=true/d=beam").options
    assert options == (("a", 8), ("b", 0.5), ("c", True), ("d", "beam"))


def test_parse_makes_the_path_of_a_schedule_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "best.json").touch()
    monkeypatch.chdir(tmp_path)
    assert Scheduler.parse("schedule:best.json").file == str(tmp_path / "best.json")


def test_parse_lists_schedulers_where_there_is_no_such_one() -> None:
    with pytest.raises(MetolError, match="no scheduler `li2018`; there are metol, reference, hand, adams2019"):
        Scheduler.parse("li2018")


@pytest.mark.parametrize("text", ["metol:beam_width", "metol:beam_width=", "metol:=8"])
def test_parse_rejects_a_malformed_option(text: str) -> None:
    with pytest.raises(MetolError, match="is not an option"):
        Scheduler.parse(text)


def test_parse_names_a_missing_schedule() -> None:
    with pytest.raises(MetolError, match=r"no schedule file `nowhere\.json`"):
        Scheduler.parse("schedule:nowhere.json")


def test_schedule_at_root_computes_updates_and_leaves_inputs_alone(planted) -> None:
    pipeline = planted("histogram").build()
    schedule_at_root(pipeline)
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    image = np.random.default_rng(0).integers(0, 256, (200, 320), np.uint8)
    ranks = np.zeros((200, 320), np.int32)
    code(hl.Buffer(image), hl.Buffer(ranks))
    np.testing.assert_array_equal(ranks, np.bincount(image.ravel(), minlength=256)[image])


@pytest.mark.parametrize("name", PEERS)
def test_apply_lets_a_peer_schedule_in_place(name: str, planted, tmp_path: Path) -> None:
    pipeline = planted("blur").build()
    Scheduler.parse(name).apply(pipeline, hl.get_host_target(), 2)
    statement = tmp_path / "blur.stmt"
    pipeline.compile_to_lowered_stmt(str(statement), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    assert "parallel" in statement.read_text()
