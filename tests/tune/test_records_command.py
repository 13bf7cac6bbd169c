"""`metol records ...` and `metol schedule --records`, as a person types them."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from command_line import PIPELINES, metol, metol_process
from rich.console import Console

import metol as library
from metol.measure import PipelineSource, Status
from metol.records_command import records
from metol.tune import Record, Records, SearchTerms, fingerprint, key_of, machine_identity

SOURCE = "pipelines.py:ramp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline, and a database with two schedules of it that ran and one that crashed."""
    tmp_path = tmp_path_factory.mktemp("records")
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    (tmp_path / "empty.jsonl").touch()
    pipeline = PipelineSource.parse(str(tmp_path / SOURCE)).build()
    terms = SearchTerms(2)
    key = key_of(pipeline, terms)
    options = library.SearchOptions(strategy="greedy")
    found = library.autoschedule(pipeline, threads=2, options=options).schedule
    plain = replace(found, directives=())
    fast = Record(
        key,
        label="ramp",
        origin="beam",
        status=Status.OK,
        schedule=found.to_json(),
        run_ms=1.5,
        interval_ms=(1.4, 1.6),
        is_verified=True,
        is_final=True,
        machine=machine_identity(),
        made_at="2026-01-02T03:04:05Z",
    )
    slow = replace(fast, origin="safe", schedule=plain.to_json(), run_ms=20.0, interval_ms=None)
    broken = replace(
        fast,
        origin="dropout",
        status=Status.RUN_FAILED,
        detail="killed by SIGSEGV",
        schedule=replace(plain, metol_version="broken").to_json(),
        run_ms=None,
    )
    with Records(tmp_path / "tuning.db") as database:
        database.add(slow, fast, replace(broken, is_verified=False))
    return tmp_path


def test_help_names_every_command() -> None:
    text = metol("records", "--help").stdout.partition("Options:")[0]
    assert [name for name in records.registered_commands if str(name.name or name.callback.__name__) not in text] == []


def test_key_names_this_machine_and_is_the_same_for_the_same_pipeline(folder: Path) -> None:
    first, second = (key_of(PipelineSource.parse(str(folder / SOURCE)).build(), SearchTerms(2)) for _ in range(2))
    assert first == second
    assert first.machine == fingerprint(machine_identity())
    assert first != key_of(PipelineSource.parse(str(folder / SOURCE)).build(), SearchTerms(1))


def test_records_are_listed_and_shown(folder: Path) -> None:
    listed = metol("records", "list", "tuning.db", cwd=folder)
    assert listed.returncode == 0, listed.stderr
    assert [word in listed.stdout for word in ("beam, final", "run_failed", "ramp 640x480")] == [True] * 3
    failed = metol("records", "list", "tuning.db", "--failures", cwd=folder)
    assert "killed by SIGSEGV" in failed.stdout
    assert "beam, final" not in failed.stdout
    uid = next(line.split()[0] for line in listed.stdout.splitlines() if "beam, final" in line)
    shown = metol("records", "show", "tuning.db", uid[:8], cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "1.5 ms (1.4 to 1.6)" in shown.stdout
    assert "def apply_schedule(" in shown.stdout


def test_ids_are_whole_on_a_narrow_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = partial(Console, force_terminal=True, color_system=None, width=60)
    monkeypatch.setattr("metol.records_command.wide_console", terminal)
    listed = metol("records", "list", "tuning.db", cwd=folder)
    digits = [line.split()[0] for line in listed.stdout.splitlines() if " 2026-01-02 03:04" in line]
    assert len(digits) == 3
    for uid in digits:
        assert metol("records", "show", "tuning.db", uid, cwd=folder).returncode == 0


def test_export_and_import_lose_nothing_and_merge_adds_nothing(folder: Path) -> None:
    assert metol("records", "export", "tuning.db", "lines.jsonl", cwd=folder).returncode == 0
    imported = metol("records", "import", "other.db", "lines.jsonl", "lines.jsonl", cwd=folder)
    assert imported.returncode == 0, imported.stderr
    assert "3 new, 3 known" in imported.stderr
    merged = metol("records", "merge", "other.db", "tuning.db", cwd=folder)
    assert "0 new, 3 known" in merged.stderr
    again = metol("records", "export", "other.db", cwd=folder)
    assert again.stdout == (folder / "lines.jsonl").read_text()


def test_the_best_schedule_is_used_in_place_of_a_search(folder: Path) -> None:
    best = metol("records", "best", "tuning.db", SOURCE, "--threads", "2", "-o", "best.json", cwd=folder)
    assert best.returncode == 0, best.stderr
    assert "1.5 ms" in best.stdout
    used = metol("schedule", SOURCE, "--records", "tuning.db", "--threads", "2", "-o", "used.json", cwd=folder)
    assert used.returncode == 0, used.stderr
    assert "measured at 1.5 ms" in used.stderr
    assert (folder / "used.json").read_text() == (folder / "best.json").read_text()
    written = library.load(folder / "used.json").measured
    assert written is not None
    assert (written.run_ms, written.interval_ms, written.threads) == (1.5, (1.4, 1.6), 2)
    assert written.machine == fingerprint(machine_identity())
    library.load(folder / "used.json").apply(PipelineSource.parse(str(folder / SOURCE)).build())


GENERATOR = """
import halide as hl

@hl.generator(name="scaled")
class Scaled:
    factor = hl.GeneratorParam(2)
    source = hl.InputBuffer(hl.Int(32), 2)
    result = hl.OutputBuffer(hl.Int(32), 2)

    def generate(self):
        x, y = hl.Var("x"), hl.Var("y")
        self.result[x, y] = self.source[x, y] * self.factor
"""
SIZES = {"source": [[0, 64], [0, 48]], "result": [[0, 64], [0, 48]]}


def fastest(folder: Path) -> Record:
    """The best of those that are there."""
    with Records(folder / "tuning.db") as database:
        return min(database.all(), key=lambda record: record.run_ms or math.inf)


@pytest.fixture
def cold(folder: Path) -> Path:
    """A database of one that `tune --cold` measured alone."""
    found = fastest(folder)
    terms = replace(SearchTerms.from_text(found.key.terms), is_cold=True)
    file = folder / "cold.db"
    with Records(file) as database:
        database.add(replace(found, key=replace(found.key, terms=terms.to_text()), run_ms=3.5))
    return file


def test_what_was_measured_with_empty_caches_is_found_where_asked_for(cold: Path, folder: Path) -> None:
    best = metol("records", "best", cold.name, SOURCE, "--threads", "2", "--cold", cwd=folder)
    assert best.returncode == 0, best.stderr
    assert "3.5 ms" in best.stdout
    used = metol("schedule", SOURCE, "--records", cold.name, "--cold", "--threads", "2", "-o", "used.json", cwd=folder)
    assert "measured at 3.5 ms" in used.stderr
    written = library.load(folder / "used.json").measured
    assert written is not None
    assert written.is_cold


def test_what_was_measured_with_empty_caches_is_not_taken_for_warm(cold: Path, folder: Path) -> None:
    best = metol("records", "best", cold.name, SOURCE, "--threads", "2", cwd=folder)
    assert best.returncode == 1
    assert "measured on this machine with warm caches" in best.stderr
    words = ("--records", cold.name, "--threads", "2", "--strategy", "greedy")
    assert "with warm caches; searching" in metol("schedule", SOURCE, *words, cwd=folder).stderr


def test_best_takes_estimates_and_generator_params(folder: Path) -> None:
    (folder / "scaled.py").write_text(GENERATOR)
    (folder / "sizes.json").write_text(json.dumps(SIZES))
    source = PipelineSource.parse(f"{folder / 'scaled.py'}:Scaled?factor=5")
    found = fastest(folder)
    with Records(folder / "scaled.db") as database:
        database.add(replace(found, key=key_of(source.build(), SearchTerms(2), estimates=SIZES)))
    words = ("records", "best", "scaled.db", "scaled.py:Scaled", "--threads", "2", "--estimates", "sizes.json")
    best = metol_process(*words, "--generator-param", "factor=5", cwd=folder)
    assert best.returncode == 0, best.stderr
    assert "1.5 ms" in best.stdout
    assert metol_process(*words, "--generator-param", "factor=6", cwd=folder).returncode == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--keep", "ramp"), "none goes with Funcs that are kept"),
        (("--gpu", "a100"), "all are of the GPU that is here"),
    ],
)
def test_where_no_record_can_answer_that_is_told(words: tuple[str, ...], why: str, folder: Path) -> None:
    done = metol("schedule", SOURCE, "--records", "tuning.db", "--strategy", "greedy", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"no record is taken, for {why}" in done.stderr
    assert "searching" in done.stderr


def test_empty_caches_are_of_records(folder: Path) -> None:
    done = metol("schedule", SOURCE, "--cold", cwd=folder)
    assert done.returncode == 2
    assert "`--cold` chooses among `--records`" in done.stderr


def test_a_record_that_does_not_fit_is_passed_over(folder: Path) -> None:
    # The algorithm is the same, and so is its hash; the schedule names a Func that is called otherwise.
    renamed = PIPELINES.replace('hl.Func("ramp")', 'hl.Func("slope")')
    (folder / "renamed.py").write_text(renamed)
    key = key_of(PipelineSource.parse(str(folder / "renamed.py:ramp")).build(), SearchTerms(2))
    with Records(folder / "tuning.db") as database:
        misfit = replace(next(r for r in database.all() if r.is_final), key=key)
    with Records(folder / "misfit.db") as database:
        database.add(misfit)
    words = ("schedule", "renamed.py:ramp", "--records", "misfit.db", "--threads", "2", "--strategy", "greedy")
    done = metol(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "does not fit" in done.stderr
    assert "def apply_schedule(" in done.stdout


def test_without_a_record_there_is_a_search(folder: Path) -> None:
    words = ("schedule", SOURCE, "--records", "tuning.db", "--threads", "1", "--strategy", "greedy")
    searched = metol(*words, cwd=folder)
    assert searched.returncode == 0, searched.stderr
    assert "nothing was measured" in searched.stderr
    assert "def apply_schedule(" in searched.stdout
    assert metol("records", "best", "tuning.db", SOURCE, "--threads", "1", cwd=folder).returncode == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "missing.db"), "There are no records in `missing.db`"),
        (("list", "pipelines.py"), "`pipelines.py` is no database"),
        (("show", "tuning.db", "zz"), "has no record"),
        (("import", "new.db", "pipelines.py"), "is no record"),
        (("import", "nowhere/new.db", "empty.jsonl"), "no folder"),
        (("merge", "tuning.db", "missing.db"), "There are no records"),
        (("merge", "fresh.db", "missing.db"), "There are no records"),
        (("export", "tuning.db", "tuning.db"), "is a database"),
    ],
)
def test_mistakes_are_told_in_one_line(words: tuple[str, ...], message: str, folder: Path) -> None:
    done = metol("records", *words, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert not {"fresh.db", "new.db"} & {path.name for path in folder.iterdir()}
