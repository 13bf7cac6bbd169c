"""What the results of a schedule are held to, as its child reads it: a case, or a more exact one, and witnesses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metol.measure import messages as m
from metol.measure.case import Array, Case
from metol.measure.tolerance import compare

__all__ = ["Standard"]


@dataclass(frozen=True, slots=True)
class Standard:
    """What the results of a schedule are held to."""

    case: Case
    """With what is expected, and how closely."""
    witnesses: tuple[tuple[Array, ...], ...]
    """What few elements may be instead: of each witness all outputs."""

    @staticmethod
    def load(request: m.Verify) -> "Standard":
        """Read what a request names."""
        case = Case.load(Path(request.exact or request.case))
        return Standard(case, tuple(Case.load(Path(witness)).expected for witness in request.witnesses))

    def judge(self, results: Sequence[Array]) -> m.Verdict:
        """Return whether all outputs agree, and how closely they do, or what differs."""
        expected = zip(results, self.case.expected, self.case.tolerances, strict=True)
        comparisons = [
            compare(*found, [outputs[place] for outputs in self.witnesses]) for place, found in enumerate(expected)
        ]
        wrong = [found for found in comparisons if not found.is_equal]
        text = "; ".join(found.text for found in wrong or comparisons)
        return m.Verdict(not wrong, text, all(found.is_few for found in wrong))
