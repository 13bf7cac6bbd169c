"""Samples as numbers: measured schedules enter, feature rows and what the analytical model makes of them leave.

Each sample is replayed from its decisions, so that the rows are those of the features of today. Source: Adams et al.
2019, §4.1.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metol.candidates import Nest
from metol.errors import MetolError
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.planner import Planner
from metol.targets import Machine
from metol.train.devices import require_one_device
from metol.train.samples import ProgramSamples, Sample

__all__ = ["FeatureTable", "make_table", "table_of_nests"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Samples of many programs. Rows of Stages lie one sample after the other, samples one program after the other."""

    features: tuple[str, ...]
    """Names of the columns of `rows`."""
    terms: tuple[str, ...]
    """Names of the columns of `analytical` and `values`."""
    rows: Floats
    """Features, [rows, F]."""
    operations: Floats
    """Histogram of the operations of each row's Stage, [rows, O]."""
    analytical: Floats
    """Seconds of each term by the analytical model, [rows, T]."""
    values: Floats
    """The terms themselves, [rows, T]."""
    sample_of_row: Integers
    """[rows]"""
    program_of_sample: Integers
    """[samples]"""
    seconds: npt.NDArray[np.float64]
    """Measured, [samples]."""
    programs: tuple[str, ...]
    """Their sources as text."""
    algorithms: tuple[str, ...]
    """What names the algorithm of each program."""

    @property
    def analytical_seconds(self) -> npt.NDArray[np.float64]:
        """What the analytical model predicts, [samples]."""
        total = np.zeros(len(self.seconds))
        np.add.at(total, self.sample_of_row, self.analytical.sum(axis=1, dtype=np.float64))
        return total

    def select(self, programs: Sequence[int]) -> "FeatureTable":
        """Return the table of some of the programs, in this order."""
        samples = np.concatenate([np.flatnonzero(self.program_of_sample == p) for p in programs] or [np.zeros(0, int)])
        place = np.full(len(self.seconds), -1)
        place[samples] = np.arange(len(samples))
        rows = np.flatnonzero(place[self.sample_of_row] >= 0)
        rows = rows[np.argsort(place[self.sample_of_row[rows]], kind="stable")]
        number = {old: new for new, old in enumerate(programs)}
        return FeatureTable(
            self.features,
            self.terms,
            self.rows[rows],
            self.operations[rows],
            self.analytical[rows],
            self.values[rows],
            place[self.sample_of_row[rows]],
            np.array([number[int(p)] for p in self.program_of_sample[samples]], dtype=np.int64),
            self.seconds[samples],
            tuple(self.programs[p] for p in programs),
            tuple(self.algorithms[p] for p in programs),
        )


def make_table(
    programs: Iterable[ProgramSamples],
    machine_of: Callable[[ProgramSamples], Machine] | None = None,
    *,
    least_samples: int = 4,
    decided: Sequence[float] = (1.0,),
    tell: Callable[[str], None] = lambda _: None,
) -> FeatureTable:
    """Featurize all samples that ran; programs with fewer than `least_samples` of them are left out.

    Args:
        programs: What was measured, on processors or on one GPU; several of one program on one target, of different
            generations, become one.
        machine_of: Tells the machine that a program ran on; by default this one.
        least_samples: Of a program, to tell anything about how schedules differ.
        decided: Which part of the decisions is made, from 0 to 1: for each the table has all programs. What is open
            yet has no rows, and the seconds are those of the whole (ProTuner 2020, §3).
        tell: Told which programs and samples are left out, and why.

    Raises:
        MetolError: nothing is left, or they were measured on different devices.
    """
    programs = tuple(programs)
    require_one_device(programs)
    merged: dict[tuple[str, str, str, int, bool], list[ProgramSamples]] = {}
    for program in programs:
        if program.samples:
            key = program.program, program.algorithm, program.target, program.threads, program.has_fixed_sizes
            merged.setdefault(key, []).append(program)
    parts: list[_Part] = []
    for share in decided:
        for (name, *_), versions in merged.items():
            try:
                machine = None if machine_of is None else machine_of(versions[0])
                parts.append(_featurize(versions, machine, least_samples, share, tell))
            except MetolError as error:
                tell(f"{name}: {error}")
    if not parts:
        raise MetolError("There are no samples to learn from: all programs failed, or are of another release.")
    return _joined(parts)


@dataclass(slots=True)
class _Part:
    """One program."""

    program: str
    algorithm: str
    features: tuple[str, ...]
    terms: tuple[str, ...]
    rows: list[Floats]
    operations: list[Floats]
    analytical: list[Floats]
    values: list[Floats]
    counts: list[int]
    """Rows of each sample."""
    seconds: list[float]


def _featurize(
    versions: Sequence[ProgramSamples],
    machine: Machine | None,
    least_samples: int,
    decided: float,
    tell: Callable[[str], None],
) -> _Part:
    """Replay the samples of one program; raises MetolError where that cannot be done, or too few ran or still fit."""
    first = versions[0]
    ran: dict[str, Sample] = {}
    for sample in (sample for program in versions for sample in program.samples if sample.rounds_ms):
        ran.setdefault(sample.id, sample)
    if len(ran) < least_samples:
        raise MetolError(f"too few of its schedules ran, {len(ran)}; at least {least_samples} are wanted")
    source = PipelineSource.parse(first.program)
    options = SearchOptions(fixed_sizes=first.has_fixed_sizes)
    planner = Planner(source.build(), options, target=first.target, machine=machine, threads=first.threads)
    if planner.frame.algorithm_hash != first.algorithm:
        raise MetolError("its seed makes another program today, and its samples are of no use any more")
    space = planner.form().space
    features, terms = tuple(space.feature_table()), tuple(space.term_table())
    part = _Part(first.program, first.algorithm, features, terms, [], [], [], [], [], [])
    reason = "nothing is scheduled yet after so few decisions"
    failed = 0
    for sample in ran.values():
        assert sample.run_ms is not None
        try:
            _add_sample(part, planner, sample.to_nest(), sample.run_ms / 1e3, decided)
        except MetolError as error:  # of a loop nest that the search space no longer has
            reason = str(error)
            failed += 1
    if len(part.counts) < least_samples:
        raise MetolError(reason)
    if failed:
        tell(f"{first.program}: {failed} of its {len(ran)} samples are left out: {reason}")
    return part


def table_of_nests(planner: Planner, seconds: Mapping[str, float]) -> FeatureTable | None:
    """Featurize loop nests of one pipeline, given as JSON with the seconds that they took; None where there are none.

    Those that lead nowhere, such as decisions of another release, are left out.
    """
    space = planner.form().space
    part = _Part("", "", tuple(space.feature_table()), tuple(space.term_table()), [], [], [], [], [], [])
    for text, taken in seconds.items():
        with contextlib.suppress(MetolError):
            _add_sample(part, planner, Nest.from_json(text), taken)
    return _joined([part]) if part.counts else None


def _add_sample(part: _Part, planner: Planner, nest: Nest, seconds: float, decided: float = 1.0) -> None:
    form, state = planner.state_of(nest)
    if decided < 1:
        state = form.space.replay(nest.path[: math.ceil(decided * len(nest.path))])
    (rows,) = form.space.featurize(state)
    used = [stage for stage in range(len(rows)) if rows[stage].any()]
    if not used:
        return
    part.rows.append(rows[used])
    part.operations.append(np.array([form.dag.stages[stage].op_histogram for stage in used], dtype=np.float32))
    values = np.array([form.space.terms(rows[stage]) for stage in used])
    known = np.array([form.space.analytical_coefficients(stage, rows[stage]) for stage in used])
    part.values.append(values.astype(np.float32))
    part.analytical.append((values * known).astype(np.float32))
    part.counts.append(len(used))
    part.seconds.append(seconds)


def _joined(parts: Sequence[_Part]) -> FeatureTable:
    first = parts[0]
    counts = [count for part in parts for count in part.counts]
    return FeatureTable(
        first.features,
        first.terms,
        np.concatenate([rows for part in parts for rows in part.rows]),
        np.concatenate([rows for part in parts for rows in part.operations]),
        np.concatenate([rows for part in parts for rows in part.analytical]),
        np.concatenate([rows for part in parts for rows in part.values]),
        np.repeat(np.arange(len(counts)), counts),
        np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
        np.array([seconds for part in parts for seconds in part.seconds]),
        tuple(part.program for part in parts),
        tuple(part.algorithm for part in parts),
    )
