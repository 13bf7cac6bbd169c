"""What counts where a result differs from the first reference."""

from contextlib import closing
from pathlib import Path

from metol.measure import RunOptions, Scheduler, Trial
from metol.measure import messages as m
from metol.measure.case import Case
from metol.measure.second_opinion import SecondOpinion


def test_more_exact_reference_compares_nan_as_the_standard_has_it(
    planted, brief_options: RunOptions, tmp_path: Path
) -> None:
    source, cases = planted("compares_nan"), tmp_path / "cases"
    cases.mkdir()
    with (
        closing(Trial(source, Scheduler("reference"), brief_options)) as reference,
        closing(SecondOpinion(source, brief_options, tmp_path)) as second,
    ):
        reference.compile()
        made = reference.make_cases(str(cases))
        assert made is not None
        second.verdict(reference, made.cases[0], m.Verdict(False, "planted"))
        assert Case.load(tmp_path / "exact" / "0").expected[0].tolist() == [1] * 40


def test_there_is_no_more_exact_reference_without_floats(planted, brief_options: RunOptions, tmp_path: Path) -> None:
    source, cases, first = planted("histogram"), tmp_path / "cases", m.Verdict(False, "planted")
    cases.mkdir()
    with (
        closing(Trial(source, Scheduler("reference"), brief_options)) as reference,
        closing(SecondOpinion(source, brief_options, tmp_path)) as second,
    ):
        reference.compile()
        made = reference.make_cases(str(cases))
        assert made is not None
        assert second.verdict(reference, made.cases[0], first) == first
