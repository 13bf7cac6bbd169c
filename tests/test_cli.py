import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PIPELINES = """
import halide as hl

def ramp():
    x, y = hl.Var("x"), hl.Var("y")
    result = hl.Func("ramp")
    result[x, y] = x + y
    result.set_estimates([(0, 640), (0, 480)])
    return result
"""


def metol(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "metol.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_version_is_shown() -> None:
    done = metol("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("metol ")


def test_command_line_starts_without_halide() -> None:
    code = "import sys, metol.cli; sys.exit(sorted({'halide', 'numpy', 'torch', 'ray'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_apps_are_listed() -> None:
    done = metol("apps")
    assert done.returncode == 0
    assert done.stdout.startswith("harris ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "nothing"), "No application is called `nothing`"),
        (("bench", "nowhere.py:build"), "There is no file `nowhere.py`"),
        (("bench", "harris", "--schedulers", "li2018"), "There is no scheduler `li2018`"),
        (("schedule", "app:nothing"), "No application is called `nothing`"),
    ],
)
def test_mistake_is_told_in_one_line_with_exit_code_2(words: tuple[str, ...], message: str) -> None:
    done = metol(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr


def test_bench_prints_a_table_and_writes_both_files(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = (
        "--schedulers",
        "mullapudi2016,reference",
        "--rounds",
        "1",
        "--json",
        "rows.json",
        "--markdown",
        "docs/bench.md",
    )
    done = metol("bench", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Run time (ms)" in done.stdout
    assert "pipelines.py:ramp" in done.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert "| pipelines.py:ramp |" in (tmp_path / "docs" / "bench.md").read_text()


def test_png_holds_the_image(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    from metol.demo import write_png

    image = np.arange(35, dtype=np.uint8).reshape(5, 7)
    write_png(tmp_path / "image.png", image)
    np.testing.assert_array_equal(imageio.imread(tmp_path / "image.png"), image)


def test_schedule_is_printed_as_python_that_runs(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol("schedule", "pipelines.py:ramp", "--strategy", "greedy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compile(done.stdout, "schedule.py", "exec")
    assert "def apply_schedule" in done.stdout


def test_schedule_is_written_to_the_files_named_and_verified(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    files = ("--python", "s.py", "--cpp", "s.schedule.h", "-o", "s.json")
    done = metol("schedule", "pipelines.py:ramp", "--strategy", "greedy", *files, "--verify", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "verified" in done.stderr
    assert "void apply_schedule" in (tmp_path / "s.schedule.h").read_text()
    assert "def apply_schedule" in (tmp_path / "s.py").read_text()
    assert json.loads((tmp_path / "s.json").read_text())


def test_bench_verifies_metol_beside_a_saved_schedule(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    metol("schedule", "pipelines.py:ramp", "-o", "s.json", cwd=tmp_path)
    words = ("--schedulers", "metol:strategy=greedy,schedule:s.json", "--rounds", "1", "--json", "rows.json")
    done = metol("bench", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert all(row["verified"] for row in rows), rows


@pytest.mark.slow
def test_demo_prints_one_table_and_writes_the_picture(tmp_path: Path) -> None:
    done = metol("demo", "--image", "corners.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "adams2019" in done.stdout
    assert (tmp_path / "corners.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_calibrate_writes_the_machine(tmp_path: Path) -> None:
    done = metol("calibrate", "--threads", "1", "-o", "machine.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "l1_bytes" in done.stdout
    assert json.loads((tmp_path / "machine.json").read_text())


def test_bench_of_searches_prints_and_writes_their_table(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol(
        *("bench", "pipelines.py:ramp", "--search-speed", "--schedulers", "metol:beam_width=2", "--threads", "1"),
        *("--json", "speed.json", "--markdown", "speed.md"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "candidates/s" in done.stdout
    (row,) = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert row["candidates"] > 0
    assert "| pipelines.py:ramp |" in (tmp_path / "speed.md").read_text()
