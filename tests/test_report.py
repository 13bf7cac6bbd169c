from pathlib import Path

import pytest

from metol.bench import BenchReport
from metol.errors import MetolError
from metol.measure import Measurement, Status
from metol.provenance import Provenance
from metol.report import BEGIN_MARK, END_MARK, bench_tables, notes, update_markdown
from metol.text_table import geometric_mean


def row(app: str, scheduler: str, run_ms: float | None, *, verified: bool = True) -> Measurement:
    status = Status.OK if run_ms else Status.COMPILE_FAILED
    return Measurement(app, scheduler, status, 2.0, 0.5, run_ms, (run_ms or 0.0,), verified, "why | how")


ROWS = (
    row("harris", "metol", 2.0),
    row("harris", "adams2019", 4.0, verified=False),
    row("hist", "metol", 10.0),
    row("hist", "adams2019", 320.0),
    row("matmul", "metol", 5.0),
    row("matmul", "adams2019", None, verified=False),
)


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return BenchReport("metol bench", 2, 300.0, Provenance.collect(), ROWS)


def test_geometric_mean_multiplies() -> None:
    assert geometric_mean([2.0, 32.0]) == pytest.approx(8)


def test_run_times_hold_speedups_over_each_other_scheduler() -> None:
    table, _ = bench_tables(ROWS)
    assert table.headers == ("app", "metol", "adams2019", "vs adams2019")
    assert table.rows == (
        ("harris", "2.00", "4.00 †", "2.00×"),
        ("hist", "10.0", "320", "32.00×"),
        ("matmul", "5.00", "compile_failed", "–"),
    )


def test_geometric_mean_counts_only_apps_where_both_are_right() -> None:
    table, _ = bench_tables(ROWS)
    assert table.summary == (("geometric mean (apps)", "", "", "8.00× (2)"),)


def test_speedups_are_of_the_first_scheduler_where_metol_was_not_measured() -> None:
    table, _ = bench_tables((row("hist", "a", 1.0), row("hist", "b", 3.0)))
    assert table.headers[-1] == "vs b"
    assert table.rows[0][-1] == "3.00×"


def test_tables_of_nothing_are_empty() -> None:
    assert bench_tables(())[0].rows == ()


def test_notes_explain_marks_and_failures() -> None:
    mark, failure = notes(ROWS)
    assert mark.startswith("†")
    assert failure == "matmul, adams2019: compile_failed: why | how"
    assert notes(ROWS[2:4]) == ()


def test_markdown_replaces_what_is_between_the_marks_alone(report: BenchReport, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text(f"before\n{BEGIN_MARK}\nold\n{END_MARK}\nafter\n")
    update_markdown(file, report)
    once = file.read_text()
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "old" not in once
    assert "| harris | 2.00 | 4.00 † | 2.00× |" in once
    assert "`metol bench` with 2 threads" in once
    assert "why / how" in once
    update_markdown(file, report)
    assert file.read_text() == once


def test_markdown_makes_a_file_where_there_is_none(report: BenchReport, tmp_path: Path) -> None:
    update_markdown(tmp_path / "docs" / "benchmarks.md", report)
    assert "# Benchmarks" in (tmp_path / "docs" / "benchmarks.md").read_text()


def test_markdown_refuses_a_file_without_marks(report: BenchReport, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("prose")
    with pytest.raises(MetolError, match="no place for the table"):
        update_markdown(file, report)
    assert file.read_text() == "prose"
