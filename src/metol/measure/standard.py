"""What the results of a schedule are held to, as its child reads it: a case, or a more exact one, and a witness."""

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
    witness: tuple[Array | None, ...]
    """For each output what few of its elements may be instead; None for nothing."""

    @staticmethod
    def load(request: m.Verify) -> "Standard":
        """Read what a request names."""
        case = Case.load(Path(request.exact or request.case))
        witness = Case.load(Path(request.witness)).expected if request.witness else (None,) * len(case.expected)
        return Standard(case, witness)

    def judge(self, results: Sequence[Array]) -> m.Verdict:
        """Return whether all outputs agree, and how closely they do, or what differs."""
        expected = zip(results, self.case.expected, self.case.tolerances, self.witness, strict=True)
        comparisons = [compare(*found) for found in expected]
        wrong = [found for found in comparisons if not found.is_equal]
        text = "; ".join(found.text for found in wrong or comparisons)
        return m.Verdict(not wrong, text, all(found.is_few for found in wrong))
