"""What a result is compared with where it differs from the reference, which may be the one that is off.

Enter: a trial that is not what a case expects. Leaves: a verdict that counts instead. The reference adds a long sum of
floats in one row, and its processor compares NaN as it likes, for Halide promises that there are none. A more exact one
adds in parts, and compares as IEEE 754 has it. And where a float is next to where it is rounded, or compared, its last
bit decides: few elements may be what a **witness** has, the plainest schedule for the same device, or where compilers
order operations as they like, the more exact reference with inputs that are nudged. What is wrong all the same, and
what the witness computes, too, is told apart: it is then no fault of the schedule. Either schedule costs a compilation,
and is made where it is asked for alone.
"""

from dataclasses import replace
from pathlib import Path

import halide as hl

from metol.measure import messages as m
from metol.measure.scheduler import Scheduler
from metol.measure.source import PipelineSource
from metol.measure.trial import RunOptions, Trial

__all__ = ["SecondOpinion"]

_STRICT = "strict_float"
# What is as likely as not to change with the last places of floats does so in one of eight runs, but for 0.4 %.
_NUDGES = range(1, 9)
_OF_VECTORS = (
    "; everything at root in plain vectors has the same results: Halide computes this pipeline otherwise in vectors "
    "than one by one, whatever the schedule, as it does integers that overflow, NaN, or floats whose last place decides"
)


class SecondOpinion:
    """Judges the results of one pipeline's schedules again. Close it."""

    def __init__(self, source: PipelineSource, options: RunOptions, folder: Path) -> None:
        """Start with nothing compiled; cases are written below `folder`."""
        strict, exact = options, "reference"
        # Strict floats are added in the order of the algorithm.
        if _STRICT not in options.target.split("-"):
            strict, exact = replace(options, target=f"{options.target}-{_STRICT}"), "exact-reference"
        self._is_gpu = bool(hl.Target(options.target).has_gpu_feature())
        self._exact = _Recomputed(source, Scheduler(exact), strict, folder / "exact")
        self._witness = _Recomputed(source, Scheduler("witness"), options, folder / "witness")

    def verdict(self, trial: Trial, case: str, first: m.Verdict) -> m.Verdict:
        """Return what counts of a trial whose results differ from what a case expects, as the `first` verdict says."""
        found = self._reconsidered(trial, case, first)
        if found.is_equal or self._is_gpu or not trial.is_alive:
            return found
        plain = self._witness.case(case, needs_floats=False)
        same = trial.judge(m.Verify(case, plain)) if plain else None
        # What differs in few places is as few from anything that is right there.
        is_same = same is not None and (same.is_equal or (same.is_few and not first.is_few))
        return replace(found, text=found.text + _OF_VECTORS) if is_same else found

    def _reconsidered(self, trial: Trial, case: str, first: m.Verdict) -> m.Verdict:
        exact = self._exact.case(case)
        if not exact:
            return first
        request = m.Verify(case, exact)
        found = trial.judge(request)
        if found is not None and found.is_equal:
            return replace(found, text=f"{found.text}, by a more exact reference")
        told = "by a more exact reference it is wrong, too"
        if found is None or not found.is_few:
            request, found = m.Verify(case), first
        if not found.is_few:
            return replace(first, text=f"{first.text}; {told}")
        witnesses: list[str] = []
        for more in (self._device_witness, self._nudged_witnesses):
            witnesses += more(case)
            found = trial.judge(replace(request, witnesses=witnesses)) if witnesses else None
            if found is not None and found.is_equal:
                return found
        return replace(first, text=f"{first.text}; {told}, and not as the last places of floats decide")

    def _device_witness(self, case: str) -> list[str]:
        return list(filter(None, [self._witness.case(case)]))

    def _nudged_witnesses(self, case: str) -> list[str]:
        return list(filter(None, (self._exact.case(case, seed) for seed in _NUDGES)))

    def close(self) -> None:
        """End the children."""
        self._exact.close()
        self._witness.close()


class _Recomputed:
    """Cases with what another schedule computes, which is compiled for the first."""

    def __init__(self, source: PipelineSource, scheduler: Scheduler, options: RunOptions, folder: Path) -> None:
        self._source = source
        self._scheduler = scheduler
        self._options = options
        self._folder = folder
        self._trial: Trial | None = None
        self._cases: dict[tuple[str, int, bool], str] = {}

    def case(self, case: str, nudge_seed: int = 0, *, needs_floats: bool = True) -> str:
        """Return the folder of a copy with other results; "" where there are none, or none of the floats needed."""
        key = case, nudge_seed, needs_floats
        if key not in self._cases:
            if self._trial is None:
                self._trial = Trial(self._source, self._scheduler, self._options)
                self._trial.compile()
            if not nudge_seed:  # which all nudged runs share, for it may be a slow schedule
                self._trial.renew_time()
            request = m.Recompute(case, str(self._folder / str(len(self._cases))), nudge_seed, needs_floats)
            self._cases[key] = self._trial.recompute(request)
        return self._cases[key]

    def close(self) -> None:
        if self._trial is not None:
            self._trial.close()
