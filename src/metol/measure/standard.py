"""What the results of a schedule are held to, as its child reads it: a case, and a more exact one in its place."""

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

    @staticmethod
    def load(request: m.Verify) -> "Standard":
        """Read what a request names."""
        return Standard(Case.load(Path(request.exact or request.case)))

    def judge(self, results: Sequence[Array]) -> tuple[bool, str]:
        """Return whether all outputs agree, and how closely they do, or what differs."""
        triples = zip(results, self.case.expected, self.case.tolerances, strict=True)
        comparisons = [compare(*triple) for triple in triples]
        wrong = [found for found in comparisons if not found.is_equal]
        return not wrong, "; ".join(found.text for found in wrong or comparisons)
