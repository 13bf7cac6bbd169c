"""Records in a database: nothing lost on the way in, out, or between two; errors in one line."""

import contextlib
import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metol.errors import RecordError
from metol.lower import Measured, Schedule
from metol.measure import Measurement, Status
from metol.tune import Record, RecordKey, Records, SearchTerms, best_of
from metol.tune.record import canonical

KEY = RecordKey(
    "0" * 16, canonical([["output", [[0, 64], [0, 48]]]]), "m" * 16, "x86-64", "21.0.0", SearchTerms(2).to_text()
)


def schedule_text(name: str) -> str:
    return Schedule(funcs=(), directives=(), algorithm_hash="0" * 16, target=name).to_json()


def measured(run_ms: float | None, schedule: str = "a", *, key: RecordKey = KEY, **more) -> Record:
    fields = {"status": Status.OK, "is_verified": True, "label": "app", "origin": "beam", **more}
    return Record(key, schedule=schedule_text(schedule) if schedule else "", run_ms=run_ms, **fields)


@pytest.fixture
def database(tmp_path: Path):
    with Records(tmp_path / "tuning.db") as opened:
        yield opened


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
positive = st.floats(0, 1e9) | st.integers(0, 9)
predicted = positive | st.just(math.nan) | st.just(math.inf)
keys = st.builds(
    RecordKey,
    st.sampled_from(["0" * 16, "1" * 16]),
    st.sampled_from([KEY.estimates, canonical([["other", 3]])]),
    st.sampled_from(["m" * 16, "n" * 16]),
    st.sampled_from(["x86-64", "arm-64"]),
    st.just("21.0.0"),
    st.builds(SearchTerms, st.integers(1, 4), st.booleans()).map(SearchTerms.to_text),
)
records = st.builds(
    Record,
    keys,
    label=texts,
    origin=texts,
    status=st.sampled_from(Status),
    detail=texts,
    schedule=st.sampled_from(["", schedule_text("a"), schedule_text("b")]),
    run_ms=st.none() | positive,
    interval_ms=st.none() | st.tuples(positive, positive),
    samples_ms=st.lists(positive, max_size=4).map(tuple),
    compile_seconds=st.none() | positive,
    predicted_seconds=st.none() | predicted,
    nest=st.just("") | texts,
    is_verified=st.booleans(),
    is_final=st.booleans(),
    machine=st.dictionaries(texts, texts | st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=3), max_size=3),
    metol_version=texts,
    session=texts,
    made_at=texts,
)


@given(record=records)
def test_a_line_loses_nothing(record: Record) -> None:
    line = record.to_line()
    assert "\n" not in line
    assert Record.from_line(line) == record
    assert Record.from_line(line).uid == record.uid


@pytest.mark.slow
@settings(max_examples=25)
@given(made=st.lists(records, max_size=5))
def test_a_database_loses_nothing(made: list[Record], tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("records")
    kept = list({record.uid: record for record in made}.values())
    with Records(folder / "one.db") as one, Records(folder / "two.db") as two:
        assert one.add(*made) == len(kept)
        assert list(one.all()) == kept
        assert two.add(*map(Record.from_line, one.export())) == len(kept)
        assert list(two.all()) == kept
        assert two.add(*one.all()) == one.add(*two.all()) == 0
        assert all(two.find(record.uid) == record for record in kept)


def test_every_field_counts_in_the_uid() -> None:
    record = measured(1.0)
    changed = [replace(record, origin="x"), replace(record, run_ms=2.0), replace(record, key=replace(KEY, machine="n"))]
    assert len({record.uid, *(other.uid for other in changed)}) == 4


def test_the_best_is_the_fastest_that_was_right(database: Records) -> None:
    database.add(
        measured(3.0, "a"),
        measured(1.0, "b", status=Status.WRONG_RESULT, is_verified=False),
        measured(2.0, "c"),
        measured(0.5, "d", is_verified=False),
        measured(0.1, "e", key=replace(KEY, machine="n" * 16)),
        measured(None, "f"),
    )
    best = database.best(KEY)
    assert best is not None
    assert (best.run_ms, best.to_schedule().target) == (2.0, "c")
    assert database.best(replace(KEY, algorithm="1" * 16)) is None


def test_final_measurements_outweigh_lucky_ones() -> None:
    finals = [measured(5.1, "a", is_final=True), measured(4.8, "b", is_final=True), measured(5.2, "b", is_final=True)]
    best = best_of([measured(1.0, "a"), *finals, measured(0.9, "c")])
    assert best is not None
    assert (best.to_schedule().target, best.run_ms, best.is_final) == ("b", 4.8, True)


def test_a_schedule_that_was_ever_wrong_is_out() -> None:
    wrong = measured(None, "a", status=Status.WRONG_RESULT, is_verified=False)
    best = best_of([measured(1.0, "a"), wrong, measured(2.0, "b")])
    assert best is not None
    assert best.to_schedule().target == "b"


def of_version_3(record: Record) -> Record:
    """The record as the Metol before this one wrote it."""
    content = json.loads(record.schedule)
    del content["measured"]
    return replace(record, schedule=json.dumps({**content, "version": 3}))


def test_a_schedule_that_an_earlier_metol_found_wrong_is_out() -> None:
    wrong = measured(None, "a", status=Status.WRONG_RESULT, is_verified=False)
    best = best_of([measured(1.0, "a"), of_version_3(wrong), measured(2.0, "b")])
    assert best is not None
    assert best.to_schedule().target == "b"


def test_schedules_of_a_later_metol_are_told_apart() -> None:
    one, other = (replace(measured(1.0), schedule=f'{{"version": 99, "name": "{name}"}}') for name in "ab")
    assert one.schedule_digest == replace(one, run_ms=2.0).schedule_digest != other.schedule_digest


def test_both_texts_of_a_schedule_are_kept(database: Records) -> None:
    record = measured(1.0)
    old = of_version_3(record)
    assert old.schedule_digest == record.schedule_digest
    assert database.add(old, record) == 2
    assert database.all() == (old, record)


def test_the_schedule_tells_the_time_of_its_record() -> None:
    made_at = "2026-01-02T03:04:05Z"
    record = measured(1.5, interval_ms=(1.4, 1.6), machine={"cpu": "Some CPU"}, made_at=made_at)
    assert record.to_schedule().measured == Measured(1.5, (1.4, 1.6), 2, KEY.machine, "Some CPU", False, made_at)
    cold = replace(record, key=replace(KEY, terms=SearchTerms(4, is_cold=True).to_text()))
    assert cold.measured is not None
    assert (cold.measured.threads, cold.measured.is_cold) == (4, True)


@pytest.mark.parametrize("useless", [{"is_verified": False}, {"run_ms": None}, {"status": Status.TIMEOUT}])
def test_the_schedule_tells_no_time_that_is_of_no_use(useless: dict) -> None:
    assert replace(measured(1.5), **useless).to_schedule().measured is None


def test_a_record_does_not_hold_the_time_of_another() -> None:
    schedule = replace(Schedule.from_json(schedule_text("a")), measured=measured(9.0).measured)
    row = Measurement("app", "metol", run_ms=1.5, verified=True)
    record = Record.of_measurement(KEY, row, schedule, "beam")
    assert record.schedule == schedule_text("a")
    assert record.to_schedule().measured == measured(1.5).measured


def test_seeds_promise_no_more_than_the_key() -> None:
    plain, fixed, alias = SearchTerms(2), SearchTerms(4, fixed_sizes=True), SearchTerms(2, may_alias=True)
    assert plain.cover(SearchTerms(8, is_cold=True))
    assert not plain.cover(fixed)
    assert fixed.cover(plain)
    assert plain.cover(alias), "code for outputs that may alias is right for those that do not"
    assert not alias.cover(plain)


def test_seeds_are_the_best_of_elsewhere_and_never_of_here(database: Records) -> None:
    there = replace(KEY, machine="n" * 16)
    smaller = replace(KEY, estimates=canonical([["output", [[0, 8], [0, 8]]]]))
    database.add(
        measured(1.0, "here"),
        measured(2.0, "small", key=smaller),
        measured(9.0, "slow", key=there),
        measured(5.0, "there", key=there),
        measured(1.0, "other", key=replace(there, algorithm="1" * 16)),
        measured(1.0, "gpu", key=replace(there, target="host-cuda")),
    )
    assert [record.to_schedule().target for record in database.seeds(KEY)] == ["there", "small"]
    assert len(database.seeds(KEY, limit=1)) == 1


def test_records_are_found_by_how_their_id_begins(database: Records) -> None:
    record = measured(1.0)
    database.add(record, measured(2.0))
    assert database.find(record.uid[:8]) == record
    for wrong in ("", "zz", "%"):
        with pytest.raises(RecordError, match="whose id begins with"):
            database.find(wrong)


def test_sessions_are_told_apart(database: Records) -> None:
    database.add(measured(1.0, session="one"), measured(2.0, session="two"), measured(3.0, session="one"))
    assert database.sessions() == ("one", "two")
    assert [record.run_ms for record in database.all(session="one")] == [1.0, 3.0]


def test_nothing_is_written_where_one_of_several_cannot_be(database: Records) -> None:
    with pytest.raises(Exception, match="NOT NULL"):
        database.add(measured(1.0), replace(measured(2.0), origin=None))  # type: ignore[arg-type]
    assert database.all() == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("spam", "is no record"),
        ("[]", "is no record"),
        ('{"format": "metol record"}', "is no record"),
        ('{"format": "other", "version": 1}', "`other` of version 1"),
        ('{"format": "metol record", "version": 99}', "version 99"),
        ('{"format": "metol record", "version": 1, "key": {}}', "not whole"),
    ],
)
def test_a_line_of_something_else_is_refused(line: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        Record.from_line(line)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "splendid"},
        {"run_ms": "fast"},
        {"label": None},
        {"interval_ms": [1]},
        {"machine": [1, 2]},
        {"samples_ms": ["a"]},
        {"key": {**asdict(KEY), "estimates": "x"}},
        {"key": {**asdict(KEY), "terms": "{}"}},
        {"key": {**asdict(KEY), "terms": '{"threads": "two"}'}},
        {"key": {**asdict(KEY), "estimates": '[["f", [[0]]]]'}},
        {"key": {**asdict(KEY), "estimates": "[3]"}},
        {"key": {**asdict(KEY), "machine": 3}},
        {"spam": 1},
    ],
)
def test_a_line_with_a_wrong_field_is_refused(wrong: dict) -> None:
    content = {**json.loads(measured(1.0).to_line()), **wrong}
    with pytest.raises(RecordError, match="not whole"):
        Record.from_line(json.dumps(content))


def make_foreign(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE albums (id INTEGER)")


def make_later(path: Path) -> None:
    Records(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def make_broken(path: Path) -> None:
    Records(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("some notes of mine"), "is no database"),
        (make_foreign, "another program"),
        (make_later, "version 99"),
        (make_broken, "cannot be (used|read)"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: None, "There are no records"),
        (lambda path: path.touch(), "There are no records"),
    ],
)
def test_a_file_that_is_no_database_of_ours_is_refused_and_left_alone(make, message: str, tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(RecordError, match=message), Records(path, may_create=False) as opened:
        opened.all()
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE record SET status = 'splendid'", "splendid"),
        ("UPDATE record SET run_ms = 'fast'", "run_ms"),
        ("UPDATE record SET samples_ms = '[1,'", "no JSON"),
        ("UPDATE record SET interval_ms = '[1]'", "not enough values"),
        ("UPDATE record SET terms = '{}'", "terms"),
        ("UPDATE problem SET estimates = '[[1, 2'", "estimates"),
        ("UPDATE problem SET estimates = '[[\"f\", [[0]]]]'", "estimates"),
        ("UPDATE machine SET description = 'a fast one'", "Expecting value"),
        ("UPDATE machine SET description = '[]'", "machine"),
        ("UPDATE schedule SET json = x'ff00'", "schedule"),
    ],
)
def test_a_damaged_row_is_told_with_what_takes_it_away(damage: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    with Records(path) as opened:
        opened.add(measured(1.0))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with Records(path) as opened, pytest.raises(RecordError, match=message) as raised:
        opened.all()
    assert "damaged" in str(raised.value)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        _, quote, advice = str(raised.value).rpartition("DELETE")
        connection.execute(f"{quote}{advice}".rstrip('"') if quote else "DELETE FROM record WHERE id = 1")
    with Records(path) as opened:
        assert opened.all() == ()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no folder"):
        Records(tmp_path / "missing" / "some.db")


def test_a_file_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    path = tmp_path / "tuning.db"
    with Records(path) as opened:
        opened.add(measured(1.0))
    path.chmod(0o444)
    with Records(path, may_create=False) as opened:
        assert len(opened.all()) == 1
        with pytest.raises(RecordError, match="cannot be written"):
            opened.add(measured(2.0))


OLD = Path(__file__).parent / "fixtures"
OLD_UIDS = ["dddb4621c7eabbe29f4f", "44807e2b7deaa51bf239", "86d1d8857267af85629e"]
"""Of the records of version 1, as the Metol that made them told."""


def old_records() -> list[Record]:
    return [Record.from_line(line) for line in (OLD / "records_version_1.jsonl").read_text().splitlines()]


def make_old(path: Path) -> None:
    """Make the database that version 1 left."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLD / "records_version_1.sql").read_text())


def columns(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {(row[1], row[2], row[3], row[4]) for row in connection.execute("PRAGMA table_info(record)")}


def test_lines_of_version_1_are_the_same_records_still() -> None:
    kept = old_records()
    assert [record.uid for record in kept] == OLD_UIDS
    assert [record.nest for record in kept] == [""] * 3
    assert [Record.from_line(record.to_line()) for record in kept] == kept


def test_a_database_of_version_1_keeps_its_records(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")
    with Records(tmp_path / "old.db", may_create=False) as opened:
        assert list(opened.all()) == old_records()
        assert [opened.find(uid).uid for uid in OLD_UIDS] == OLD_UIDS
        assert opened.add(*old_records()) == 0


def test_a_database_of_version_1_takes_records_with_nests(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")
    new = measured(1.0, nest="some decisions")
    with Records(tmp_path / "old.db") as opened:
        assert opened.add(new) == 1
    with Records(tmp_path / "old.db") as opened:
        assert opened.all()[-1] == new


def test_a_database_of_version_1_becomes_like_a_new_one(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")
    for name in ("old.db", "new.db"):
        Records(tmp_path / name).close()
    assert columns(tmp_path / "old.db") == columns(tmp_path / "new.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.slow
def test_a_database_of_version_1_is_brought_up_to_date_by_one_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_old(path)
    writers = [start_writer(path, f"session {i}", 5) for i in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    for writer in writers:
        writer.stdout.close()
    with Records(path) as opened:
        assert len(opened.all()) == 3 + 15


def test_a_nest_counts_in_the_uid() -> None:
    assert len({measured(1.0, nest=nest).uid for nest in ("", "a", "b")}) == 3


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_records import measured
from metol.tune import Records
with Records(sys.argv[1]) as database:
    for number in range(int(sys.argv[4])):
        database.add(measured(float(number + 1), session=sys.argv[2]))
        print(number, flush=True)
"""


def start_writer(path: Path, session: str, count: int) -> subprocess.Popen:
    here = str(Path(__file__).parent)
    arguments = [sys.executable, "-c", WRITER, str(path), session, here, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    writers = [start_writer(path, f"session {i}", 20) for i in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    for writer in writers:
        writer.stdout.close()
    with Records(path) as opened:
        assert sorted(opened.sessions()) == [f"session {i}" for i in range(3)]
        assert len(opened.all()) == 60


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_it_was_told_is_written(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    for attempt in range(4):
        writer = start_writer(path, f"attempt {attempt}", 10_000)
        told = 0
        while told < 3 + 5 * attempt:
            told = int(writer.stdout.readline()) + 1
        time.sleep(0.003 * attempt)  # somewhere in the middle of the next
        writer.kill()
        told = max([told, *(int(line) + 1 for line in writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()
        with Records(path) as opened:
            kept = [record.run_ms for record in opened.all(session=f"attempt {attempt}")]
            assert kept[:told] == [float(number + 1) for number in range(told)]
            assert len(kept) <= told + 1
