import json
from pathlib import Path

import pytest
from command_line import metol

from metol.errors import MetolError
from metol.measure import Measurement, RunOptions, Status
from metol.switches import switches
from metol.targets.gpu import detect_gpu
from metol.verify_random import RandomRun, RecordFile, summary

OPTIONS = RunOptions(threads=2, timeout_seconds=120, timing=None)
OLD_RECORDS = Path(__file__).parent / "fixtures" / "verified_programs_version_1.jsonl"


def failures(run: RandomRun, *, jobs: int = 2) -> list[str]:
    rows = list(run.verify(OPTIONS, jobs=jobs))
    assert len(rows) == run.row_count
    return [f"{run.reproduction(row)}: {row.status.value}: {row.detail}" for row in rows if not row.verified]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_searched_schedules_of_small_random_programs_are_right() -> None:
    assert failures(RandomRun(6, most_funcs=6)) == []


@pytest.mark.slow
def test_searched_schedules_of_random_programs_are_right() -> None:
    assert failures(RandomRun(8, seed=8, most_funcs=12)) == []


@pytest.mark.slow
def test_command_appends_rows_and_skips_them_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "out" / "rows.jsonl"
    words = ("--most-funcs", "2", "--schedules", "random", "--json", str(file))
    first = metol("verify-random", "--count", "1", *words)
    assert first.returncode == 0, first.stderr
    assert "1 of 1" in first.stdout
    known = file.read_text()
    second = metol("verify-random", "--count", "2", *words)
    assert second.returncode == 0, second.stderr
    assert "2 of 2" in second.stdout
    assert file.read_text().startswith(known)
    assert [row.app for row in RecordFile(file).load()] == [f"random:{seed}/most_funcs=2" for seed in (0, 1)]


def test_failure_is_told_with_the_command_that_shows_it_again() -> None:
    done = metol("verify-random", "--count", "1", "--seed", "7", "--timeout", "0.01", "--most-funcs", "3")
    assert done.returncode == 1
    assert "random:7/most_funcs=3: timeout" in done.stderr
    assert "metol bench random:7/most_funcs=3 --schedulers metol:" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("device", ["opencl", "a100"])
def test_schedules_for_gpus_are_verified_where_there_is_none(device: str, tmp_path: Path) -> None:
    words = ("--gpu", "--device", device, "--seed", "3", "--most-funcs", "4", "--json", str(tmp_path / "rows.jsonl"))
    done = metol("verify-random", "--count", "2", "--schedules", "both", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 of 2") == 2
    # Of the same programs on the CPU, nothing is known.
    on_cpu = metol("verify-random", "--count", "1", "--seed", "3", "--timeout", "0.01", *words[5:])
    assert on_cpu.returncode == 1
    assert "random:3/most_funcs=4: timeout" in on_cpu.stderr


def test_failure_on_a_device_is_told_with_its_name() -> None:
    words = ("--gpu", "--device", "a100", "--count", "1", "--seed", "7", "--timeout", "0.01", "--most-funcs", "3")
    done = metol("verify-random", *words, "--schedules", "searched,random,switched", "--samples", "2")
    assert done.returncode == 1
    again = "metol verify-random --gpu --device a100 --count 1 --seed 7 --most-funcs 3"
    assert f"{again}\n" in done.stderr
    assert f"{again} --schedules random --samples 2\n" in done.stderr
    assert f"{again} --schedules switched --samples 2\n" in done.stderr


@pytest.mark.skipif(detect_gpu() is not None, reason="there is a GPU")
def test_gpu_that_is_missing_is_told_with_exit_code_3() -> None:
    done = metol("verify-random", "--gpu", "--count", "1")
    assert done.returncode == 3
    assert "`--device opencl`" in done.stderr


def test_device_without_gpu_is_a_mistake() -> None:
    done = metol("verify-random", "--device", "opencl")
    assert done.returncode == 2
    assert "add `--gpu`" in done.stderr


def test_mistake_is_told_in_one_line_with_exit_code_2() -> None:
    done = metol("verify-random", "--schedules", "some")
    assert done.returncode == 2
    assert "no `some` schedules; there are searched, random, switched." in done.stderr


def test_each_program_has_random_schedules_of_its_own() -> None:
    tasks = list(RandomRun(3, seed=5, schedules=("searched", "random"), samples=2).tasks())
    schedulers = [str(scheduler) for _, schedulers in tasks for scheduler in schedulers]
    assert len(schedulers) == 9
    assert len(set(schedulers)) == 7  # the search is the same for all


def test_switched_schedules_have_one_option_at_least_that_is_not_the_default() -> None:
    run = RandomRun(40, schedules=("random", "switched"), samples=3)
    drawn = [scheduler for _, schedulers in run.tasks() for scheduler in schedulers]
    assert len(drawn) == run.row_count == 240
    defaults = {switch.name: switch.is_on for switch in switches()}
    seen = set()
    for scheduler in drawn:
        options = dict(scheduler.options)
        turned = {name for name, value in options.items() if name in defaults and value != defaults[name]}
        assert turned >= {"refine"}
        seen |= turned
    assert sum(len(scheduler.options) > 3 for scheduler in drawn) == 120
    assert seen == defaults.keys()


@pytest.mark.slow
def test_switched_schedules_are_told_apart_and_verified(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    words = ("--most-funcs", "4", "--schedules", "random,switched", "--samples", "1", "--json", str(file))
    done = metol("verify-random", "--count", "1", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1 of 1") == 2
    assert "switched" in done.stdout


@pytest.mark.parametrize("bad", [{"count": 0}, {"count": 1, "samples": 0}])
def test_counts_that_make_no_sense_raise(bad: dict[str, int]) -> None:
    with pytest.raises(MetolError, match="at least 1 program and 1 sample"):
        RandomRun(**bad)


def row(app: str = "random:1/most_funcs=30", **fields: object) -> Measurement:
    return Measurement(app, "metol:strategy=random/refine=False/seed=1000", **fields)


def test_rows_survive_the_file_and_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "rows.jsonl")
    assert file.load() == ()
    rows = (row(), row(status=Status.TIMEOUT, detail="late"))
    file.append(rows[0])
    with file.path.open("a") as text:
        text.write('{"version": 1, "app": "rand')
    assert file.load() == rows[:1]
    file.append(rows[1])
    assert file.load() == rows


def test_old_version_is_read() -> None:
    verified, failed = RecordFile(OLD_RECORDS).load()
    assert verified.verified
    assert failed.status is Status.WRONG_RESULT


@pytest.mark.parametrize(
    ("line", "message"), [("{}", "not a file of verified programs"), (json.dumps({"version": 99}), "has version 99")]
)
def test_other_files_are_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(MetolError, match=message):
        RecordFile(path).load()


def test_only_rows_of_this_run_count() -> None:
    rows = [row(), row("random:9/most_funcs=30"), row("random:1/most_funcs=5")]
    assert list(RandomRun(3, schedules=("random",)).known(rows)) == rows[:1]


def test_summary_counts_what_became_of_the_schedules() -> None:
    table = summary([row(verified=True), row(status=Status.WRONG_RESULT), row(status=Status.WRONG_RESULT)])
    cells = {column.header: list(column.cells) for column in table.columns}
    assert cells["schedules"] == ["random"]
    assert cells["verified"] == ["1 of 3"]
    assert cells["wrong_result"] == ["2"]
