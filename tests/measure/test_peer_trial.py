from pathlib import Path

import pytest

from metol.errors import MetolError
from metol.measure import PipelineSource, RunOptions, Scheduler, ask_peer

MULLAPUDI = Scheduler.parse("mullapudi2016")
OPTIONS = RunOptions(threads=1, timeout_seconds=60, timing=None)


@pytest.mark.parametrize("peer", ["mullapudi2016", "adams2019-greedy"])
def test_peer_answers_with_its_schedule(peer: str, planted) -> None:
    answer = ask_peer(planted("blur"), Scheduler.parse(peer), OPTIONS)
    assert answer.failure == ""
    assert "Func result = pipeline.get_func(" in answer.cpp
    assert ".vectorize(" in answer.cpp


def test_schedule_that_the_pipeline_carries_is_taken_off(planted) -> None:
    source = planted("is_scheduled")
    source.build()
    answer = ask_peer(source, MULLAPUDI, OPTIONS)
    assert answer.failure == ""
    assert ".compute_root()" in answer.cpp


@pytest.mark.parametrize(
    ("builder", "failure"),
    [
        ("aborts", "crash: killed by SIGABRT: going down"),
        ("is_broken", "ValueError: there is a mistake in this builder"),
        ("returns_a_number", "MetolError: "),
        ("has_no_estimate", "HalideError: "),
    ],
)
def test_what_goes_wrong_is_told(builder: str, failure: str, planted) -> None:
    source = planted(builder)
    if builder == "aborts":
        source.build()
    answer = ask_peer(source, MULLAPUDI, OPTIONS)
    assert answer.cpp == ""
    assert answer.failure.startswith(failure)


def test_peer_that_takes_too_long_is_told(planted) -> None:
    answer = ask_peer(planted("always_hangs"), MULLAPUDI, RunOptions(threads=1, timeout_seconds=0.3, timing=None))
    assert (answer.cpp, answer.failure) == ("", "timeout: over 0.3 s")
    assert answer.seconds >= 0.3


def test_peer_is_ended_when_nobody_waits_any_more(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    file = tmp_path / "mine.py"
    file.write_text(f"import pathlib, time\ndef build():\n    pathlib.Path('{mark}').touch()\n    time.sleep(600)\n")
    answer = ask_peer(PipelineSource.parse(f"{file}:build"), MULLAPUDI, OPTIONS, is_cancelled=mark.exists)
    assert (answer.cpp, answer.failure) == ("", "cancelled")


def test_only_peers_are_asked(planted) -> None:
    with pytest.raises(MetolError, match="`metol` does not print schedules in C\\+\\+; ask one of adams2019, "):
        ask_peer(planted("blur"), Scheduler.parse("metol"), OPTIONS)
