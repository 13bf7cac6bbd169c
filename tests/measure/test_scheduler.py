from pathlib import Path

import halide as hl
import numpy as np
import pytest

from metol.errors import MetolError
from metol.measure import GPU_PEERS, OWN, PEERS, Scheduler, is_own
from metol.measure.at_root import schedule_at_root


@pytest.mark.parametrize(
    "text", [*OWN, "reference", *PEERS, *GPU_PEERS, "metol:beam_width=8/strategy=greedy", "adams2019:x=0.5"]
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
    with pytest.raises(
        MetolError,
        match=r"no scheduler `li2017`; there are metol, .*reference, exact-reference, witness, hand, adams2019.*li2018",
    ):
        Scheduler.parse("li2017")


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


def lowered(pipeline: hl.Pipeline, target: hl.Target, file: Path) -> str:
    pipeline.compile_to_lowered_stmt(str(file), pipeline.infer_arguments(), hl.StmtOutputFormat.Text, target)
    return file.read_text()


@pytest.mark.parametrize("text", [*GPU_PEERS, "metol-analytical:gpu=a100", "metol-analytical-no-fusion"])
def test_apply_makes_kernels_for_a_gpu(text: str, planted, tmp_path: Path) -> None:
    pipeline, target = planted("blur").build(), hl.Target("host-cuda-cuda_capability_80")
    Scheduler.parse(text).apply(pipeline, target, 2)
    assert "halide_cuda_run" in lowered(pipeline, target, tmp_path / "blur.stmt")


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("anderson2021", "host", "`anderson2021` schedules for GPUs alone, .*; for CPUs there are adams2019,"),
        ("adams2019", "host-cuda", "`adams2019` schedules for CPUs alone, .*; for GPUs there are anderson2021,"),
    ],
)
def test_apply_refuses_a_peer_for_the_other_kind_of_target(name: str, target: str, message: str, planted) -> None:
    with pytest.raises(MetolError, match=message):
        Scheduler(name).apply(planted("blur").build(), hl.Target(target), 2)


def test_what_a_scheduler_is_told_gives_way_to_its_options() -> None:
    told = Scheduler.parse("anderson2021:parallelism=8").told({"parallelism": 108, "active_warp_limit": 64})
    assert dict(told.options) == {"parallelism": 8, "active_warp_limit": 64}
    assert told.name == "anderson2021"


def test_metol_is_told_from_others() -> None:
    assert all(is_own(f"{name}:gpu=a100") for name in OWN)
    assert not any(is_own(name) for name in (*PEERS, *GPU_PEERS, "reference", "schedule:metol.json"))
