import json
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS
from command_line import metol

from metol import option_gains
from metol.measure import PipelineSource
from metol.option_gains import OptionRow, OptionsFile, options_notes, options_tables, run_options
from metol.switches import Switch, switches

SAMPLING, FIXED, STORAGE = (
    Switch("sampling", False, "a sample is looked at"),
    Switch("fixed_sizes", False, "sizes are fixed"),
    Switch("storage", True, "storage is chosen"),
)

PIPELINES = """
import halide as hl

def pairs():
    x, y = hl.Var("x"), hl.Var("y")
    source, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
    result[x, y] = source[x, y] + source[x + 1, y]
    source.set_estimates([(0, 65), (0, 48)])
    result.set_estimates([(0, 64), (0, 48)])
    return result
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PIPELINES)
    return tmp_path / "mine.py"


@pytest.mark.slow
def test_options_are_timed_and_those_alike_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, turned = [PipelineSource.parse(f"{file}:pairs")], (SAMPLING, FIXED)
    rows = list(run_options(sources, turned, BRIEF_OPTIONS, circumstances="here"))
    assert [row.option for row in rows] == ["default", "sampling=True", "fixed_sizes=True"]
    assert options_notes(rows) == ()
    assert all(row.run_ms and row.predicted_ms and row.search_seconds for row in rows)
    assert rows[0].digest == rows[1].digest != rows[2].digest
    assert rows[0].run_ms == rows[1].run_ms
    monkeypatch.setattr(option_gains, "schedule_variant", lambda *_: pytest.fail("searched again"))
    assert list(run_options(sources, turned, BRIEF_OPTIONS, circumstances="here", known=rows)) == rows


def row(app: str, option: str, digest: str, run_ms: float | None, predicted_ms: float, note: str = "") -> OptionRow:
    return OptionRow(app, option, "here", digest, run_ms, predicted_ms, 0.5, note)


ROWS = (
    row("a", "default", "0", 2.0, 3.0),
    row("a", "storage=False", "1", 4.0, 6.0),
    row("a", "fixed_sizes=True", "2", 1.0, 3.0),
    row("b", "default", "3", 2.0, 3.0),
    row("b", "storage=False", "3", 2.0, 3.0),
    row("b", "fixed_sizes=True", "4", None, 3.0, "wrong_result: why"),
)


def test_tables_hold_time_with_the_part_off_over_time_with_it_on() -> None:
    summary, run_times, predicted = options_tables(ROWS, (STORAGE, FIXED))
    assert run_times.headers == ("app", "storage", "fixed_sizes")
    assert run_times.rows == (("a", "2.000", "2.000"), ("b", "=", "–"))
    assert run_times.summary[0][1:] == ("1.414 (2)", "2.000 (1)")
    assert predicted.rows == (("a", "2.000", "1.000"), ("b", "=", "1.000"))
    assert summary.rows[0] == ("storage: storage is chosen", "on", "1.414 (2)", "1.414 (2)", "1.000 (2)", "1")
    assert summary.rows[1][:2] == ("fixed_sizes: sizes are fixed", "off")
    assert options_notes(ROWS) == ("b, fixed_sizes=True: wrong_result: why",)


def test_rows_survive_the_file(tmp_path: Path) -> None:
    file = OptionsFile(tmp_path / "rows.jsonl")
    for one in ROWS:
        file.append(one)
    assert file.load() == ROWS


@pytest.mark.slow
def test_command_prints_and_writes_its_tables(file: Path) -> None:
    words = ("bench", "mine.py:pairs", "--options", "--rounds", "1", "--json", "rows.jsonl", "--markdown", "page.md")
    done = metol(*words, cwd=file.parent)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "…" not in done.stdout  # every column is wide enough
    page = (file.parent / "page.md").read_text()
    for switch in switches():
        assert f"| {switch.name}: {switch.meaning} |" in page
    rows = [json.loads(line) for line in (file.parent / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 1 + len(switches())
