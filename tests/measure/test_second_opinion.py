"""What counts where a result differs from the first reference."""

from contextlib import closing
from pathlib import Path

import pytest

from metol.measure import PipelineSource, RunOptions, Scheduler, Status, Trial
from metol.measure import messages as m
from metol.measure.case import Case
from metol.measure.second_opinion import SecondOpinion

FIRST = m.Verdict(False, "planted")


def verdict_on(source: PipelineSource, options: RunOptions, folder: Path) -> m.Verdict:
    """Judge the reference once more, as if its results were not what a case expects."""
    cases = folder / "cases"
    cases.mkdir()
    with (
        closing(Trial(source, Scheduler("reference"), options)) as reference,
        closing(SecondOpinion(source, options, folder)) as second,
    ):
        reference.compile()
        made = reference.make_cases(str(cases))
        assert made is not None
        return second.verdict(reference, made.cases[0], FIRST)


def test_more_exact_reference_compares_nan_as_the_standard_has_it(
    planted, brief_options: RunOptions, tmp_path: Path
) -> None:
    verdict_on(planted("compares_nan"), brief_options, tmp_path)
    assert Case.load(tmp_path / "exact" / "0").expected[0].tolist() == [1] * 40


def test_there_is_no_more_exact_reference_without_floats(planted, brief_options: RunOptions, tmp_path: Path) -> None:
    verdict = verdict_on(planted("histogram"), brief_options, tmp_path)
    assert verdict.text.startswith(FIRST.text)
    assert not verdict.is_equal
    assert not (tmp_path / "exact").exists()


@pytest.mark.parametrize(("builder", "is_told"), [("rounded_quarters", True), ("histogram", False)])
def test_what_plain_vectors_compute_as_well_is_no_fault_of_the_loops(
    builder: str, is_told: bool, planted, brief_options: RunOptions, tmp_path: Path
) -> None:
    source = planted(builder)
    cases = tmp_path / "cases"
    cases.mkdir()
    with (
        closing(Trial(source, Scheduler("reference"), brief_options)) as reference,
        closing(Trial(source, Scheduler("witness"), brief_options)) as vectors,
        closing(SecondOpinion(source, brief_options, tmp_path)) as second,
    ):
        reference.compile()
        vectors.compile()
        made = reference.make_cases(str(cases))
        assert made is not None
        vectors.verify(made.cases, "", second.verdict)
        measured = vectors.measurement
    assert (measured.status is Status.WRONG_RESULT) == is_told
    assert ("otherwise in vectors than one by one" in measured.detail) == is_told
