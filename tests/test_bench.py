import json
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS
from command_line import PIPELINES
from running_children import children

import metol_apps
from metol import SearchOptions, autoschedule
from metol.bench import BenchReport, parse_sources, run_bench
from metol.bench_device import find_bench_device
from metol.errors import MetolError, UnknownAppError
from metol.measure import PipelineSource, Scheduler, Status


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    return tmp_path / "pipelines.py"


@pytest.mark.parametrize("jobs", [1, 2])
def test_bench_measures_each_source_and_saves_after_each(file: Path, tmp_path: Path, jobs: int) -> None:
    sources = [PipelineSource.parse(f"{file}:{name}") for name in ("ramp", "nothing")]
    saved: list[BenchReport] = []
    report = run_bench(
        sources,
        [Scheduler("reference"), Scheduler("mullapudi2016")],
        options=BRIEF_OPTIONS,
        command="x",
        save=saved.append,
        jobs=jobs,
    )
    assert [len(part.rows) for part in saved] == [2, 4]
    assert saved[-1] == report
    assert [row.status for row in report.rows] == [Status.OK, Status.OK, *[Status.SCHEDULE_FAILED] * 2]
    assert "has no function `nothing`" in report.rows[2].detail
    report.save(tmp_path / "out" / "rows.json")
    assert BenchReport.load(tmp_path / "out" / "rows.json") == report


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_child_outlives_a_bench_that_is_interrupted(file: Path, jobs: int) -> None:
    def interrupt(_: BenchReport) -> None:
        raise KeyboardInterrupt

    sources = [PipelineSource.parse(f"{file}:ramp")] * 2
    before = children()
    with pytest.raises(KeyboardInterrupt):
        run_bench(sources, [Scheduler("reference")], options=BRIEF_OPTIONS, command="x", save=interrupt, jobs=jobs)
    assert children() == before


@pytest.mark.slow
def test_an_interrupt_ends_what_is_being_prepared(file: Path, tmp_path: Path) -> None:
    file.write_text(f"{PIPELINES}\n\ndef endless():\n    import time\n    time.sleep(1000)\n")
    sources = [PipelineSource.parse(f"{file}:endless")] * 2
    before, main = children(), threading.get_ident()
    timer = threading.Timer(2.0, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_bench(sources, [Scheduler("reference")], options=BRIEF_OPTIONS, command="x", jobs=2)
    assert children() == before


def test_a_folder_of_schedules_has_one_for_each_source_or_fails(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file.write_text(PIPELINES + PIPELINES.replace("ramp", "slope"))
    sources = [PipelineSource.parse(f"{file}:{name}") for name in ("ramp", "slope")]
    (tmp_path / "best").mkdir()
    autoschedule(sources[0].build(), options=SearchOptions(strategy="greedy")).save(
        tmp_path / "best" / f"{sources[0].label}.json"
    )
    schedulers = [Scheduler.parse("schedule:best"), Scheduler("reference")]
    rows = run_bench(sources, schedulers, options=BRIEF_OPTIONS, command="x").rows
    assert [(row.scheduler, row.status) for row in rows] == [
        ("schedule:best", Status.OK),
        ("reference", Status.OK),
        ("schedule:best", Status.SCHEDULE_FAILED),
        ("reference", Status.OK),
    ]
    assert rows[2].detail == f"There is no schedule of {sources[1].label} in `best`."


def test_result_file_names_machine_versions_and_commit(file: Path, tmp_path: Path) -> None:
    report = run_bench([], [], options=BRIEF_OPTIONS, command="metol bench", save=lambda _: None)
    report.save(tmp_path / "rows.json")
    content = json.loads((tmp_path / "rows.json").read_text())
    assert content["command"] == "metol bench"
    assert content["rows"] == []
    assert {"cpu", "cores", "cache_bytes", "memory_gib", "target", "system", "versions", "commit"} == set(
        content["machine"]
    )
    assert {"metol", "halide", "numpy", "python"} == set(content["machine"]["versions"])


def test_result_file_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"version": 99}')
    with pytest.raises(MetolError, match="version 99"):
        BenchReport.load(tmp_path / "rows.json")


@pytest.mark.parametrize("suite", ["core", "full"])
def test_sources_are_a_suite_where_none_is_named(suite: str) -> None:
    assert tuple(source.location for source in parse_sources((), suite)) == metol_apps.names(suite)


def test_unknown_suite_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownAppError, match="`most`; choose one of core, full"):
        parse_sources((), "most")


def test_sources_are_those_that_are_named_whatever_the_suite() -> None:
    assert [source.location for source in parse_sources(("blur",), "full")] == ["blur"]


def test_unknown_app_is_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownAppError, match="nothing"):
        parse_sources(("harris", "nothing"))


def test_report_keeps_its_options(file: Path) -> None:
    report = run_bench([], [], options=replace(BRIEF_OPTIONS, threads=1), command="")
    assert (report.threads, report.timeout_seconds) == (1, 60)


def test_sources_of_a_suite_are_those_that_have_the_size() -> None:
    sources = parse_sources((), "full", "large")
    assert all(source.app().output_shape[-1] in range(3840 - 41, 4097) for source in sources)
    assert "conv_layer" not in {source.location for source in sources}
    assert {"matmul", "harris", "bgu"} <= {source.location for source in sources}


def test_sizes_are_those_of_applications(file: Path) -> None:
    with pytest.raises(MetolError, match="leave `--size small` out"):
        parse_sources((f"{file}:ramp",), "core", "small")


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_bench_tells_schedulers_of_the_device_and_names_columns_as_asked(file: Path, tmp_path: Path) -> None:
    source = PipelineSource.parse(f"{file}:ramp")
    device = find_bench_device("opencl", threads=1)
    schedulers = [Scheduler.parse(text) for text in ("metol-analytical", "li2018", "adams2019")]
    report = run_bench([source], schedulers, options=replace(BRIEF_OPTIONS, threads=1), command="x", device=device)
    assert [row.scheduler for row in report.rows] == ["metol-analytical", "li2018", "adams2019"]
    assert [row.status for row in report.rows] == [Status.OK, Status.OK, Status.SCHEDULE_FAILED]
    assert report.rows[0].verified
    assert report.rows[0].run_ms is not None
    assert (report.target, report.device) == ("host-opencl", "OpenCL on a CPU")
    report.save(tmp_path / "rows.json")
    assert BenchReport.load(tmp_path / "rows.json") == report


def test_result_file_from_before_gpus_is_read(tmp_path: Path) -> None:
    report = run_bench([], [], options=BRIEF_OPTIONS, command="metol bench")
    report.save(tmp_path / "rows.json")
    content = json.loads((tmp_path / "rows.json").read_text())
    del content["target"], content["device"]
    (tmp_path / "rows.json").write_text(json.dumps(content))
    assert BenchReport.load(tmp_path / "rows.json") == report
