import json
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS
from command_line import metol

from metol import tails_cost
from metol.measure import PipelineSource
from metol.tails_cost import TailsFile, TailsRow, run_tails, tails_notes, tails_table

PIPELINES = """
import halide as hl

def blur():
    x, y = hl.Var("x"), hl.Var("y")
    source, rows, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("rows"), hl.Func("result")
    rows[x, y] = source[x, y] + source[x + 1, y]
    result[x, y] = rows[x, y] + rows[x, y + 1]
    source.set_estimates([(0, 68), (0, 48)])
    result.set_estimates([(0, 67), (0, 47)])
    return result
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PIPELINES)
    return tmp_path / "mine.py"


def run(file: Path, name: str, known: tuple[TailsRow, ...] = ()) -> TailsRow:
    source = PipelineSource.parse(f"{file}:{name}")
    (row,) = run_tails([source], BRIEF_OPTIONS, circumstances="here", known=known)
    return row


def test_both_kinds_of_tails_are_verified_and_timed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = run(file, "blur")
    assert row.safe_ms is not None, row.note
    assert row.unsafe_ms is not None, row.note
    assert row.ratio == row.safe_ms / row.unsafe_ms
    monkeypatch.setattr(tails_cost, "schedule_variant", lambda *_: pytest.fail("searched again"))
    assert run(file, "blur", (row,)) == row


def row(app: str, safe_ms: float | None, unsafe_ms: float | None, note: str = "") -> TailsRow:
    return TailsRow(app, "here", safe_ms, unsafe_ms, note)


ROWS = (row("a", 2.0, 1.0), row("b", 2.0, 4.0, "inputs larger"), row("c", 3.0, None, "unsafe: wrong_result: why"))


def test_table_has_ratios_and_their_mean() -> None:
    table = tails_table(ROWS)
    assert [line[-1] for line in table.rows] == ["2.000", "0.500", "–"]
    assert table.summary[0][-1] == "1.000 (2)"
    assert tails_notes(ROWS) == ("b: inputs larger", "c: unsafe: wrong_result: why")


def test_rows_survive_the_file(tmp_path: Path) -> None:
    file = TailsFile(tmp_path / "rows.jsonl")
    for one in ROWS:
        file.append(one)
    assert file.load() == ROWS


@pytest.mark.slow
def test_command_prints_and_writes_its_table(file: Path) -> None:
    words = ("bench", "mine.py:blur", "--tails", "--rounds", "1", "--json", "rows.jsonl", "--markdown", "page.md")
    done = metol(*words, cwd=file.parent)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "safe / unsafe" in done.stdout
    assert "| mine.py:blur |" in (file.parent / "page.md").read_text()
    assert json.loads((file.parent / "rows.jsonl").read_text())["safe_ms"] > 0
