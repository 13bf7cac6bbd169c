"""What the doctor finds here, and what it says where something is missing."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import metol

from metol import doctor
from metol.doctor import examine
from metol.findings import Check, Outcome


def named(name: str, *, halide_threads: str | None = None) -> Check:
    (found,) = (check for check in examine(halide_threads=halide_threads) if check.name == name)
    return found


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave out all other checks."""
    monkeypatch.setattr(doctor, "_CHECKS", tuple(c for c in doctor._CHECKS if c[0] in names))


def fail_with(text: str) -> Callable[[str], object]:
    return lambda _: doctor._Run(False, text)


@pytest.mark.slow
def test_command_prints_json_and_is_content_where_tests_run() -> None:
    done = metol("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    for name in ("Python", "Halide", "Metol's core", "compile and run"):
        assert checks[name]["outcome"] == "ok", checks[name]
    for name in ("mullapudi2016", "adams2019", "li2018", "anderson2021"):
        assert checks[f"autoscheduler {name}"]["outcome"] == "ok"
    assert {"memory", "cache folder", "calibration", "OpenCL", "CUDA", "ptxas"} <= set(checks)


def test_command_exits_with_1_where_a_check_fails() -> None:
    code = (
        "import sys, metol.doctor as d\n"
        "d._CHECKS = (('Halide', lambda name: d.Check(name, d.Outcome.FAIL, 'gone', 'fetch it')),)\n"
        "sys.argv = ['metol', 'doctor']\n"
        "from metol.cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "gone" in done.stdout
    assert "fetch it" in done.stdout


def test_nothing_more_is_checked_without_halide(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    checks = examine()
    assert [check.name for check in checks] == ["Python", "Halide"]
    assert checks[-1].outcome is Outcome.FAIL
    assert "`pip install --force-reinstall .` in its checkout" in checks[-1].advice


def test_core_for_another_halide_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "Metol's core")
    monkeypatch.setattr(doctor, "_requirements", lambda: ["halide==20.0.0", "numpy>=1.24"])
    found = named("Metol's core")
    assert found.outcome is Outcome.FAIL
    assert "built for halide==20.0.0" in found.found


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("compile and run", Outcome.FAIL), ("autoscheduler li2018", Outcome.WARN), ("CUDA", Outcome.WARN)],
)
def test_what_a_child_cannot_do_is_told(name: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, name)
    monkeypatch.setattr(doctor, "_run_child", fail_with("killed by signal 11"))
    found = named(name)
    assert (found.outcome, found.found) == (outcome, "killed by signal 11")
    assert found.advice


def test_another_number_of_threads_in_the_environment_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "threads")
    assert named("threads").outcome is Outcome.OK
    found = named("threads", halide_threads="977")
    assert found.outcome is Outcome.WARN
    assert "HL_NUM_THREADS is 977" in found.found


def test_cache_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "cache folder")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    found = named("cache folder")
    assert found.outcome is Outcome.WARN
    assert "/proc/nowhere" in found.found


def test_missing_calibration_is_a_warning_and_tells_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only(monkeypatch, "calibration")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert named("calibration").found.startswith("none; ")
    folder = tmp_path / "metol" / "machines"
    folder.mkdir(parents=True)
    (folder / "cpu-0123456789abcdef.json").write_text("{}")
    found = named("calibration")
    assert found.outcome is Outcome.WARN
    assert found.found.startswith("made for other numbers")
    assert "metol calibrate" in found.advice


def test_child_that_dies_or_fails_says_how() -> None:
    assert doctor._run_child("print('well')") == doctor._Run(True, "well")
    assert doctor._run_child("raise SystemExit('no luck')") == doctor._Run(False, "no luck")
    killed = doctor._run_child("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert killed == doctor._Run(False, "killed by signal 11")
