"""Why a loop nest costs what it does: a loop nest enters, the seconds of each Stage by cost term leave."""

from dataclasses import dataclass

from metol import _core
from metol.pipeline import PipelineDag, base_name

__all__ = ["StageCost", "TermCost", "explain"]


@dataclass(frozen=True, slots=True)
class TermCost:
    """What one term adds to the predicted time of a Stage."""

    name: str
    """As in the table of terms."""
    seconds: float
    """Predicted wall-clock time."""
    meaning: str
    """What the term counts, in words."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """The predicted time of one Stage."""

    func: str
    """Name of the Func."""
    stage: int
    """0 is the pure definition, i the update i-1."""
    seconds: float
    """Predicted wall-clock time."""
    terms: tuple[TermCost, ...]
    """The largest terms, largest first."""

    def __str__(self) -> str:
        stage = f" update {self.stage - 1}" if self.stage else ""
        terms = ", ".join(f"{term.seconds * 1e3:.3g} ms {term.meaning}" for term in self.terms)
        return f"{self.func}{stage}: {self.seconds * 1e3:.3g} ms ({terms})"


def explain(dag: PipelineDag, space: _core.Space, state: _core.States, largest: int = 3) -> tuple[StageCost, ...]:
    """Split the analytical cost of one loop nest into Stages and terms.

    Args:
        dag: The pipeline that `space` was made of.
        space: The space of the loop nest.
        state: A batch of one.
        largest: How many terms to keep a Stage.

    Returns:
        Stages that cost anything, the most expensive first. A Func that is inlined into several is reckoned as one.
    """
    table = [(name, meaning) for name, (_, meaning) in space.term_table().items()]
    stages = []
    (rows,) = space.featurize(state)
    for number, (stage, row) in enumerate(zip(dag.stages, rows, strict=True)):
        if not row.any():
            continue
        seconds = space.terms(row) * space.analytical_coefficients(number, row)
        order = [int(t) for t in (-seconds).argsort(kind="stable")[:largest] if seconds[t] > 0]
        terms = tuple(TermCost(table[t][0], float(seconds[t]), table[t][1]) for t in order)
        name = base_name(dag.funcs[stage.func].name)
        stages.append(StageCost(name, stage.index, float(seconds.sum()), terms))
    return tuple(sorted(stages, key=lambda stage: -stage.seconds))
