"""Ctrl-C within the blocks that handle it."""

import signal
import threading

import pytest

from metol.interrupts import TerminatedError, first_interrupt, orderly_termination, uninterrupted


def test_interrupt_waits_for_the_end_of_the_block() -> None:
    steps = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")
        steps.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["went on"]


def test_first_interrupt_is_a_wish_and_the_second_raises() -> None:
    told: list[str] = []
    with first_interrupt(lambda: told.append("once")) as is_wanted:
        assert not is_wanted()
        signal.raise_signal(signal.SIGINT)
        assert is_wanted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert told == ["once"]


def test_termination_is_raised_where_it_is_expected() -> None:
    before = signal.getsignal(signal.SIGTERM)
    removed = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            removed.append(signal.getsignal(signal.SIGTERM))

    with orderly_termination(), pytest.raises(TerminatedError):
        work()
    assert removed == [signal.SIG_DFL], "a second one ends the process"
    assert signal.getsignal(signal.SIGTERM) is before


def test_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with uninterrupted(), first_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone() -> None:
    results: list[bool] = []

    def work() -> None:
        with uninterrupted(), first_interrupt(lambda: None) as is_wanted:
            results.append(is_wanted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]
