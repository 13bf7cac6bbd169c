"""Samples as numbers: the rows of each are those that the core costs, and what cannot be replayed is left out."""

from dataclasses import replace

import numpy as np
import pytest
from measured_programs import drawn_of, planner_of, program_of, sampled

from metol import _core
from metol.errors import MetolError
from metol.measure import Status
from metol.train import FeatureTable, ProgramSamples, make_table

NAMES = (program_of(0), program_of(1, 6), program_of(2))


@pytest.fixture(scope="module")
def programs() -> list[ProgramSamples]:
    return [sampled(name, count, slower=lambda _: 3.0) for name, count in zip(NAMES, (6, 9, 5), strict=True)]


@pytest.fixture(scope="module")
def table(programs: list[ProgramSamples]) -> FeatureTable:
    return make_table(programs)


def test_programs_samples_and_rows_lie_one_after_the_other(table: FeatureTable) -> None:
    assert table.programs == NAMES
    assert table.algorithms == tuple(planner_of(name).frame.algorithm_hash for name in NAMES)
    np.testing.assert_array_equal(table.program_of_sample, np.repeat([0, 1, 2], [6, 9, 5]))
    assert (np.diff(table.sample_of_row) >= 0).all()
    assert set(table.sample_of_row) == set(range(20))
    rows, terms = len(table.sample_of_row), len(table.terms)
    assert table.rows.shape == (rows, len(table.features))
    assert table.operations.shape[0] == rows
    assert table.analytical.shape == table.values.shape == (rows, terms)


def test_a_sum_of_terms_is_what_the_core_predicts(table: FeatureTable) -> None:
    expected = [
        float(form.space.cost(state, _core.CostModel())[0])
        for name, count in zip(NAMES, (6, 9, 5), strict=True)
        for form, state in (planner_of(name).state_of(drawn.nest) for drawn in drawn_of(name, count))
    ]
    np.testing.assert_allclose(table.analytical_seconds, expected, rtol=1e-5)


def test_seconds_are_those_of_the_quickest_round(table: FeatureTable) -> None:
    # As they were invented: three times what is predicted.
    np.testing.assert_allclose(table.seconds, 3 * table.analytical_seconds, rtol=1e-5)


def test_rows_are_those_of_the_stages_that_are_there(table: FeatureTable) -> None:
    form, state = planner_of(NAMES[0]).state_of(drawn_of(NAMES[0], 6)[0].nest)
    (rows,) = form.space.featurize(state)
    used = [stage for stage in range(len(rows)) if rows[stage].any()]
    np.testing.assert_array_equal(table.rows[table.sample_of_row == 0], rows[used])
    operations = [form.dag.stages[stage].op_histogram for stage in used]
    np.testing.assert_array_equal(table.operations[table.sample_of_row == 0], np.float32(operations))


def test_selected_programs_keep_the_rows_of_their_samples(table: FeatureTable) -> None:
    for order in ([1], [2, 0], [2, 1, 0], [0, 1, 2]):
        chosen = table.select(order)
        assert chosen.programs == tuple(NAMES[p] for p in order)
        assert chosen.algorithms == tuple(table.algorithms[p] for p in order)
        sample = 0
        for new, old in enumerate(order):
            for each in np.flatnonzero(table.program_of_sample == old):
                for name in ("rows", "operations", "analytical", "values"):
                    np.testing.assert_array_equal(
                        getattr(chosen, name)[chosen.sample_of_row == sample],
                        getattr(table, name)[table.sample_of_row == each],
                    )
                assert chosen.seconds[sample] == table.seconds[each]
                assert chosen.program_of_sample[sample] == new
                sample += 1
        assert len(chosen.seconds) == sample


def test_nothing_selected_is_an_empty_table(table: FeatureTable) -> None:
    empty = table.select([])
    assert (len(empty.seconds), empty.rows.shape) == (0, (0, len(table.features)))


def test_generations_of_a_program_become_one_and_a_sample_counts_once(programs: list[ProgramSamples]) -> None:
    later = sampled(NAMES[0], 8, seed=5, generation=1)
    table = make_table([programs[0], later, replace(programs[0], generation=2)])
    ids = {sample.id for program in (programs[0], later) for sample in program.samples}
    assert table.programs == NAMES[:1]
    assert len(table.seconds) == len(ids)
    assert 8 < len(ids) < 14


def test_a_program_for_another_target_is_another_one(programs: list[ProgramSamples]) -> None:
    table = make_table([programs[0], replace(programs[0], target=programs[0].target.replace("-f16c", ""))])
    assert table.programs == NAMES[:1] * 2
    np.testing.assert_array_equal(table.program_of_sample, np.repeat([0, 1], 6))


def test_a_program_that_is_another_one_today_is_left_out_and_told(programs: list[ProgramSamples]) -> None:
    told: list[str] = []
    table = make_table([replace(programs[0], algorithm="0" * 16), programs[1]], tell=told.append)
    assert table.programs == NAMES[1:2]
    (line,) = told
    assert line.startswith(f"{NAMES[0]}: ")
    assert "another program today" in line


def test_a_program_with_too_few_samples_that_ran_is_left_out_and_told(programs: list[ProgramSamples]) -> None:
    failed = [replace(one, status=Status.TIMEOUT, rounds_ms=()) for one in programs[0].samples[:3]]
    few = replace(programs[0], samples=(*failed, *programs[0].samples[3:]))
    told: list[str] = []
    assert make_table([few, programs[1]], tell=told.append).programs == NAMES[1:2]
    assert told == [f"{NAMES[0]}: too few of its schedules ran, 3; at least 4 are wanted"]
    assert len(make_table([few], least_samples=3).seconds) == 3


def test_a_program_that_was_not_measured_is_passed_over_in_silence(programs: list[ProgramSamples]) -> None:
    told: list[str] = []
    idle = replace(programs[0], samples=(), algorithm="", note="predicted to take 900 ms")
    assert make_table([idle, programs[1]], tell=told.append).programs == NAMES[1:2]
    assert told == []


@pytest.mark.parametrize(("damaged", "left"), [(1, 5), (2, 4), (3, 0)])
def test_decisions_of_another_version_are_left_out_and_told(
    damaged: int, left: int, programs: list[ProgramSamples]
) -> None:
    told: list[str] = []
    samples = programs[0].samples
    old = [replace(sample, nest='{"version": 0}') for sample in samples[:damaged]]
    table = make_table([replace(programs[0], samples=(*old, *samples[damaged:])), programs[1]], tell=told.append)
    assert table.programs == (NAMES[:2] if left else NAMES[1:2])
    assert len(table.seconds) == left + len(programs[1].samples)
    (line,) = told
    assert line.startswith(f"{NAMES[0]}: {damaged} of its 6 samples are left out: " if left else f"{NAMES[0]}: ")
    assert "is no loop nest" in line


def test_where_nothing_is_left_is_an_error() -> None:
    with pytest.raises(MetolError, match="no samples to learn from"):
        make_table([])


def test_of_loop_nests_that_are_not_complete_the_rows_are_there_and_the_seconds_of_the_whole(
    programs: list[ProgramSamples], table: FeatureTable
) -> None:
    half = make_table(programs, decided=(0.5,))
    assert half.programs == table.programs
    np.testing.assert_array_equal(half.seconds, table.seconds)
    assert len(half.sample_of_row) < len(table.sample_of_row)
    both = make_table(programs, decided=(0.5, 1.0))
    assert both.programs == table.programs * 2
    np.testing.assert_array_equal(both.seconds, np.tile(table.seconds, 2))


def test_where_nothing_is_scheduled_yet_nothing_is_left(programs: list[ProgramSamples]) -> None:
    told: list[str] = []
    with pytest.raises(MetolError, match="no samples to learn from"):
        make_table(programs, decided=(0.0,), tell=told.append)
    assert all(text.endswith("nothing is scheduled yet after so few decisions") for text in told)
