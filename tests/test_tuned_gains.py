import json
from dataclasses import replace
from pathlib import Path

import pytest
import small_pipelines
from brief_timing import BRIEF_OPTIONS
from command_line import metol

import metol as library
from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure import LocalRunner, PipelineSource, Status
from metol.tune import Record, Records, SearchTerms, key_of
from metol.tuned_gains import TunedFile, TunedRow, run_tuned, tuned_notes, tuned_table

# Everything at root costs no search, and stands for the peers.
PEERS = ("reference",)
BLUR = PipelineSource.parse(f"{small_pipelines.__file__}:blur")
CHAIN = PipelineSource.parse(f"{small_pipelines.__file__}:chain")


def record_of(source: PipelineSource, schedule: Schedule, run_ms: float = 2.0, threads: int = 2) -> Record:
    key = key_of(source.build(), SearchTerms(threads))
    text = schedule.to_json()
    return Record(key, source.label, "beam", Status.OK, schedule=text, run_ms=run_ms, is_verified=True)


def greedy(source: PipelineSource) -> Schedule:
    options = library.SearchOptions(strategy="greedy")
    return library.autoschedule(source.build(), threads=2, options=options).schedule


@pytest.fixture
def records(tmp_path: Path):
    with Records(tmp_path / "tuning.db") as opened:
        yield opened


def run(records: Records, known: tuple[TunedRow, ...] = (), peers: tuple[str, ...] = PEERS) -> tuple[TunedRow, ...]:
    saved: list[TunedRow] = []
    rows = run_tuned([BLUR], records, BRIEF_OPTIONS, peers=peers, circumstances="here", known=known, save=saved.append)
    rows = tuple(rows)
    assert saved == [row for row in rows if row.record and row not in known]
    return rows


@pytest.mark.slow
def test_best_record_is_measured_beside_one_shot_and_peers_once(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = greedy(BLUR)
    best = record_of(BLUR, schedule)
    records.add(best, record_of(BLUR, replace(schedule, directives=()), run_ms=20.0))
    (row,) = run(records)
    assert row.notes == ()
    assert (row.app, row.record, row.recorded_ms) == ("small_pipelines.py:blur", best.uid, 2.0)
    assert row.tuned_ms is not None
    assert row.oneshot_ms is not None
    ((name, peer_ms),) = row.peers_ms
    assert (name, row.best_peer) == ("reference", ("reference", peer_ms))
    assert row.verified == ("tuned", "metol", "reference")
    assert row.is_right
    monkeypatch.setattr(LocalRunner, "run", lambda *_: pytest.fail("measured again"))
    assert run(records, (row,)) == (row,)


@pytest.mark.parametrize("change", [{"record": "another"}, {"circumstances": "there"}, {"peers_ms": ()}])
def test_row_of_something_else_is_not_taken_over(
    change: dict, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(BLUR, greedy(BLUR))
    records.add(record)
    known = TunedRow(BLUR.label, "here", record.uid, peers_ms=(("reference", 1.0),))
    assert run(records, (known,)) == (known,)

    def refuse(*_: object) -> None:
        raise MetolError("measured")

    monkeypatch.setattr(LocalRunner, "run", refuse)
    with pytest.raises(MetolError, match="measured"):
        run(records, (replace(known, **change),))


@pytest.mark.slow
def test_schedule_that_does_not_fit_is_a_note_and_not_right(records: Records) -> None:
    records.add(record_of(BLUR, greedy(CHAIN)))
    (row,) = run(records, peers=())
    assert (row.tuned_ms, row.verified, row.is_right) == (None, ("metol",), False)
    assert [note.split(": ")[:2] for note in row.notes] == [["tuned", "schedule_failed"]]


def test_missing_record_is_a_note_that_says_how_to_make_it(records: Records) -> None:
    records.add(record_of(BLUR, greedy(BLUR), threads=1))
    (row,) = run(records)
    assert row.is_right
    assert row.notes == (f"no record for 2 threads on this machine; run `metol tune {BLUR} --records {records.path}`",)


def test_pipeline_that_can_have_no_record_is_a_note(records: Records, tmp_path: Path) -> None:
    (tmp_path / "nowhere.py").write_text(
        "import halide as hl\n\ndef f():\n    f = hl.Func('f')\n    f[hl.Var()] = 0\n    return f\n"
    )
    source = PipelineSource.parse(f"{tmp_path / 'nowhere.py'}:f")
    (row,) = run_tuned([source], records, BRIEF_OPTIONS, peers=PEERS, circumstances="here")
    assert row.is_right
    assert "has no estimate in dimension 0" in row.notes[0]


def row(app: str, recorded_ms: float, tuned_ms: float | None, oneshot_ms: float | None, **more) -> TunedRow:
    return TunedRow(app, "here", "0" * 20, recorded_ms, tuned_ms, oneshot_ms, **more)


BOTH = ("tuned", "metol")
ROWS = (
    row("a", 1.1, 1.0, 2.0, peers_ms=(("x", 4.0), ("y", 3.0)), verified=(*BOTH, "x")),
    row("b", 1.9, 2.0, 4.0, peers_ms=(("x", 6.0), ("y", None)), verified=(*BOTH, "x"), notes=("y: timeout: why",)),
    row("c", 5.0, 5.0, 4.0, peers_ms=(("x", None), ("y", None)), verified=BOTH),
    row("d", 5.0, None, 4.0, peers_ms=(("x", 1.0),), verified=("metol", "x"), notes=("tuned: wrong_result: why",)),
    TunedRow("e", "here", notes=("no record",)),
)


def test_table_has_gains_their_means_the_worst_and_errors_of_the_tuner() -> None:
    table = tuned_table(ROWS)
    assert table.rows == (
        ("a", "1.00", "y 3.00 †", "3.00×", "2.00", "2.00×", "1.10", "+10.0"),
        ("b", "2.00", "x 6.00", "3.00×", "4.00", "2.00×", "1.90", "-5.0"),
        ("c", "5.00", "–", "–", "4.00", "0.80×", "5.00", "+0.0"),
        ("d", "–", "x 1.00", "–", "4.00", "–", "5.00", "–"),
    )
    assert table.summary == (
        ("geometric mean (apps)", "", "", "3.00× (2)", "", "1.47× (3)", "", ""),
        ("worst app", "", "", "3.00× (a)", "", "0.80× (c)", "", ""),
        ("median without sign (apps)", "", "", "", "", "", "", "5.0 (3)"),
    )
    assert all(len(line) == len(table.headers) for line in (*table.rows, *table.summary))


def test_table_of_nothing_has_no_means() -> None:
    table = tuned_table(ROWS[-1:])
    assert table.rows == ()
    assert [line[3] for line in table.summary] == ["–", "–", ""]


def test_notes_explain_the_mark_and_what_is_missing() -> None:
    mark, *lines = tuned_notes(ROWS)
    assert mark.startswith("†")
    assert lines == ["b, y: timeout: why", "d, tuned: wrong_result: why", "e, no record"]
    assert tuned_notes(ROWS[1:2]) == ("b, y: timeout: why",)


def test_row_is_right_where_all_of_metol_is() -> None:
    assert [row.is_right for row in ROWS] == [True, True, True, False, True]
    assert not replace(ROWS[0], verified=("tuned",)).is_right


def test_rows_survive_the_file(tmp_path: Path) -> None:
    file = TunedFile(tmp_path / "rows.jsonl")
    for one in ROWS:
        file.append(one)
    assert file.load() == ROWS


@pytest.mark.slow
def test_command_prints_and_writes_its_table(records: Records, tmp_path: Path) -> None:
    words = ("bench", str(BLUR), str(CHAIN), "--tuned", "tuning.db", "--rounds", "1")
    words = (*words, "--json", "rows.jsonl", "--markdown", "page.md")
    records.add(record_of(BLUR, greedy(BLUR)))
    done = metol(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "vs best peer" in done.stdout
    assert f"{CHAIN.label}, no record for 2 threads" in done.stdout
    assert f"| {BLUR.label} |" in (tmp_path / "page.md").read_text()
    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert list(json.loads(line)["peers_ms"]) == ["adams2019", "adams2019-greedy", "mullapudi2016"]
    records.add(record_of(CHAIN, greedy(BLUR)))
    done = metol(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr + done.stdout
    assert f"{CHAIN.label}, tuned: schedule_failed" in done.stdout
