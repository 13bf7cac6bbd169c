"""Emptying caches: what is walked, by whom, and that a run's caches are emptied where that was asked for."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler, TimingPlan
from metol.measure import messages as m
from metol.measure.child import Session
from metol.measure.cold_caches import CacheWalk, cache_bytes
from metol.measure.process import Child
from metol.measure.timing import take_cold_samples

MIB = 1 << 20


def plant_cache(root: Path, cpu: int, index: int, level: str, kind: str, size: str, sharers: str) -> None:
    folder = root / f"cpu{cpu}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", sharers)):
        (folder / name).write_text(f"{text}\n")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_walk_reads_as_many_bytes_as_it_says() -> None:
    walk = CacheWalk.of_size(os.sched_getaffinity(0), 3 * MIB + 5)
    assert walk.walk() == 3 * MIB + 8 == walk.ones.nbytes


def test_walk_is_over_memory_of_its_own() -> None:
    # Pages that nothing was written to are all one and the same, which every cache has room for.
    before = resident_bytes()
    walk = CacheWalk.of_size(os.sched_getaffinity(0), 64 * MIB)
    assert resident_bytes() - before > 60 * MIB
    assert walk.ones.nbytes == 64 * MIB


def test_walk_visits_each_cpu_and_comes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    home = os.sched_getaffinity(0)
    moves: list[set[int]] = []
    move = os.sched_setaffinity

    def record(pid: int, cpus: set[int]) -> None:
        moves.append(set(cpus))
        move(pid, cpus)

    monkeypatch.setattr(os, "sched_setaffinity", record)
    CacheWalk.of_size(home, MIB).walk()
    assert moves == [*({cpu} for cpu in sorted(home)), home]
    assert os.sched_getaffinity(0) == home


def test_cache_bytes_counts_each_cache_for_data_once(tmp_path: Path) -> None:
    for cpu in range(4):
        plant_cache(tmp_path, cpu, 0, "1", "Data", "32K", str(cpu))
        plant_cache(tmp_path, cpu, 1, "1", "Instruction", "32K", str(cpu))
        plant_cache(tmp_path, cpu, 2, "2", "Unified", "1M", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}")
        plant_cache(tmp_path, cpu, 3, "3", "Unified", "80M", "0-3")
    assert cache_bytes({0, 1}, tmp_path) == 2 * 32 * 1024 + MIB + 80 * MIB
    assert cache_bytes({0, 2}, tmp_path) == 2 * 32 * 1024 + 2 * MIB + 80 * MIB


def test_cache_bytes_are_sensible_where_the_system_tells_little(tmp_path: Path) -> None:
    assert cache_bytes({0}, tmp_path) == 64 * MIB
    plant_cache(tmp_path, 0, 0, "1", "Data", "32K", "0")
    assert cache_bytes({0}, tmp_path) == 64 * MIB


def test_walk_of_a_machine_is_twice_what_its_caches_hold(tmp_path: Path) -> None:
    plant_cache(tmp_path, 0, 3, "3", "Unified", "70M", "0-1")
    plant_cache(tmp_path, 1, 3, "3", "Unified", "70M", "0-1")
    assert CacheWalk.of_machine({0, 1}, tmp_path).ones.nbytes == 140 * MIB


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_cold_samples_are_single_runs_with_caches_emptied_before_each(seconds: float) -> None:
    steps: list[str] = []
    samples = take_cold_samples(lambda: steps.append("run"), lambda: steps.append("empty"), seconds)
    assert len(samples) >= 1
    assert steps == ["run", *["empty", "run"] * len(samples)]


def test_child_empties_caches_where_it_is_asked_to(
    planted: Callable[[str], PipelineSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    class CountedWalk:
        def walk(self) -> None:
            walked.append(1)

    monkeypatch.setattr(CacheWalk, "of_machine", lambda cpus: CountedWalk())
    session = Session()
    for request in (m.Build(str(planted("blur")), "host"), m.ApplyScheduler("reference", 1), m.Compile()):
        session.answer(request)
    (case, _) = session.answer(m.MakeCases(str(tmp_path), 0)).cases
    session.answer(m.Time(case, 0.0))
    assert not walked
    cold = session.answer(m.Time(case, 0.01, is_cold=True))
    assert len(walked) == len(cold.run_ms) >= 1


@pytest.mark.slow  # twice the caches are a gigabyte on some servers
def test_run_asks_its_children_for_cold_caches(
    planted: Callable[[str], PipelineSource], brief_options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[m.Time] = []
    send = Child.send

    def record(child: Child, request: m.Request) -> None:
        if isinstance(request, m.Time):
            asked.append(request)
        send(child, request)

    monkeypatch.setattr(Child, "send", record)
    timing = TimingPlan(round_seconds=0.005, min_rounds=2, max_rounds=2, is_cold=True)
    (row,) = LocalRunner(replace(brief_options, timing=timing)).run(planted("pair"), [Scheduler("reference")])
    assert row.run_ms is not None, row.detail
    assert [request.is_cold for request in asked] == [True, True]
