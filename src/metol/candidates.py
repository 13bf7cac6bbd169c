"""Which schedule is returned: the best that Halide lowers, that asks for no more than it may, and that is right.

Enter: what a search found. Leaves: a finished schedule, and why each better one was refused.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import halide as hl

from metol import _core
from metol.errors import MetolError, ScheduleFormatError
from metol.lower import (
    Directive,
    LoweringOptions,
    Schedule,
    plain_directives,
    rewritten_directives,
    root_directives,
    safe_directives,
    target_directives,
)
from metol.pipeline import Joint, PipelineDag, Rfactor, Staging, funcs_before_outputs
from metol.refusals import are_alike
from metol.search import Form, SearchResult, one_kernel_each
from metol.targets import Machine
from metol.targets.cpu import CpuMachine
from metol.verification import Verification

__all__ = [
    "ORIGINS",
    "Candidate",
    "Choice",
    "Nest",
    "first_accepted",
    "last_resorts",
    "nest_of",
    "plain_candidates",
    "searched_candidates",
]

# Of the decisions' layout: one more whenever the same numbers come to mean another loop nest.
_NEST_VERSION = 1

# Where so many are refused, whatever is wrong is likely to be wrong with the others, too.
_MOST_ALTERNATIVES = 9
# Of the best few of a search, those that were refused one after the other for the same reason, for the rest to be tried
# after narrower searches: they are likely to share what was refused, and to lower each takes seconds.
_MOST_ALIKE = 3
# What spills at most so many times as much as what spills least is as good (Anderson et al. 2021, §6.1).
_SPILL_TOLERANCE = 1.5
# What is predicted to take so many times as long is no better for not spilling.
_MOST_DEARER = 1.25
# To assemble the kernels of one more takes seconds, of large pipelines half a minute.
_MOST_SPILLING = 5

ORIGINS = {
    "search": "the best found",
    "alternative": "the next best found",
    "narrower": "the best found in a narrower space",
    "safe": "the safe schedule",
    "root": "the plain schedule, everything at root",
    "none": "no schedule at all, everything inline",
}
"""Where a schedule can be from, and what that is called."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could be returned, unless it turns out to be no good."""

    origin: str
    """A key of ORIGINS."""
    directives: Callable[[], tuple[Directive, ...]]
    """Makes the directives."""
    cost_seconds: float = math.nan
    """Predicted run time; NaN where no search found it."""
    lower: Callable[[LoweringOptions], tuple[Directive, ...]] | None = None
    """Makes the directives of the same loop nest by other rules; None where no search found one."""
    nest: "Callable[[], Nest] | None" = None
    """Tells the decisions that led to it; None where no search found it."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest by the decisions that lead to it: small, and the same in every process."""

    path: tuple[tuple[int, ...], ...]
    """`Space.path`: one decision after the other."""
    rfactors: tuple[tuple[int, int, tuple[tuple[str, str, str, int], ...], tuple[tuple[str, str], ...]], ...] = ()
    """Updates that are computed in two steps: the arguments of each `Rfactor`, with the pipeline's own RVars numbered,
    as in ``$0``, for names that nobody chose differ from run to run."""
    stagings: tuple[tuple[int, int], ...] = ()
    """What may be copied: the arguments of each `Staging`."""
    joints: tuple[tuple[int, ...], ...] = ()
    """Outputs that are computed in the same loops."""
    specialize_estimate: bool = True
    """Whether lowering makes a version for the estimated extents (`LoweringOptions`)."""

    def to_form(self, dag: PipelineDag) -> tuple[tuple[Rfactor, ...], tuple[Staging, ...], tuple[Joint, ...]]:
        """Return what makes the form that the decisions are about of a pipeline, as it is in `dag`."""
        names = {code: name for name, code in _rvar_codes(dag).items()}
        rfactors = (Rfactor(func, update, *_renamed(loops, names)) for func, update, *loops in self.rfactors)
        return tuple(rfactors), tuple(Staging(*parts) for parts in self.stagings), self.joints

    def to_json(self) -> str:
        """Return the nest as one line."""
        return json.dumps({"version": _NEST_VERSION, **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Nest":
        """Read what `to_json` wrote.

        Raises:
            MetolError: it is something else, or of a version whose decisions mean something else.
        """
        try:
            content = json.loads(text)
            if content["version"] != _NEST_VERSION:
                raise ValueError(f"it is of version {content['version']}, and this Metol reads {_NEST_VERSION}")
            return Nest(
                tuple(tuple(int(part) for part in decision) for decision in content["path"]),
                tuple(
                    (func, update, _tuples(splits), _tuples(kept)) for func, update, splits, kept in content["rfactors"]
                ),
                _tuples(content["stagings"]),
                _tuples(content.get("joints", ())),  # of before there were any
                bool(content["specialize_estimate"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise MetolError(f"`{text[:60]}` is no loop nest: {error}.") from error


def nest_of(start: Form, form: Form, state: _core.States, *, specialize_estimate: bool = True) -> Nest:
    """Return the decisions that lead to a loop nest, a batch of one, in a form of the pipeline that `start` is."""
    codes = _rvar_codes(start.dag)
    return Nest(
        tuple(tuple(map(int, decision)) for decision in form.space.path(state)),
        tuple((r.func, r.update, *_renamed((r.splits, r.preserved), codes)) for r in form.rfactors),
        tuple((copy.func, copy.consumer) for copy in form.stagings),
        tuple(map(tuple, form.joints)),
        specialize_estimate,
    )


def _rvar_codes(dag: PipelineDag) -> dict[str, str]:
    """Number the reduction loops of a pipeline, by name."""
    names = dict.fromkeys(loop.name for stage in dag.stages for loop in stage.loops if loop.is_rvar)
    return {name: f"${number}" for number, name in enumerate(names)}


def _renamed(loops: Iterable[Iterable[Sequence[Any]]], names: Mapping[str, str]) -> Any:
    """Rename what is split, and what is preserved, of an `Rfactor`: the first of each tuple."""
    return tuple(tuple((names.get(first, first), *rest) for first, *rest in part) for part in loops)


def _tuples(lists: Iterable[Iterable[Any]]) -> Any:
    return tuple(map(tuple, lists))


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that was accepted."""

    candidate: Candidate
    """What it was."""
    schedule: Schedule
    """What became of it."""
    verification: Verification
    """What was found out about it."""


def searched_candidates(
    start: Form,
    form: Form,
    found: SearchResult,
    machine: Machine,
    options: LoweringOptions,
    model: _core.CostModel,
) -> Iterator[Candidate]:
    """Yield what a search found, best first.

    Args:
        start: The pipeline as it is.
        form: What rewriting made of it, or the same; `found` is about this one.
        found: The outcome of the search.
        machine: What it went by.
        options: What lowering goes by.
        model: What it predicted run times with.
    """
    # What lowers outlives the search, and must not keep all that this has remembered.
    dag, rfactors, stagings, real_func_count = form.dag, form.rfactors, form.stagings, start.dag.real_func_count

    def lower(schedules: Sequence[_core.FuncSchedule], rules: LoweringOptions) -> tuple[Directive, ...]:
        scheduled = target_directives(machine, dag, schedules, rules)
        return rewritten_directives(dag, rfactors, scheduled, real_func_count, stagings)

    def versions(origin: str, state: _core.States, cost_seconds: float) -> Iterator[Candidate]:
        nest = partial(nest_of, start, form, state, specialize_estimate=options.specialize_estimate)
        schedules = state.describe()
        made = partial(lower, schedules, options)
        yield Candidate(origin, made, cost_seconds, partial(lower, schedules), nest)
        # Whoever goes on has refused it, or measures all that there are.
        careful = partial(lower, schedules, replace(options, masks_descending_loads=False))
        if careful() != made():
            yield Candidate(origin, careful, cost_seconds, partial(lower, schedules), nest)

    yield from versions("search", found.state, found.cost_seconds)
    for state in found.alternatives[:_MOST_ALTERNATIVES]:
        yield from versions("alternative", state, float(form.space.cost(state, model)[0]))


def last_resorts(start: Form, machine: Machine, options: LoweringOptions) -> Iterator[Candidate]:
    """Yield what needs no search: the safe schedule, everything at root, and everything inline.

    On a GPU the safe schedule is a kernel for each Stage of each Func.
    """
    held = funcs_before_outputs(start.dag) if options.may_alias else frozenset()
    if isinstance(machine, CpuMachine):
        yield Candidate("safe", partial(safe_directives, start.dag, machine.vector_bytes, options.kept, held))
    else:

        def kernels() -> tuple[Directive, ...]:
            return target_directives(machine, start.dag, one_kernel_each(start.space).describe(), options)

        yield Candidate("safe", kernels)
    yield Candidate("root", partial(root_directives, start.dag, options.kept))
    if not held:
        yield Candidate("none", tuple)


def plain_candidates(pipeline: hl.Pipeline, kept: Sequence[int]) -> Iterator[Candidate]:
    """Yield what there is for a pipeline that cannot be searched."""
    yield Candidate("root", partial(plain_directives, pipeline, kept))
    yield Candidate("none", tuple)  # what a Func that is read without bounds needs


def first_accepted(
    candidates: Iterable[Candidate],
    frame: Schedule,
    refuse: Callable[[Schedule], str],
    inspect: Callable[[Schedule], Verification],
    verify: Callable[[Schedule, Verification], Verification],
) -> tuple[Choice | None, tuple[str, ...]]:
    """Return the first candidate that is accepted, if any, and why each before it was not.

    One whose kernels spill registers is passed over for one that does not and is predicted to be about as fast; where
    the best few that a search found spill, the first of those that spill little is taken (Anderson et al. 2021, §6.1).

    Args:
        candidates: Best first.
        frame: The schedule without its directives.
        refuse: Tells why a schedule must not be returned, or "".
        inspect: Tells what its kernels take, and whether they can be launched.
        verify: Tells whether a schedule is right, given what `inspect` told; asked of what is to be returned alone.
    """
    refusals: list[str] = []
    reasons: list[str] = []  # of those that were not passed over for what they spill
    spilling: list[tuple[Choice, str]] = []

    def accept(choice: Choice) -> Choice | None:
        verification = verify(choice.schedule, choice.verification)
        if verification.refusal:
            refusals.append(f"{ORIGINS[choice.candidate.origin]}: {verification.refusal}")
            return None
        return replace(choice, verification=verification)

    for candidate in _with_alike_ones_late(candidates, reasons):
        if spilling and not _is_about_as_good(candidate, spilling):
            if (chosen := _accept_one_that_spills(spilling, refusals, accept)) is not None:
                return chosen, tuple(refusals)
            spilling.clear()
        inspected = Verification()
        try:
            schedule = replace(frame, directives=candidate.directives())
        except ScheduleFormatError as error:
            refusals.append(f"{ORIGINS[candidate.origin]}: {error}")
            continue
        refusal = refuse(schedule)
        if not refusal:
            inspected = inspect(schedule)
            refusal = inspected.refusal
        choice = Choice(candidate, schedule, inspected)
        if refusal:
            refusals.append(f"{ORIGINS[candidate.origin]}: {refusal}")
            reasons.append(refusals[-1])
        elif inspected.spill_bytes:
            refusals.append(f"{ORIGINS[candidate.origin]}: its kernels spill {inspected.spill_bytes} B of registers")
            spilling.append((choice, refusals[-1]))
        elif (chosen := accept(choice)) is not None:
            return chosen, tuple(refusals)
    return _accept_one_that_spills(spilling, refusals, accept), tuple(refusals)


def _with_alike_ones_late(candidates: Iterable[Candidate], reasons: Sequence[str]) -> Iterator[Candidate]:
    """Yield the candidates; alternatives come before the last resorts where those before them share a reason.

    `reasons` grow as candidates are refused.
    """
    late: list[Candidate] = []
    for candidate in candidates:
        latest = reasons[-_MOST_ALIKE:]
        if candidate.origin == "alternative" and len(latest) == _MOST_ALIKE and are_alike(latest):
            late.append(candidate)
            continue
        if candidate.origin == "safe":
            yield from late
            late.clear()
        yield candidate
    yield from late


def _is_about_as_good(candidate: Candidate, spilling: Sequence[tuple[Choice, str]]) -> bool:
    """Whether a candidate is worth assembling, where all before it spill."""
    first = spilling[0][0].candidate
    return len(spilling) < _MOST_SPILLING and candidate.cost_seconds <= _MOST_DEARER * first.cost_seconds


def _accept_one_that_spills(
    spilling: Sequence[tuple[Choice, str]], refusals: list[str], accept: Callable[[Choice], Choice | None]
) -> Choice | None:
    """Return the first of what spills little that is accepted, if any, and take back that it was refused."""
    least = min((choice.verification.spill_bytes for choice, _ in spilling), default=0)
    for choice, refusal in spilling:
        if choice.verification.spill_bytes <= _SPILL_TOLERANCE * least and (chosen := accept(choice)) is not None:
            refusals.remove(refusal)
            return chosen
    return None
