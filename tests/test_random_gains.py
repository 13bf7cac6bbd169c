import json
from pathlib import Path

import pytest
from command_line import metol

from metol import random_gains
from metol.measure import RunOptions, Scheduler, TimingPlan
from metol.random_gains import FIRST_SEED, RandomFile, RandomGain, random_notes, random_tables, run_random

OPTIONS = RunOptions(timing=TimingPlan(round_seconds=0.005, min_rounds=2, max_rounds=2), timeout_seconds=60)
PEERS = (Scheduler("reference"), Scheduler("mullapudi2016"))


def run(known: tuple[RandomGain, ...] = ()) -> list[RandomGain]:
    return list(run_random(1, PEERS, OPTIONS, most_funcs=4, circumstances="here", known=known))


def test_programs_are_measured_until_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    *others, last = rows = run()
    assert all(not row.run_ms and "predicted to take" in row.notes[0] for row in others)
    assert [name for name, _ in last.run_ms] == ["metol", "reference", "mullapudi2016"]
    assert last.is_right, last.notes
    assert last.gain_over("reference") == dict(last.run_ms)["reference"] / dict(last.run_ms)["metol"]
    seeds = [int(row.app.removeprefix("random:").partition("/")[0]) for row in rows]
    assert seeds == list(range(FIRST_SEED, FIRST_SEED + len(rows)))
    monkeypatch.setattr(random_gains, "schedule_variant", lambda *_: pytest.fail("searched again"))
    assert run(tuple(rows)) == rows


def gain(app: str, own: float | None, peer: float | None, *notes: str) -> RandomGain:
    return RandomGain(app, "here", 1.0, (("metol", own), ("p", peer)), notes)


ROWS = (
    gain("a", 1.0, 2.0),
    gain("b", 2.0, 1.0),
    gain("c", 1.0, 8.0),
    gain("d", 1.0, None, "p: timeout: over 60 s"),
    gain("e", None, 1.0, "metol: wrong_result: why"),
    RandomGain("f", "here", 0.001, notes=("predicted to take 0.001 ms",)),
)


def test_table_tells_the_mean_and_the_spread_of_what_both_could() -> None:
    (table,) = random_tables(ROWS)
    assert table.rows == (("p", "3", "2.00×", "67 %", "0.50×", "2.00×", "8.00×", "1"),)
    assert table.summary[0][:2] == ("metol", "4")
    assert table.summary[0][-1] == "1"


def test_notes_count_what_went_wrong_and_name_what_is_ours() -> None:
    assert random_notes(ROWS) == (
        "e, metol: wrong_result: why",
        "p: timeout: 1 programs",
        "the slowest schedule takes 8.00 ms",
    )
    assert random_notes(()) == ()


def test_a_peer_that_always_fails_has_no_mean() -> None:
    (table,) = random_tables(ROWS[3:4])
    assert table.rows == (("p", "0", *["–"] * 5, "1"),)


def test_rows_survive_the_file(tmp_path: Path) -> None:
    file = RandomFile(tmp_path / "rows.jsonl")
    for one in ROWS:
        file.append(one)
    assert file.load() == ROWS


def test_programs_cannot_be_named() -> None:
    done = metol("bench", "harris", "--random", "1")
    assert done.returncode == 2
    assert "draws its own programs" in done.stderr


@pytest.mark.slow
def test_command_prints_and_writes_its_table(tmp_path: Path) -> None:
    words = ("--schedulers", "metol,mullapudi2016", "--rounds", "1", "--json", "rows.jsonl", "--markdown", "page.md")
    done = metol("bench", "--random", "1", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "random programs" in done.stdout
    assert "| mullapudi2016 | 1 |" in (tmp_path / "page.md").read_text()
    assert all(
        json.loads(line)["app"].startswith("random:") for line in (tmp_path / "rows.jsonl").read_text().splitlines()
    )
