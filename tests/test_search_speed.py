import json
from dataclasses import replace
from pathlib import Path

import pytest
from slow_cases import slow_but

from metol.bench_device import find_bench_device
from metol.errors import MetolError
from metol.measure import PipelineSource, Scheduler, SearchMeasurement, measure_search
from metol.provenance import Provenance
from metol.report import (
    GPU_SPEED_MARKS,
    SPEED_BEGIN_MARK,
    SPEED_END_MARK,
    search_speed_table,
    search_time_table,
    update_search_speed_markdown,
)
from metol.search_speed import SearchSpeedReport, run_search_speed

PIPELINES = """
import halide as hl

def ramp():
    x, y = hl.Var("x"), hl.Var("y")
    first, result = hl.Func("first"), hl.Func("ramp")
    first[x, y] = x + y
    result[x, y] = first[x, y] + first[x + 1, y]
    result.set_estimates([(0, 640), (0, 480)])
    return result
"""

ROWS = (
    SearchMeasurement("a", "metol", 2.0, 1000, 100.0, 0.5),
    SearchMeasurement("a", "adams2019", 8.0, 400, 200.0),
    SearchMeasurement("b", "metol", 1.0, 800, 100.0),
    SearchMeasurement("b", "adams2019", detail="timeout: over 3 s"),
)


@pytest.fixture
def source(tmp_path: Path) -> PipelineSource:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    return PipelineSource.parse(f"{tmp_path / 'pipelines.py'}:ramp")


def report_of(rows: tuple[SearchMeasurement, ...]) -> SearchSpeedReport:
    return SearchSpeedReport("metol bench --search-speed", 2, Provenance.collect(), rows)


@pytest.mark.parametrize("scheduler", ["metol:beam_width=4", "adams2019"])
def test_a_search_is_counted_timed_and_weighed(source: PipelineSource, scheduler: str) -> None:
    row = measure_search(source, Scheduler.parse(scheduler), threads=1, timeout_seconds=60)
    assert row.detail == ""
    assert row.candidates > 10
    assert row.seconds is not None
    assert 0 < row.seconds < 60
    assert row.peak_mib is not None
    assert 20 < row.peak_mib < 4000
    if scheduler == "adams2019":
        assert row.costing_seconds is None
    else:
        assert row.costing_seconds is not None
        assert 0 < row.costing_seconds < row.seconds


def test_a_scheduler_that_does_not_count_has_no_rate(source: PipelineSource) -> None:
    row = measure_search(source, Scheduler.parse("reference"), threads=1, timeout_seconds=60)
    assert (row.candidates, row.candidates_per_second, row.detail) == (0, None, "")


def test_a_failed_search_is_a_row_with_its_reason(source: PipelineSource, tmp_path: Path) -> None:
    saved: list[SearchSpeedReport] = []
    missing = PipelineSource.parse(f"{tmp_path / 'pipelines.py'}:nothing")
    report = run_search_speed(
        [missing, source],
        [Scheduler("reference")],
        threads=1,
        timeout_seconds=60,
        command="x",
        save=saved.append,
    )
    assert [len(part.rows) for part in saved] == [1, 2]
    assert "has no function `nothing`" in report.rows[0].detail
    assert report.rows[1].detail == ""


def test_of_short_searches_the_median_counts(source: PipelineSource, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"reference": [0.5, 0.2, 0.3], "mullapudi2016": [2.0], "metol": [None]}

    def measured(source: PipelineSource, scheduler: Scheduler, **_: object) -> SearchMeasurement:
        return SearchMeasurement(source.label, str(scheduler), seconds[scheduler.name].pop(0))

    monkeypatch.setattr("metol.search_speed.measure_search", measured)
    schedulers = [Scheduler(name) for name in seconds]
    report = run_search_speed([source], schedulers, threads=1, timeout_seconds=60, command="x")
    assert [(row.scheduler, row.seconds) for row in report.rows] == [
        ("reference", 0.3),
        ("mullapudi2016", 2.0),
        ("metol", None),
    ]
    assert not any(seconds.values())


def test_table_compares_rates_and_times() -> None:
    table = search_speed_table(ROWS)
    assert table.rows[0] == ("a", "500", "2000", "2.00", "100", "50", "8.00", "200", "10.0×", "40.0×", "4.0×")
    assert table.rows[1] == ("b", "800", "800", "1.00", "100", "–", "timeout", "–", "–", "–", "–")
    assert table.summary[0][-3:] == ("10.0× (1)", "40.0× (1)", "4.0× (1)")


def test_report_is_saved_and_put_between_its_marks(tmp_path: Path) -> None:
    report = report_of(ROWS)
    report.save(tmp_path / "speed.json")
    content = json.loads((tmp_path / "speed.json").read_text())
    assert content["version"] == 1
    assert content["rows"][0]["candidates"] == 1000
    page = tmp_path / "page.md"
    page.write_text(f"before\n{SPEED_BEGIN_MARK}\nold\n{SPEED_END_MARK}\nafter\n")
    update_search_speed_markdown(page, report)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| a | 500 |" in text
    assert "timeout: over 3 s" in text


def test_a_page_without_the_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(MetolError, match="no place for the table"):
        update_search_speed_markdown(page, report_of(ROWS))
    assert page.read_text() == "nothing"


GPU_ROWS = (
    SearchMeasurement("a", "metol-analytical", 0.5, 1000, 100.0),
    SearchMeasurement("a", "anderson2021", 8.0, 400, 200.0),
    SearchMeasurement("a", "li2018", 0.005, 0, 90.0),
    SearchMeasurement("b", "metol-analytical", 2.0, 1000, 110.0),
    SearchMeasurement("b", "anderson2021", detail="timeout: over 60 s"),
    SearchMeasurement("b", "li2018", detail="crash: killed by SIGABRT"),
)


def test_table_of_searches_for_a_gpu_compares_times() -> None:
    table = search_time_table(GPU_ROWS)
    assert table.rows == (
        ("a", "0.500", "100", "8.00", "200", "0.0050", "90", "16.0×", "0.01×"),
        ("b", "2.00", "110", "timeout", "–", "crash", "–", "–", "–"),
    )
    means, faster = table.summary
    assert means[1:] == ("1.00 (2)", "", "8.00 (1)", "", "0.0050 (1)", "", "16.0× (1)", "0.01× (1)")
    assert faster[-2:] == ("2 of 2", "0 of 1")  # Anderson2021 was given up on b, and Li2018 crashed
    assert {len(line) for line in (table.headers, *table.rows, *table.summary)} == {9}


def test_table_of_searches_for_a_gpu_has_a_scheduler_alone() -> None:
    (means,) = search_time_table(GPU_ROWS[:1]).summary
    assert means == ("geometric mean (apps)", "0.500 (1)", "")


def test_report_about_a_gpu_goes_between_marks_of_its_own(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(("before", *GPU_SPEED_MARKS, "after")))
    update_search_speed_markdown(page, replace(report_of(GPU_ROWS), device="NVIDIA A100"))
    text = page.read_text()
    assert "`metol bench --search-speed`, for NVIDIA A100 with 2 threads" in text
    assert "| a | 0.500 |" in text
    assert "b, anderson2021: timeout: over 60 s" in text


@pytest.mark.parametrize(
    "scheduler",
    slow_but(["anderson2021"], ["metol-analytical", "anderson2021", "li2018", "mullapudi2016"]),
)
def test_searches_for_a_gpu_need_none(source: PipelineSource, scheduler: str) -> None:
    device = find_bench_device("a100", threads=1)
    report = run_search_speed(
        [source], [Scheduler.parse(scheduler)], threads=1, timeout_seconds=60, command="x", device=device
    )
    (row,) = report.rows
    assert (row.scheduler, row.detail) == (scheduler, "")
    assert row.seconds is not None
    assert report.device == "NVIDIA A100 40 GB"
