"""Writes down what was measured, as soon as it was: in a database, where one is given, and for the result.

In: outcomes. Out: records, in the order in which they were made. When a batch has been noted, a kill loses nothing.
"""

import datetime
import uuid
from collections.abc import Sequence
from dataclasses import replace

from metol.measure import Outcome
from metol.provenance import metol_version
from metol.tune.database import Records
from metol.tune.problem import Problem
from metol.tune.proposals import Proposal
from metol.tune.record import Record

__all__ = ["Journal"]


class Journal:
    """The records of one run of the tuner on one pipeline."""

    def __init__(self, problem: Problem, records: Records | None) -> None:
        self._problem = problem
        self._records = records
        self._session = uuid.uuid4().hex[:12]
        self._history: list[Record] = []

    @property
    def history(self) -> tuple[Record, ...]:
        """All that was measured in this run."""
        return tuple(self._history)

    def earlier(self) -> tuple[Record, ...]:
        """What earlier runs measured under the same key."""
        return () if self._records is None else self._records.of_key(self._problem.key)

    def seeds(self) -> tuple[Record, ...]:
        """The best that was measured of this algorithm elsewhere, or at other sizes."""
        return () if self._records is None else self._records.seeds(self._problem.key)

    def note(self, pairs: Sequence[tuple[Proposal, Outcome]], *, is_final: bool = False) -> tuple[Record, ...]:
        """Write outcomes down, all of them in one transaction."""
        made = tuple(self._record(proposal, outcome, is_final=is_final) for proposal, outcome in pairs)
        self._history += made
        if self._records is not None:
            self._records.add(*made)
        return made

    def _record(self, proposal: Proposal, outcome: Outcome, *, is_final: bool) -> Record:
        row = replace(outcome.measurement, app=self._problem.label)
        if proposal.is_foreign and not is_final and row.verified:
            # Before the final race it is run at every size; until then nobody is to find it here and use it.
            row = replace(row, verified=False, detail=f"not run at every size; {row.detail}")
        return Record.of_measurement(
            self._problem.key,
            row,
            proposal.schedule,
            proposal.origin,
            nest="" if proposal.nest is None else proposal.nest.to_json(),
            predicted_seconds=proposal.predicted_seconds,
            is_final=is_final,
            machine=dict(self._problem.identity),
            metol_version=metol_version(),
            session=self._session,
            made_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        )
