import csv
from pathlib import Path

import pytest
from command_line import PIPELINES

from metol.bench_device import BenchDevice
from metol.experiments import RooflinePoint, roofline_points, save_roofline
from metol.measure import Measurement, PipelineSource, Status
from metol.targets.gpu import GpuMachine
from metol.work import Work

DEVICE = BenchDevice(GpuMachine.preset("rtx2080ti", threads=2))
LIGHT, HEAVY = Work(1e6, 5_000_000, 5_000_000), Work(1e12, 50_000_000, 50_000_000)


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_points_are_drawn_and_written_with_their_share_of_the_roof(tmp_path: Path) -> None:
    points = (
        RooflinePoint("light", "metol-analytical", 0.1, LIGHT),
        RooflinePoint("light", "li2018", 0.4, LIGHT),
        RooflinePoint("heavy", "metol-analytical", 100.0, HEAVY),
        *(RooflinePoint(f"like_it_{number}", "li2018", 200.0, HEAVY) for number in range(30)),
    )
    picture, table = save_roofline(tmp_path / "plots", DEVICE, points)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = read(table)
    assert len(rows) == len(points)
    # 10 MB at 616 GB/s take 0.01623 ms; 10^12 operations at 13.45 T/s take 74.4 ms.
    assert float(rows[0]["of_roof"]) == pytest.approx(0.1623, rel=1e-3)
    assert float(rows[1]["of_roof"]) == pytest.approx(0.1623 / 4, rel=1e-3)
    assert float(rows[2]["of_roof"]) == pytest.approx(0.744, rel=1e-3)
    assert float(rows[2]["operations_per_byte"]) == 10_000


def test_roof_is_drawn_where_nothing_ran(tmp_path: Path) -> None:
    picture, table = save_roofline(tmp_path, DEVICE, ())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert read(table) == []


def test_points_are_right_schedules_with_the_work_of_their_pipeline(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    source = PipelineSource.parse(f"{tmp_path / 'pipelines.py'}:ramp")
    rows = (
        Measurement(source.label, "metol-analytical", run_ms=2.0, verified=True),
        Measurement(source.label, "li2018", Status.WRONG_RESULT, run_ms=1.0),
    )
    (point,) = roofline_points([source], rows)
    assert point.scheduler == "metol-analytical"
    # One addition a point, and four bytes of it.
    assert point.work == Work(640 * 480, 0, 4 * 640 * 480)
    assert point.operations_per_second == pytest.approx(640 * 480 / 2e-3)
