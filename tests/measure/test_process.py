import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metol.measure import messages as m
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError

pytestmark = pytest.mark.usefixtures("fresh_children")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until_gone(pid: int) -> bool:
    end = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_running(pid)


def test_child_is_told_its_threads(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\ndef build():\n    raise ValueError(os.environ['HL_NUM_THREADS'])\n")
    with Child(threads=1) as child:
        answer = child.ask(m.Build(f"{tmp_path}/mine.py:build", "host"), 60)
    assert answer == m.Failure("ValueError", "1", is_users=False)


@pytest.mark.slow
def test_child_compiles_on_all_cores_and_runs_on_as_many_as_it_has_threads(planted, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    with Child(threads=1) as child:
        for request in (m.Build(str(planted("blur")), "host"), m.ApplyScheduler("reference", 1), m.Compile()):
            assert isinstance(child.ask(request, 60), m.Done)
        assert os.sched_getaffinity(child.pid) == cores
        child.ask(m.MakeCases(str(tmp_path), 0), 60)
        assert os.sched_getaffinity(child.pid) == {min(cores)}


def test_child_that_is_killed_from_another_thread_dies_for_the_one_that_asks(planted) -> None:
    with Child(threads=1) as child, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(child.ask, m.Build(str(planted("always_hangs")), "host"), 60)
        child.kill()
        child.kill()  # once more does no harm
        with pytest.raises(ChildDiedError, match="SIGKILL"):
            asked.result(timeout=60)


def test_child_survives_an_exception(planted) -> None:
    with Child(threads=1) as child:
        assert isinstance(child.ask(m.Build(str(planted("is_broken")), "host"), 60), m.Failure)
        assert isinstance(child.ask(m.Build(str(planted("blur")), "host"), 60), m.Done)


@pytest.mark.slow
def test_child_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pathlib, subprocess\n"
        "def build():\n"
        "    other = subprocess.Popen(['sleep', '600'])\n"
        "    pathlib.Path(__file__).with_name('pid').write_text(str(other.pid))\n"
        "    other.wait()\n"
    )
    with Child(threads=1) as child:
        with pytest.raises(ChildTimeoutError):
            child.ask(m.Build(f"{tmp_path}/mine.py:build", "host"), 2)
        assert child.spent_seconds >= 2
    assert wait_until_gone(int((tmp_path / "pid").read_text()))


def test_child_tells_whether_it_has_answered(planted) -> None:
    with Child(threads=1) as child:
        assert not child.has_answer(0)
        child.send(m.Build(str(planted("blur")), "host"))
        assert child.has_answer(60)
        assert isinstance(child.receive(0), m.Done)
        assert not child.has_answer(0)


def test_dead_child_has_something_to_tell(planted) -> None:
    planted("aborts").build()
    with Child(threads=1) as child:
        child.send(m.Build(str(planted("aborts")), "host"))
        assert child.has_answer(60)


def test_dead_child_tells_how_it_ended(planted) -> None:
    planted("aborts").build()
    with Child(threads=1) as child, pytest.raises(ChildDiedError, match=r"killed by SIGABRT: .*going down"):
        child.ask(m.Build(str(planted("aborts")), "host"), 60)


def test_dead_child_stays_dead(planted) -> None:
    planted("aborts").build()
    with Child(threads=1) as child:
        for _ in range(2):
            with pytest.raises(ChildDiedError, match="SIGABRT"):
                child.ask(m.Build(str(planted("aborts")), "host"), 60)


def test_child_dies_with_its_parent(planted, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import pathlib, sys\n"
        "from metol.measure import messages as m\n"
        "from metol.measure.process import Child\n"
        "child = Child(threads=1)\n"
        "child.ask(m.Build(sys.argv[1], 'host'), 60)\n"
        "print(child.pid, flush=True)\n"
        "child.ask(m.Build(sys.argv[2], 'host'), 600)\n"
    )
    command = [sys.executable, str(script), str(planted("blur")), str(planted("always_hangs"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
    assert wait_until_gone(pid)
