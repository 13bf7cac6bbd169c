"""Programs are set aside by the hashes of their algorithms alone, once and for all."""

import random

from metol.train.split import split_by_name, split_of

ALGORITHMS = [f"{random.Random(seed).getrandbits(64):016x}" for seed in range(400)]


def test_parts_are_disjoint_and_complete() -> None:
    split = split_of(ALGORITHMS)
    numbers = split.training + split.stopping + split.held_out
    assert sorted(numbers) == list(range(400))


def test_about_a_tenth_judges_and_more_than_a_tenth_stops_early() -> None:
    split = split_of(ALGORITHMS)
    assert 20 <= len(split.held_out) <= 65
    assert 35 <= len(split.stopping) <= 90


def test_what_a_program_is_for_does_not_depend_on_the_others() -> None:
    whole = split_of(ALGORITHMS)
    for few in (ALGORITHMS[:50], ALGORITHMS[::-1], ALGORITHMS[::7]):
        split = split_of(few)
        for part in ("training", "stopping", "held_out"):
            chosen = {few[n] for n in getattr(split, part)}
            assert chosen == {ALGORITHMS[n] for n in getattr(whole, part)} & set(few)


def test_hashes_are_read_as_numbers() -> None:
    split = split_of([f"{number:016x}" for number in range(20)])
    assert split.held_out == (0, 1)
    assert split.stopping == (2, 3, 4)
    assert split.training == tuple(range(5, 20))


def test_nothing_is_split_into_nothing() -> None:
    split = split_of([])
    assert (split.training, split.stopping, split.held_out) == ((), (), ())


def test_programs_may_be_held_out_by_name() -> None:
    names = [f"program {n}" for n in range(400)]
    ruled = split_of(ALGORITHMS)
    stopping = names[ruled.stopping[0]]
    split = split_by_name(names, ALGORITHMS, ["program 7", stopping, "another"])
    assert sorted(split.held_out) == sorted((7, ruled.stopping[0]))
    assert set(split.stopping) == set(ruled.stopping) - set(split.held_out)
    assert sorted(split.training + split.stopping + split.held_out) == list(range(400))
