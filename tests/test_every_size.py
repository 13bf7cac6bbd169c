import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import metol

from metol import every_size
from metol.every_size import EverySizeFile, EverySizeRow, every_size_failures, every_size_table, run_every_size
from metol.measure import CheckOutcome, PipelineSource, RunOptions, SizeCheck
from metol.switches import Switch, switches

OPTIONS = RunOptions(timing=None, timeout_seconds=60)
SWITCHES = tuple(switch for switch in switches() if switch.name in ("storage", "fixed_sizes"))

# The reference is what the first child builds; the second child, which holds the schedule, gets another algorithm.
PIPELINES = """
import sys
from pathlib import Path
import halide as hl

def pairs(extra=0):
    x, y = hl.Var("x"), hl.Var("y")
    source, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
    result[x, y] = source[x, y] + source[x + 1, y] + extra
    source.set_estimates([(0, 65), (0, 48)])
    result.set_estimates([(0, 64), (0, 48)])
    return result

def wrong():
    mark = Path(__file__).with_suffix(".built")
    is_child = sys.argv[0].endswith("child.py")
    is_later = mark.exists()
    if is_child:
        mark.touch()
    return pairs(7 if is_child and is_later else 0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PIPELINES)
    return tmp_path / "mine.py"


def run(source: PipelineSource, *, known: tuple[EverySizeRow, ...] = (), where: str = "here") -> list[EverySizeRow]:
    return list(run_every_size([source], SWITCHES, OPTIONS, circumstances=where, known=known))


def test_every_option_is_verified_at_every_size(file: Path) -> None:
    rows = run(PipelineSource.parse(f"{file}:pairs"))
    assert [row.option for row in rows] == ["default", "storage=False", "fixed_sizes=True"]
    assert every_size_failures(rows) == ()
    assert {check.outcome for row in rows for check in row.checks} == {CheckOutcome.VERIFIED}
    assert {"1x1", "3x5", "vector-1", "vector+1", "odd"} <= {check.size for check in rows[0].checks}
    refusals = [check.detail for check in rows[2].checks if check.size != "estimated size"]
    assert all("HalideError" in detail for detail in refusals)


def test_options_that_change_nothing_share_the_checks_of_the_first(file: Path) -> None:
    default, other = run_every_size(
        [PipelineSource.parse(f"{file}:pairs")],
        [Switch("sampling", False, "")],
        OPTIONS,
        circumstances="here",
    )
    assert other.same_as == "default"
    assert (other.digest, other.checks) == (default.digest, default.checks)


@pytest.mark.slow
def test_known_rows_are_not_measured_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = PipelineSource.parse(f"{file}:pairs")
    rows = run(source)
    with monkeypatch.context() as patch:
        patch.setattr(every_size, "schedule_variant", lambda *_: pytest.fail("searched again"))
        assert run(source, known=tuple(rows)) == rows
    elsewhere = run(source, known=tuple(rows), where="elsewhere")
    assert {row.circumstances for row in elsewhere} == {"elsewhere"}


def test_pipeline_without_a_schedule_is_a_failure(file: Path) -> None:
    file.write_text("import halide as hl\ndef none():\n    f = hl.Func('f')\n    f[hl.Var('x')] = 1\n    return f\n")
    rows = run(PipelineSource.parse(f"{file}:none"))
    assert all("no schedule: " in failure and "estimate" in failure for failure in every_size_failures(rows))
    assert len(every_size_failures(rows)) == 3


def row(app: str, *outcomes: CheckOutcome, option: str = "default", same_as: str = "") -> EverySizeRow:
    checks = tuple(SizeCheck("1x1", "1x1", outcome, "why") for outcome in outcomes)
    return EverySizeRow(app, option, "0", same_as, checks, "here")


VERIFIED, NOT_ALLOWED, FAILED = CheckOutcome
ROWS = (
    row("a", VERIFIED, VERIFIED),
    row("a", VERIFIED, FAILED, option="storage=False"),
    row("b", VERIFIED, NOT_ALLOWED),
    row("b", FAILED, option="sliding=False", same_as="default"),
)


def test_table_counts_pairs_and_their_outcomes() -> None:
    table = every_size_table(ROWS)
    assert table.rows == (("a", "2", "2", "3", "0", "1"), ("b", "2", "1", "1", "1", "1"))
    assert table.summary == (("all", "4", "3", "4", "1", "2"),)


def test_failures_are_named_once_for_each_schedule() -> None:
    assert every_size_failures(ROWS) == ("a, storage=False, 1x1 1x1: why",)


def test_rows_survive_the_file(tmp_path: Path) -> None:
    file = EverySizeFile(tmp_path / "rows.jsonl")
    for one in ROWS:
        file.append(one)
    assert file.load() == ROWS


@pytest.mark.slow
def test_command_reports_a_planted_wrong_result(file: Path) -> None:
    done = metol(
        "bench", "mine.py:wrong", "--every-size", "--json", "rows.jsonl", "--markdown", "page.md", cwd=file.parent
    )
    assert done.returncode == 1, done.stderr
    assert "mine.py:wrong, default, 1x1 1x1: wrong result" in done.stdout
    assert "mine.py:wrong, default, 1x1 1x1: wrong result" in (file.parent / "page.md").read_text()
    rows = [json.loads(line) for line in (file.parent / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 1 + len(switches())
    assert rows[0]["checks"][0]["outcome"] == "failed"


INTERRUPTED = """
import os, signal, sys
from metol import every_size
real = every_size.schedule_variant

def interrupt(source, switch, threads):
    if switch is not None:
        os.kill(os.getpid(), signal.SIGINT)
    return real(source, switch, threads)

every_size.schedule_variant = interrupt
sys.argv = ["metol", "bench", "mine.py:pairs", "--every-size", "--json", "rows.jsonl"]
from metol.cli import main
main()
"""


@pytest.mark.slow
def test_interrupted_command_keeps_and_prints_what_it_has_measured(file: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent, check=False)
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert "Traceback" not in done.stderr
    assert "mine.py:pairs" in done.stdout
    assert [one.option for one in EverySizeFile(file.parent / "rows.jsonl").load()] == ["default"]
