"""What a user can choose about a search, checked once."""

from dataclasses import dataclass

from metol.errors import SearchError
from metol.search import BeamSearch, Refined, Strategy

__all__ = ["STRATEGIES", "SearchOptions"]

STRATEGIES = ("beam", "greedy")
"""Names of the search strategies."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search."""

    strategy: str = "beam"
    """One of STRATEGIES."""
    beam_width: int = 32
    """States that the beam keeps."""
    passes: int = 5
    """Coarse-to-fine passes."""
    dropout: float = 0.0
    """Chance that a state is passed over."""
    seed: int = 0
    """Seed of whatever is random."""
    refine: bool = True
    """Whether coordinate descent follows the search; a beam then starts it from the greedy result, too."""
    fixed_sizes: bool = False
    """Whether outputs will always have exactly their estimated size: the code is then made for it, and refuses any
    other when it is run. The promise stays with the pipeline: a later schedule without it does not take it back."""
    specialize_estimate: bool = True
    """Whether an output that others are computed inside gets a version for the estimated size alone, beside those for
    other sizes: faster there, and half as much code again."""
    budget_seconds: float | None = 15.0
    """Seconds after which the search settles for the best it has; None for no limit."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise SearchError(f"There is no search strategy `{self.strategy}`; there are {', '.join(STRATEGIES)}.")
        if self.budget_seconds is not None and self.budget_seconds <= 0:
            raise SearchError(f"A search needs a budget of more than 0 seconds, not {self.budget_seconds}.")
        self.make()

    def make(self) -> Strategy:
        """Return the strategy that these options describe."""
        greedy = BeamSearch(width=1, dropout=self.dropout, seed=self.seed)
        beam = BeamSearch(width=self.beam_width, passes=self.passes, dropout=self.dropout, seed=self.seed)
        found: tuple[Strategy, ...] = (greedy,) if self.strategy == "greedy" else (greedy, beam)
        return Refined(found) if self.refine else found[-1]
