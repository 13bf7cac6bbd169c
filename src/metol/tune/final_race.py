"""The final race: the best few are compiled again, in processes of their own, and the fastest of them is what is told.

In: the standings. Out: the records of these last measurements. What somebody else wrote is first run at every awkward
size, for no lowering of ours has made it right there.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metol.measure import (
    CheckOutcome,
    Measurement,
    Outcome,
    RunOptions,
    SizeChecker,
    Status,
    Workbench,
    sizes_to_check,
)
from metol.targets import parse_target
from metol.tune.journal import Journal
from metol.tune.problem import Problem
from metol.tune.proposals import Proposal
from metol.tune.record import Record
from metol.tune.standings import Standing, Standings

__all__ = ["FinalRace", "wrong_size"]


@dataclass(frozen=True, slots=True)
class FinalRace:
    """How the best few are measured at the end."""

    finalists: int = 4
    """Schedules that run, the best of them all first; what the search found by itself runs besides."""
    processes: int = 3
    """How often each is compiled and timed in a process of its own."""
    photo_finish: float = 1.3
    """Whoever was this many times as slow as the best has no chance, and is left out."""

    def seconds(self, compile_seconds: float, race_seconds: float) -> float:
        """Estimate how long it takes.

        Args:
            compile_seconds: Wall-clock seconds to compile and verify one schedule of a batch.
            race_seconds: To time it, until its median is known.
        """
        return self.processes * (self.finalists + 1) * (compile_seconds + race_seconds)

    def chosen(self, problem: Problem, standings: Standings, journal: Journal, options: RunOptions) -> list[Standing]:
        """Return who runs, each of which is right at every size; those that are not leave the standings."""
        chosen: list[Standing] = []
        for standing in standings.ranked():
            if len(chosen) == self.finalists or (chosen and standing.score_ms > chosen[0].score_ms * self.photo_finish):
                break
            wrong = wrong_size(problem, standing.proposal, options) if standing.proposal.is_foreign else ""
            if wrong:
                standings.drop(standing.proposal)
                failed = Measurement(problem.label, "schedule").with_failure(Status.WRONG_RESULT, wrong)
                journal.note([(standing.proposal, Outcome(failed))])
            else:
                chosen.append(standing)
        own = [standing for standing in standings.ranked() if standing.proposal.origin == "search"]
        return chosen + [standing for standing in own[:1] if standing not in chosen]

    def run(
        self,
        workbench: Workbench,
        journal: Journal,
        finalists: Sequence[Standing],
        *,
        has_time: Callable[[], bool],
        is_cancelled: Callable[[], bool],
    ) -> tuple[Record, ...]:
        """Measure each in one process after the other, at least once, as long as there is time.

        What is interrupted is not noted: those who had their turn would look better than those who had not.
        """
        records: list[Record] = []
        proposals = [standing.proposal for standing in finalists]
        for number in range(self.processes):
            if number > 0 and not has_time():
                break
            outcomes = workbench.race_afresh([proposal.schedule for proposal in proposals], is_cancelled)
            if is_cancelled() or any(outcome.is_cancelled for outcome in outcomes):
                break
            records += journal.note(list(zip(proposals, outcomes, strict=True)), is_final=True)
        return tuple(records)


def wrong_size(problem: Problem, proposal: Proposal, options: RunOptions) -> str:
    """Run a schedule at every awkward size, and tell at which it is wrong; "" where it is right at all."""
    sizes = sizes_to_check(problem.planner.pipeline, proposal.schedule, parse_target(options.target))
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        file = Path(folder) / "schedule.json"
        proposal.schedule.save(file)
        with SizeChecker(problem.source, replace(options, timing=None), Path(folder)) as checker:
            for check in checker.check(file, sizes):
                if check.outcome is CheckOutcome.FAILED:
                    return f"at {check.size} ({check.extents}): {check.detail}"
    return ""
