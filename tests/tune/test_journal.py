"""What was measured is written down as it was, and under the key of its problem."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from measured import KEY, proposal, record_of

from metol.candidates import Nest
from metol.measure import Measurement, Outcome, Status
from metol.tune import Records
from metol.tune.journal import Journal

PROBLEM = SimpleNamespace(key=KEY, label="app:blur", identity={"cpu": "some"})
RIGHT = Measurement("planted.py:blur", "schedule", run_ms=2.0, run_ms_samples=(2.0,), verified=True)
WRONG = Measurement("planted.py:blur", "schedule").with_failure(Status.WRONG_RESULT, "it differs")


def test_every_outcome_is_a_record_in_the_database_and_in_the_history(tmp_path: Path) -> None:
    nest = Nest(((1, 2),), specialize_estimate=False)
    with Records(tmp_path / "tuning.db") as database:
        journal = Journal(PROBLEM, database)
        first = journal.note([(replace(proposal("a"), nest=nest, predicted_seconds=0.5), Outcome(RIGHT, 3.0))])
        second = journal.note([(proposal("b", "safe"), Outcome(WRONG))], is_final=True)
        assert journal.history == (*first, *second) == database.all() == journal.earlier()
    (right,), (wrong,) = first, second
    assert (right.key, right.label, right.origin, right.run_ms) == (KEY, "app:blur", "sample", 2.0)
    assert Nest.from_json(right.nest) == nest
    assert right.predicted_seconds == 0.5
    assert right.is_usable
    assert (wrong.nest, wrong.status, wrong.is_final, wrong.predicted_seconds) == ("", Status.WRONG_RESULT, True, None)
    assert right.session == wrong.session != ""


def test_earlier_is_what_other_runs_measured_under_the_same_key(tmp_path: Path) -> None:
    with Records(tmp_path / "tuning.db") as database:
        here = record_of(proposal("a"), 1.0)
        there = replace(here, key=replace(KEY, machine="n" * 16))
        database.add(here, there)
        journal = Journal(PROBLEM, database)
        assert journal.earlier() == (here,)
        assert journal.seeds() == (there,)
        assert journal.history == ()


def test_without_a_database_there_is_the_history() -> None:
    journal = Journal(PROBLEM, None)
    made = journal.note([(proposal("a"), Outcome(RIGHT, 3.0))])
    assert journal.history == made
    assert journal.earlier() == journal.seeds() == ()
