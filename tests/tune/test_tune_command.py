"""`metol tune`, as a person types it, interrupts it and kills it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forked_children
import planted_failures
import pytest
from command_line import PIPELINES, metol

import metol as library
import metol_apps
from metol import tune
from metol.measure import PipelineSource
from metol.targets.gpu import detect_gpu
from metol.tune import Records
from metol.tune_command import _expand

SOURCE = "planted_failures.py:brighten"
# Code for one size compiles in a fifteenth of the time of code for any.
QUICK = ("--threads", "1", "--no-peers", "--fixed-sizes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    shutil.copy(planted_failures.__file__, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "soon"), "`soon` is no budget; write 10min, 90s, 1h30min or 200 trials"),
        (("--budget", "0 trials"), "at least 1 trial"),
        (("--mode", "best"), "no mode `best`"),
        (("--function", "2x"), "cannot be called `2x`"),
        (("--records", "a.db", "--resume", "b.db"), "name the same thing"),
        (("--resume", "a.db"), "There are no records in `a.db`"),
        (("--records", "pipelines.py"), "is no database"),
        (("--input", "picture=7"), "no input `picture`"),
        (("--records", "nowhere/a.db"), "There is no folder `nowhere`"),
        (("pipelines.py:ramp", "--json", "best.json"), "write one schedule"),
        (("--strategy", "grouping"), "`grouping` makes kernels for a GPU"),
        (("--mode", "20x80", "--strategy", "mcts"), "by the strategy `batch`, and not by `mcts`"),
    ],
)
def test_mistake_is_told_in_one_line_with_exit_code_2(words: tuple[str, ...], message: str, folder: Path) -> None:
    done = metol("tune", "pipelines.py:ramp", *QUICK, *words, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr


def test_a_missing_device_is_told_before_anything_is_built_with_exit_code_3(folder: Path) -> None:
    if detect_gpu() is not None:
        pytest.skip("there is a GPU here")
    (folder / "never.py").write_text("raise AssertionError('it was built')")
    done = metol("tune", "never.py:ramp", "--target", "cuda", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "Schedules for CUDA cannot be run, for there is no GPU here" in done.stderr
    assert done.stderr.strip().count("\n") == 0


def test_files_of_the_suite_stand_for_its_apps(tmp_path: Path) -> None:
    apps = tmp_path / "apps"
    apps.mkdir()
    names = metol_apps.names("full")
    for name in ("__init__", "images", *names):
        (apps / f"{name}.py").touch()
    texts = sorted(str(path) for path in apps.iterdir())
    suite = [PipelineSource.parse(f"app:{name}") for name in sorted(names)]
    assert _expand([*texts, "app:blur"]) == [*suite, PipelineSource.parse("app:blur")]


def test_file_of_a_users_folder_is_no_app(folder: Path) -> None:
    (folder / "blur.py").write_text(PIPELINES)
    text = f"{folder}/blur.py:ramp"
    assert _expand([text]) == [PipelineSource.parse(text)]


BRIEF = """
import sys
from functools import partial
from metol import cli, tune
from metol.measure import RacePlan, TimingPlan
plan = RacePlan(stages=(1, 1), timing=TimingPlan(round_seconds=0.005, min_rounds=2, max_rounds=2))
final = tune.FinalRace(finalists=2, processes=1)
tune.TuningSettings = partial(tune.TuningSettings, tune.TunerOptions(batch=3), final, plan=plan)
"""
"""Tunes in small batches, with brief races."""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do so in this process."""
    monkeypatch.setattr(tune, "TuningSettings", tune.TuningSettings)  # so that it is there again afterwards
    exec(BRIEF)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_tuning_shows_how_it_goes_and_writes_the_best(folder: Path) -> None:
    words = ("tune", SOURCE, *QUICK, "--budget", "3 trials", "--records", "tuning.db", "-o", "best.json")
    done = metol(*words, "--python", "best.txt", "--cpp", "best.h", "--function", "schedule_ramp", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "3 trials" in done.stderr
    assert "0 trials left" in done.stderr
    assert "final race" in done.stderr
    assert "x safe" in done.stdout
    assert library.load(folder / "best.json").directives
    assert "def schedule_ramp(" in (folder / "best.txt").read_text()
    assert "inline void schedule_ramp(" in (folder / "best.h").read_text()
    used = metol("schedule", SOURCE, "--records", "tuning.db", "--threads", "1", "--fixed-sizes", cwd=folder)
    assert used.returncode == 0, used.stderr
    assert "measured at" in used.stderr


INTERRUPTED = """
import signal
from metol.measure.workbench import LocalWorkbench

measure = LocalWorkbench.measure
def measure_and_interrupt(self, *rest):
    outcomes = measure(self, *rest)
    signal.raise_signal(signal.SIGINT)
    return outcomes
LocalWorkbench.measure = measure_and_interrupt
"""


FORKING = f"""
sys.path.append({str(Path(forked_children.__file__).parent)!r})
from forked_children import forked_children
from metol.measure import process
with forked_children(process):
    cli.main()
"""


def briefly(*words: str, before: str = "") -> list[str]:
    """A command that tunes in a process of its own, with children that start in no time."""
    return [sys.executable, "-c", f"{BRIEF}{before}\nsys.argv = {['metol', *words]!r}{FORKING}"]


@pytest.mark.slow
def test_interrupt_settles_for_the_best_measured_so_far(folder: Path) -> None:
    words = ("tune", SOURCE, *QUICK, "--budget", "100 trials", "--records", "tuning.db", "-o", "best.json")
    command = briefly(*words, before=INTERRUPTED)
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ctrl-C again gives up" in done.stderr
    assert "stopped before the final race" in done.stderr
    assert library.load(folder / "best.json").directives
    with Records(folder / "tuning.db") as database:
        assert database.all()


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_kill_loses_no_record_and_tuning_goes_on(folder: Path) -> None:
    file = folder / "tuning.db"
    words = [*("tune", SOURCE, *QUICK), "--budget", "100 trials", "--records", "tuning.db"]
    seen: list[str] = []
    for _ in range(2):
        process = subprocess.Popen(
            briefly(*words), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            seen = next(uids for uids in _growing(file, process) if len(uids) > len(seen))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        with Records(file) as database:
            left = [record.uid for record in database.all()]
            keys = {record.key for record in database.all()}
        assert left[: len(seen)] == seen
        assert len(keys) == 1
        seen = left
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    done = metol("tune", SOURCE, *QUICK, "--budget", "2 trials", "--resume", "tuning.db", cwd=folder)
    assert done.returncode == 0, done.stderr
    with Records(file) as database:
        after = database.all()
    assert [record.uid for record in after][: len(seen)] == seen
    assert {record.key for record in after} == keys
    assert len(after) > len(seen)


def _growing(file: Path, process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
    """Yield the ids of what is in the database, again and again, while the tuner runs."""
    while process.poll() is None:
        time.sleep(0.05)
        if file.exists() and file.stat().st_size:
            with Records(file, may_create=False) as database:
                yield [record.uid for record in database.all()]
    raise AssertionError("the tuner ended before it had measured anything")
