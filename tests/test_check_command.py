"""`metol check`, as a person types it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import PIPELINES, metol

import metol as library
from metol import verification
from metol.measure import PipelineSource

SOURCE = "pipelines.py:ramp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline, a schedule of it, and the same schedule for a machine of another kind."""
    tmp_path = tmp_path_factory.mktemp("check")
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    (tmp_path / "sizes.json").write_text('{"ramp": [[0, 64], [0, 48]]}')
    (tmp_path / "list.json").write_text("[]")
    options = library.SearchOptions(strategy="greedy")
    source = PipelineSource.parse(str(tmp_path / SOURCE))
    found = library.autoschedule(source.build(), threads=1, options=options).schedule
    found.save(tmp_path / "ramp.json")
    (tmp_path / "changed.py").write_text(PIPELINES.replace("x + y", "x - y"))
    library.autoschedule(source.build(), target="cuda", gpu="a100", threads=1, options=options).save(
        tmp_path / "cuda.json"
    )
    foreign = "arm-64-linux" if found.target.startswith("x86") else "x86-64-linux"
    replace(found, target=foreign).save(tmp_path / "foreign.json")
    return tmp_path


@pytest.mark.slow
def test_schedule_that_fits_is_a_table_and_exit_code_0(folder: Path) -> None:
    done = metol("check", "ramp.json", SOURCE, "--threads", "1", "--estimates", "sizes.json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    facts = ["file", "Metol", "Halide", "target", "algorithm", "estimates", "directives", "bounds", "results", "speed"]
    assert rows == facts
    assert "made for ramp 640x480; here ramp 64x48" in done.stdout
    assert "no measured time in the file" in done.stdout


def test_schedule_for_another_processor_is_exit_code_3_and_json_tells_why(folder: Path) -> None:
    done = metol("check", "foreign.json", SOURCE, "--json", cwd=folder)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    assert (outcomes["target"], outcomes["algorithm"]) == ("fail", "ok")
    assert (report["is_slower"], report["speed"]) == (False, None)


def test_schedule_for_a_gpu_that_is_not_here_is_exit_code_3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: None)
    done = metol("check", "cuda.json", SOURCE, cwd=folder)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "nothing can be run, for there is no GPU here" in done.stdout


def test_another_algorithm_is_exit_code_1_without_the_gpu_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: None)
    done = metol("check", "cuda.json", "changed.py:ramp", cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.json", SOURCE), "`missing.json` cannot be read"),
        (("ramp.json", "missing.py:ramp"), "There is no file `missing.py`"),
        (("ramp.json", SOURCE, "--estimates", "list.json"), "must be an object of names"),
        (("ramp.json", SOURCE, "--generator-param", "wide=true"), "is no Halide Generator"),
    ],
)
def test_mistakes_are_told_in_one_line(words: tuple[str, ...], message: str, folder: Path) -> None:
    done = metol("check", *words, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
