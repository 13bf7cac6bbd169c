"""What a result is compared with where it differs from the reference, which may be the one that is off.

Enter: a trial that is not what a case expects. Leaves: a verdict that counts instead. The reference adds a long sum of
floats in one row, and its processor compares NaN as it likes, for Halide promises that there are none. A more exact
one adds in parts, and compares as IEEE 754 has it. It costs a compilation, and is made where it is asked for alone.
"""

from dataclasses import replace
from pathlib import Path

from metol.measure import messages as m
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource
from metol.measure.trial import RunOptions, Trial

__all__ = ["SecondOpinion"]

_STRICT = "strict_float"


class SecondOpinion:
    """Judges the results of one pipeline's schedules again. Close it."""

    def __init__(self, source: PipelineSource, options: RunOptions, folder: Path) -> None:
        """Start with nothing compiled; cases are written below `folder`."""
        self._source = source
        self._options = options
        self._folder = folder
        self._exact: Trial | None = None
        self._cases: dict[str, str] = {}

    def verdict(self, trial: Trial, case: str, first: m.Verdict) -> m.Verdict:
        """Return what counts of a trial whose results differ from what a case expects, as the `first` verdict says."""
        exact = self._exact_case(case)
        if not exact:
            return first
        found = trial.judge(m.Verify(case, exact))
        if found is None or not found.is_equal:
            return replace(first, text=f"{first.text}; by a more exact reference it is wrong, too")
        return replace(found, text=f"{found.text}, by a more exact reference")

    def close(self) -> None:
        """End the children."""
        if self._exact is not None:
            self._exact.close()

    def _exact_case(self, case: str) -> str:
        """Return the folder of a copy with more exact results; "" where there is none."""
        # Strict floats are added in the order of the algorithm: the reference is as exact as may be.
        if _STRICT in self._options.target.split("-"):
            return ""
        if case not in self._cases:
            if self._exact is None:
                options = replace(self._options, target=f"{self._options.target}-{_STRICT}")
                self._exact = Trial(self._source, Scheduler("exact-reference"), options)
                self._exact.compile()
            self._cases[case] = self._exact.recompute(
                m.Recompute(case, str(self._folder / f"exact_{len(self._cases)}"))
            )
        return self._cases[case]
