"""A schedule is judged in a fork before anybody asks, and forgotten where nobody does."""

import os
import signal
import time
from pathlib import Path

import pytest
from running_children import children

from metol.measure.foresight import Foresight

# Of the process that runs the tests, which may have threads; none of them matters to what is judged here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def wait_for(file: Path) -> str:
    end = time.monotonic() + 30
    while not file.exists() or not file.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    return file.read_text()


def test_what_was_foreseen_is_judged_once_and_elsewhere(tmp_path: Path) -> None:
    def judge(schedule: str) -> str:
        with (tmp_path / "judged").open("a") as file:
            file.write(f"{os.getpid()} {schedule}\n")
        return f"no, {schedule}"

    before = children()
    foresight = Foresight(judge)
    foresight.begin("this")
    assert foresight.take("this") == "no, this"
    ((pid, schedule),) = (line.split() for line in (tmp_path / "judged").read_text().splitlines())
    assert (int(pid) != os.getpid(), schedule) == (True, "this")
    assert foresight.take("this") is None
    assert children() == before


def test_what_is_accepted_is_told_from_what_has_no_answer() -> None:
    foresight = Foresight(lambda schedule: "")
    foresight.begin("this")
    assert foresight.take("this") == ""


def test_long_refusals_arrive_whole() -> None:
    foresight = Foresight(lambda schedule: schedule * 100_000)
    foresight.begin("no ")
    assert foresight.take("no ") == "no " * 100_000


@pytest.mark.parametrize("how", ["asked for another", "begun with another", "ended"])
def test_what_is_no_longer_wanted_is_stopped(how: str, tmp_path: Path) -> None:
    def judge(schedule: str) -> str:
        (tmp_path / schedule).write_text(str(os.getpid()))
        if schedule == "endless":
            time.sleep(600)
        return "no"

    before = children()
    foresight = Foresight(judge)
    foresight.begin("endless")
    pid = int(wait_for(tmp_path / "endless"))
    assert pid in children()
    if how == "asked for another":
        assert foresight.take("this") is None
    elif how == "begun with another":
        foresight.begin("this")
        assert pid not in children()
        assert foresight.take("this") == "no"
    else:
        foresight.end()
    assert children() == before


@pytest.mark.parametrize("end", ["error", "crash"])
def test_fork_that_comes_to_a_bad_end_has_no_answer(end: str) -> None:
    def judge(schedule: str) -> str:
        if end == "error":
            raise ValueError(schedule)
        os.kill(os.getpid(), signal.SIGKILL)

    foresight = Foresight(judge)
    foresight.begin("this")
    assert foresight.take("this") is None
