"""Who is ahead."""

from dataclasses import replace

from measured import proposal, record_of

from metol.tune.standings import Standing, Standings


def standing(name: str, score_ms: float, origin: str = "sample") -> Standing:
    proposed = proposal(name, origin)
    return Standing(proposed, record_of(proposed, score_ms), score_ms)


def test_the_fastest_is_first() -> None:
    standings = Standings()
    assert standings.best is None
    for name, score_ms in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        standings.add(standing(name, score_ms))
    assert [each.score_ms for each in standings.ranked()] == [1, 2, 3]
    assert standings.best == standing("b", 1.0)
    assert len(standings) == 3


def test_of_one_schedule_the_later_score_counts() -> None:
    standings = Standings()
    standings.add(standing("a", 1.0))
    standings.add(standing("b", 2.0))
    standings.add(standing("a", 3.0))
    assert [each.score_ms for each in standings.ranked()] == [2, 3]


def test_schedules_are_the_same_by_their_directives_alone() -> None:
    standings = Standings()
    first = standing("a", 1.0)
    standings.add(first)
    renamed = replace(first.proposal, schedule=replace(first.proposal.schedule, metol_version="9"), origin="record")
    standings.add(replace(first, proposal=renamed, score_ms=2.0))
    assert [each.score_ms for each in standings] == [2]


def test_what_is_of_no_use_is_forgotten_and_stays_tried() -> None:
    standings = Standings()
    bad = standing("a", 1.0)
    standings.note_tried(bad.proposal.text)
    standings.add(bad)
    standings.drop(bad.proposal)
    standings.drop(bad.proposal)  # once more does no harm
    assert standings.best is None
    assert bad.proposal.text in standings.tried


def test_what_failed_is_tried_without_a_score() -> None:
    standings = Standings()
    standings.note_tried("some text")
    assert set(standings.tried) == {"some text"}
    assert len(standings) == 0


def test_every_origin_has_its_best_score() -> None:
    standings = Standings()
    for each in (standing("a", 3.0), standing("b", 2.0), standing("c", 5.0, "safe")):
        standings.add(each)
    assert {origin: each.score_ms for origin, each in standings.by_origin().items()} == {"sample": 2.0, "safe": 5.0}


def test_a_score_that_is_known_better_takes_the_place_of_the_first() -> None:
    standings = Standings()
    first = standing("a", 1.0)
    standings.add(first)
    standings.rescore(first.proposal.schedule, 1.5)
    standings.rescore(standing("b", 1.0).proposal.schedule, 0.1)  # nobody knows it
    assert [each.score_ms for each in standings] == [1.5]
    assert standings.find(first.proposal.schedule) == replace(first, score_ms=1.5)
