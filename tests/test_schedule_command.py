"""`metol schedule`, as a person types it: what its output is called, and what its help says."""

from pathlib import Path

import pytest
from command_line import PIPELINES, metol

SOURCE = "pipelines.py:ramp"
QUICK = ("--strategy", "greedy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    return tmp_path


def test_function_may_have_a_name_of_its_own(folder: Path) -> None:
    words = ("--function", "schedule_ramp", "--python", "ramp.py", "--cpp", "ramp.h")
    done = metol("schedule", SOURCE, *QUICK, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "def schedule_ramp(pipeline" in (folder / "ramp.py").read_text()
    assert "inline void schedule_ramp(" in (folder / "ramp.h").read_text()
    printed = metol("schedule", SOURCE, *QUICK, "--function", "schedule_ramp", cwd=folder)
    assert "def schedule_ramp(pipeline" in printed.stdout


@pytest.mark.parametrize("name", ["", "2x", "schedule-ramp", "lambda", "template", "hl", "größe"])
def test_name_that_no_function_can_have_is_told_before_the_search(name: str, folder: Path) -> None:
    done = metol("schedule", "never.py:ramp", "--function", name, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert f"cannot be called `{name}`" in done.stderr
    assert done.stderr.strip().count("\n") == 0


def test_help_tells_what_verifying_does_and_which_gpu_counts() -> None:
    text = " ".join(metol("schedule", "--help").stdout.split())
    assert "run them on the GPU, or where there is none on one that is emulated" in text
    assert "an RTX 2080 Ti if it has none" in text
