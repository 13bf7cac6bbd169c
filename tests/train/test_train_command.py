"""`metol train`, as a person types it; what takes children to measure is slow."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import metol
from measured_programs import planner_of, program_of, sampled
from small_pipelines import some_machine
from some_weights import some_weights
from typer.testing import CliRunner

from metol.cli import app
from metol.cost import Weights
from metol.errors import MetolError
from metol.train import SampleFiles
from metol.train.split import split_of

MACHINE = some_machine()
PROGRAMS = tuple(program_of(seed) for seed in (0, 1, 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Samples of three programs."""
    files = SampleFiles(tmp_path / "samples")
    for name in PROGRAMS:
        files.append(sampled(name, 6), MACHINE)
    return tmp_path


@pytest.fixture
def weights(folder: Path) -> Path:
    path = folder / "mine.npz"
    some_weights(planner_of(PROGRAMS[0]).form().space).save(path)
    return path


def run(*words: object) -> str:
    """Run `metol train` in this process; what it prints to a table's reader, or the error that it ends with."""
    done = CliRunner().invoke(app, ["train", *map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_samples_that_are_there_are_not_overwritten_without_being_asked(folder: Path) -> None:
    before = (folder / "samples" / "samples.jsonl").read_bytes()
    done = metol("train", "generate", "--out", "samples", "--budget", "1 trial", cwd=folder)
    assert done.returncode == 2
    assert "`samples` holds the samples of 3 programs; go on with them by --resume." in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert (folder / "samples" / "samples.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("generate", "--out", "new", "--budget", "soon"), "`soon` is no budget"),
        (("generate", "--out", "new", "--program", "nowhere.py:build"), "no file `nowhere.py`"),
        (("fit", "{}/samples", "--out", "{}/mine.npz/a.npz"), "mine.npz"),
        (("fit", "{}/missing", "--out", "{}/a.npz"), "no samples in .*`metol train generate`"),
        (("evaluate", "{}/mine.npz", "{}/missing"), "no samples in"),
        (("evaluate", "{}/missing.npz", "{}/samples"), "is no file of weights"),
        (("evaluate", "{}/samples/samples.jsonl", "{}/samples"), "is no file of weights"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(words: tuple[str, ...], message: str, folder: Path, weights: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MetolError, match=message) as caught:
        run(*(word.replace("{}", str(folder)) for word in words))
    assert "\n" not in str(caught.value)
    assert not (folder / "a.npz").exists()


@pytest.mark.slow
def test_too_few_programs_to_fit_to_are_an_error_of_one_line(tmp_path: Path) -> None:
    for name in ("torch", "sklearn", "matplotlib"):
        pytest.importorskip(name)
    SampleFiles(tmp_path).append(sampled(PROGRAMS[0], 6), MACHINE)
    with pytest.raises(MetolError, match="1 programs are too few") as caught:
        run("fit", tmp_path, "--out", tmp_path / "a.npz")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.npz").exists()


def test_what_is_missing_for_a_fit_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.train.extra.find_spec", lambda name: None if name == "sklearn" else name)
    with pytest.raises(MetolError, match=r"Fitting needs sklearn; install them with `pip install \.\[train\]` in"):
        run("fit", folder / "samples", "--out", folder / "a.npz")


def test_weights_are_judged_program_by_program(folder: Path, weights: Path) -> None:
    printed = run("evaluate", weights, folder / "samples")
    for name in PROGRAMS:
        assert name in printed
    assert "analytical and network" in printed
    assert "R² of log time" in printed
    assert "rank correlation" in printed


def test_where_no_program_is_held_out_is_told(folder: Path, weights: Path) -> None:
    files = SampleFiles(folder / "seen")
    every = (sampled(program_of(seed), 5) for seed in range(20))
    files.append(next(one for one in every if not split_of([one.algorithm]).held_out), MACHINE)
    with pytest.raises(MetolError, match="None of these programs is held out"):
        run("evaluate", weights, folder / "seen", "--holdout")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure in no time: what the tests above invented."""

    def measure(self, source, seed, *, is_any_time_right=False, limit_seconds=0.0):
        made = sampled(PROGRAMS[seed % 3], 4)
        return replace(made, program=str(source), generation=self._plan.generation)

    monkeypatch.setattr("metol.train.collect.Collector.measure", measure)
    return


def test_generating_goes_on_where_it_ended(stand_in: None, tmp_path: Path) -> None:
    words = ("generate", "--out", tmp_path, "--budget", "2 trials", "--most-funcs", "4", "--seed", "5")
    printed = run(*words)
    assert "random:5/least_funcs=3/most_funcs=4" in printed
    assert "4 schedules" in printed
    assert "(2 programs, 8 samples, " in printed
    with pytest.raises(MetolError, match="2 programs; go on with them by --resume"):
        run(*words)
    run(*words, "--resume")
    seeds = [program.program.split("/")[0] for program in SampleFiles(tmp_path).load()]
    assert seeds == ["random:5", "random:6", "random:7", "random:8"]


@pytest.mark.slow
def test_a_program_that_is_named_is_measured(tmp_path: Path) -> None:
    words = ("--program", PROGRAMS[0], "--count", "4", "--threads", "1", "--budget", "1 trial")
    done = metol("train", "generate", "--out", "samples", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{PROGRAMS[0]}: 4 schedules" in done.stderr
    (one,) = SampleFiles(tmp_path / "samples").load()
    assert len(one.samples) == 4


@pytest.mark.slow
def test_a_fit_writes_weights_that_tell_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several threads that wait for each other on a busy machine take far longer than one.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("torch", "sklearn", "matplotlib"):
        pytest.importorskip(name)
    files = SampleFiles(tmp_path / "samples")
    for seed in range(30):
        files.append(sampled(program_of(seed), 5), MACHINE)
    words = ("--out", "mine.npz", "--members", "2", "--epochs", "2", "--report", "plots")
    done = metol("train", "fit", "samples", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "analytical and network" in done.stdout
    assert "weights: mine.npz" in done.stderr
    weights = Weights.load(tmp_path / "mine.npz")
    assert len(weights.members) == 2
    assert weights.notes["data"]["programs"] == 30
    assert "analytical" in weights.notes["scores"]
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["loss.png", "predictions.png"]
    judged = metol("train", "evaluate", "mine.npz", "samples", "--holdout", cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr


def test_samples_are_packed_and_go_on(folder: Path) -> None:
    before = SampleFiles(folder / "samples").load()
    run("pack", folder / "samples", "first")
    assert (folder / "samples" / "first.jsonl.xz").is_file()
    assert SampleFiles(folder / "samples").load() == before
    with pytest.raises(MetolError, match="Nothing is packed"):
        run("pack", folder / "samples", "second")
