"""The description of a CPU: defaults, detection, the file format and the cache."""

import itertools
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from small_pipelines import blur

from metol import autoschedule
from metol.errors import MetolError, UnsupportedTargetError
from metol.targets import choose_machine, parse_target
from metol.targets.cpu.host import available_cpus, detect_caches, page_fault_seconds_per_byte, parse_cpu_list
from metol.targets.cpu.machine import CpuMachine, MachineFormatError, default_cache_directory
from metol.targets.cpu.rates import MemoryRates, OperationRates, OverheadRates

VERSION_2 = Path(__file__).parent / "cpu_machine_version_2.json"
AVX2 = "x86-64-linux-sse41-avx-avx2-fma-f16c"
AVX512 = f"{AVX2}-avx512-avx512_skylake"


@pytest.mark.parametrize(
    ("target", "integer_bytes", "float_bytes"),
    [
        ("x86-64-linux", 16, 16),
        ("x86-64-linux-sse41-avx", 16, 32),
        (AVX2, 32, 32),
        (AVX512, 64, 64),
        ("arm-64-linux", 16, 16),
    ],
)
def test_default_takes_vector_bytes_from_the_target(target: str, integer_bytes: int, float_bytes: int) -> None:
    machine = CpuMachine.default(target)
    assert (machine.integer_vector_bytes, machine.float_vector_bytes) == (integer_bytes, float_bytes)
    assert machine.vector_bytes == float_bytes


def test_natural_vector_lanes_follow_the_type() -> None:
    machine = CpuMachine.default("x86-64-linux-sse41-avx")
    assert machine.natural_vector_lanes(8) == 16
    assert machine.natural_vector_lanes(32, is_float=True) == 8
    assert machine.natural_vector_lanes(1024) == 1


def test_default_detects_this_machine() -> None:
    machine = CpuMachine.default()
    assert machine.name
    assert machine.cores == len(available_cpus())
    assert 4 << 10 <= machine.l1_bytes < machine.l2_bytes
    assert not machine.is_calibrated


def test_default_uses_the_given_threads() -> None:
    assert CpuMachine.default(threads=1).cores == 1


def test_default_refuses_an_unknown_target() -> None:
    with pytest.raises(UnsupportedTargetError, match="pdp11"):
        CpuMachine.default("pdp11")
    with pytest.raises(UnsupportedTargetError, match="hexagon"):
        CpuMachine.default("hexagon-32-noos")


def test_a_machine_with_wider_vectors_than_the_target_is_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="vectors of integers have 32 bytes, and those of the target 16"):
        autoschedule(blur(), target="x86-64-linux-sse41", machine=CpuMachine.default(AVX2))


def test_a_machine_of_another_architecture_is_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="it is of x86-64"):
        autoschedule(blur(), target="arm-64-linux", machine=CpuMachine.default(AVX2))


@pytest.mark.parametrize(
    ("described", "target"),
    [(f"{AVX512}-avx512_cannonlake", AVX512), (AVX2, AVX512), (AVX2, AVX2.replace("linux", "windows"))],
    ids=["other features", "narrower vectors", "another system"],
)
def test_a_machine_whose_vectors_the_target_has_is_taken(described: str, target: str) -> None:
    machine = CpuMachine.default(described)
    assert choose_machine(parse_target(target), machine) == machine


def test_default_orders_the_memory_hierarchy() -> None:
    memory = CpuMachine.default(AVX2).memory
    assert memory.l2_read_bytes_per_second > memory.l3_read_bytes_per_second > memory.dram_read_bytes_per_second


def test_json_round_trip_keeps_everything(tmp_path: Path) -> None:
    machine = replace(CpuMachine.default(AVX2), is_calibrated=True, notes=("a note",))
    machine.save(tmp_path / "folder" / "machine.json")
    assert CpuMachine.load(tmp_path / "folder" / "machine.json") == machine
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["machine.json"]


def test_a_path_may_be_text(tmp_path: Path) -> None:
    machine = CpuMachine.default(AVX2)
    machine.save(str(tmp_path / "machine.json"))
    assert CpuMachine.load(str(tmp_path / "machine.json")) == machine


def test_load_reads_version_2() -> None:
    machine = CpuMachine.load(VERSION_2)
    assert machine.cores == 2
    assert machine.is_calibrated
    assert machine.operations.f32_fma_seconds == pytest.approx(2.7e-10, rel=0.1)


def _without(content: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in content.items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: {**c, "version": 99}, "version 2, not 99"),
        (lambda c: {**c, "format": "other"}, "format"),
        (lambda c: _without(c, "l2_bytes"), "l2_bytes"),
        (lambda c: {**c, "surprise": 1}, "surprise"),
        (lambda c: {**c, "cores": 0}, "cores"),
        (lambda c: {**c, "clock_hz": "fast"}, "clock_hz"),
        (lambda c: {**c, "memory": {**c["memory"], "l1_load_seconds": -1.0}}, "l1_load_seconds"),
        (lambda c: {**c, "operations": []}, "OperationRates"),
        (lambda c: {**c, "float_vector_bytes": 24}, "float_vector_bytes"),
    ],
)
def test_from_json_refuses_what_is_not_a_machine(change, message: str) -> None:
    with pytest.raises(MachineFormatError, match=message):
        CpuMachine.from_json(json.dumps(change(json.loads(VERSION_2.read_text()))))


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(MetolError, match=r"broken\.json"):
        CpuMachine.load(path)


def test_detect_returns_the_saved_calibration(tmp_path: Path) -> None:
    machine = replace(CpuMachine.default(AVX2), is_calibrated=True, clock_hz=1.25e9)
    machine.save(machine.cache_path(tmp_path))
    assert CpuMachine.detect(AVX2, cache_directory=tmp_path) == machine


def test_without_a_calibration_detect_measures_what_new_pages_cost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = CpuMachine.default(AVX2, threads=2)
    monkeypatch.setattr("metol.targets.cpu.machine.page_fault_seconds_per_byte", lambda: 3e-10)
    found = CpuMachine.detect(AVX2, threads=2, cache_directory=tmp_path)
    assert found.memory.page_fault_seconds_per_byte == 3e-10
    alone, together = (
        getattr(found.memory, name) / getattr(default.memory, name)
        for name in ("page_fault_seconds_per_byte", "page_fault_seconds_per_byte_all_threads")
    )
    assert together == pytest.approx(alone)
    assert found.with_pages(default.memory.page_fault_seconds_per_byte).rows() == default.rows()


def test_a_calibration_has_measured_new_pages_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(CpuMachine.default(AVX2).with_pages(7e-10), is_calibrated=True)
    machine.save(machine.cache_path(tmp_path))
    monkeypatch.setattr("metol.targets.cpu.machine.page_fault_seconds_per_byte", lambda: 3e-10)
    assert CpuMachine.detect(AVX2, cache_directory=tmp_path).memory.page_fault_seconds_per_byte == 7e-10


def test_what_new_pages_cost_is_rounded_so_that_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(seconds: float) -> float:
        page_fault_seconds_per_byte.cache_clear()
        monkeypatch.setattr("metol.targets.cpu.host._touch_twice", lambda: (1e-3 + seconds * (4 << 20), 1e-3))
        return page_fault_seconds_per_byte()

    assert measured(5.9e-10) == measured(7.1e-10) == pytest.approx(2**-30.5)
    assert measured(7.9e-10) == pytest.approx(2**-30)
    # What no machine takes is a disturbance.
    assert measured(-1e-9) == pytest.approx(2e-11, rel=0.2)
    assert measured(1e-6) == pytest.approx(4e-9, rel=0.2)
    page_fault_seconds_per_byte.cache_clear()
    monkeypatch.undo()
    assert 1e-11 < page_fault_seconds_per_byte() < 1e-8


def test_a_disturbance_of_either_touch_is_none_of_the_price_of_new_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    touches = itertools.cycle([(4e-3, 9e-3), (9e-3, 1e-3), (3e-3, 8e-3)])
    monkeypatch.setattr("metol.targets.cpu.host._touch_twice", lambda: next(touches))
    page_fault_seconds_per_byte.cache_clear()
    assert page_fault_seconds_per_byte() == pytest.approx(2e-3 / (4 << 20), rel=0.2)
    page_fault_seconds_per_byte.cache_clear()


def test_detect_notes_a_calibration_that_cannot_be_read(tmp_path: Path) -> None:
    path = CpuMachine.default(AVX2).cache_path(tmp_path)
    path.write_text("not json")
    machine = CpuMachine.detect(AVX2, cache_directory=tmp_path)
    assert not machine.is_calibrated
    assert "metol calibrate" in machine.notes[0]


def test_fingerprint_depends_on_the_machine_and_not_on_its_rates() -> None:
    machine = CpuMachine.default(AVX2)
    assert replace(machine, clock_hz=1e9, is_calibrated=True).fingerprint == machine.fingerprint
    others = [replace(machine, cores=77), replace(machine, l2_bytes=7), CpuMachine.default(AVX512)]
    assert len({machine.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_default_cache_directory_belongs_to_metol() -> None:
    assert "metol" in default_cache_directory().parts


def test_rows_show_every_rate_with_its_meaning() -> None:
    rows = CpuMachine.default(AVX2).rows()
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    assert all(row.meaning for row in rows)
    for group in (OperationRates, MemoryRates, OverheadRates):
        assert {item.name for item in fields(group)} <= set(names)


def _write_cache(folder: Path, level: int, kind: str, size: str, sharers: str) -> None:
    folder.mkdir(parents=True)
    texts = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": sharers, "coherency_line_size": "64"}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")


def test_detect_caches_counts_our_part(tmp_path: Path) -> None:
    for cpu in (0, 1):
        caches = tmp_path / f"cpu{cpu}" / "cache"
        _write_cache(caches / "index0", 1, "Data", "48K", str(cpu))
        _write_cache(caches / "index1", 1, "Instruction", "32K", str(cpu))
        _write_cache(caches / "index2", 2, "Unified", "2048K", "0-1")
        _write_cache(caches / "index3", 3, "Unified", "32M", "0-7")
    caches = detect_caches((0, 1), tmp_path)
    assert (caches.l1_bytes, caches.l2_bytes, caches.l3_bytes) == (48 << 10, 1 << 20, 8 << 20)


def test_detect_caches_does_not_take_a_few_cores_for_a_whole_processor(tmp_path: Path) -> None:
    for cpu in (0, 1):
        _write_cache(tmp_path / f"cpu{cpu}" / "cache" / "index3", 3, "Unified", "260M", "0-1")
    assert detect_caches((0, 1), tmp_path).l3_bytes == 32 << 20
    assert detect_caches((0,), tmp_path).l3_bytes == 16 << 20


def test_default_rates_go_by_what_the_cores_are_like() -> None:
    intel, zen4, zen5 = (
        CpuMachine.default(f"x86-64-linux-avx-avx2-f16c-fma-sse41-avx512-avx512_skylake-avx512_cannonlake-{name}")
        for name in ("avx512_sapphirerapids", "avx512_zen4", "avx512_zen4-avx512_zen5")
    )
    assert zen4.operations.f32_add_seconds == 2 * intel.operations.f32_add_seconds
    assert zen5.operations.i32_add_seconds < intel.operations.i32_add_seconds
    assert intel.memory.l3_read_bytes_per_second < zen4.memory.l3_read_bytes_per_second
    assert zen4.memory.l3_read_bytes_per_second < zen5.memory.l3_read_bytes_per_second
    assert zen4.clock_hz < zen5.clock_hz


def test_detect_caches_falls_back_to_typical_sizes(tmp_path: Path) -> None:
    assert detect_caches((0,), tmp_path).l2_bytes == 512 << 10


def test_parse_cpu_list_reads_ranges() -> None:
    assert parse_cpu_list("0-2,8\n") == (0, 1, 2, 8)
    assert parse_cpu_list("") == ()
