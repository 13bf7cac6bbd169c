"""How commands end: full disks, nothing that ran, SIGTERM."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PIPELINES, metol


def test_a_full_disk_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "metol.cli", "apps"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "the output cannot be written: No space left on device.\n"


def test_bench_that_measures_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PIPELINES)
    (tmp_path / "damaged.json").write_text("{}")
    done = metol("bench", "mine.py:ramp", "--schedulers", "schedule:damaged.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr


TERMINATED = """
import os, signal, sys, tempfile
from metol.search import strategy

def terminate(*arguments):
    with tempfile.TemporaryDirectory(dir="."):
        os.kill(os.getpid(), signal.SIGTERM)

strategy.Budget.is_spent = terminate
sys.argv = ["metol", "schedule", "pipelines.py:ramp", "-o", "s.json"]
from metol.cli import main
main()
"""


def test_termination_removes_what_is_temporary(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    command = [sys.executable, "-c", TERMINATED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 143, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"pipelines.py", "__pycache__"}


@pytest.mark.slow
def test_bench_of_a_peer_that_ran_succeeds_though_it_refuses_smaller_sizes() -> None:
    file = Path(__file__).parents[1] / "examples" / "everyday.py"
    done = metol("bench", f"{file}:split_channels", "--schedulers", "adams2019", "--threads", "1")
    assert done.returncode == 0, done.stderr
