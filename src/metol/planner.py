"""One pipeline, read once: what there is to know before a schedule is looked for, and the ways to look for one.

Enters: a pipeline and how it will run. Leaves: candidates, as a search finds them, and schedules of loop nests that are
known by their decisions. `autoschedule` asks for one search; tuning asks again and again.
"""

import contextlib
import copy
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import halide as hl

from metol import _core
from metol.candidates import Candidate, Nest, last_resorts, nest_of, plain_candidates, searched_candidates
from metol.cost_choice import choose_weights
from metol.errors import DeadEndError, ExtractionError, MetolError, ScheduleFormatError
from metol.framing import block_limits, buffer_sizes, frame_of, read_pipeline
from metol.keep import find_kept
from metol.lower import Directive, LoweringOptions, Schedule, rewritten_directives, target_directives
from metol.measure import Acceptance
from metol.options import SearchOptions
from metol.pipeline import (
    EstimateMap,
    Joint,
    PipelineDag,
    Rfactor,
    Staging,
    extract,
    find_joints,
    func_names,
    funcs_before_outputs,
)
from metol.returned_memory import charging_machine, seconds_of_new_pages
from metol.search import BeamSearch, Budget, Form, Grouping, Rewriting, SearchResult, search_forms
from metol.targets import (
    Machine,
    choose_machine,
    default_target,
    fit_target,
    machine_parameters,
    parse_target,
    propose_rfactors,
    propose_stagings,
)
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine, require_opencl_types

__all__ = ["Found", "Planner"]

# How many times as long a loop nest takes by the memory that is given back, for another search to pay. Below, what is
# found with all blocks charged is no better, by measurements (docs/cost_model.md).
_CHARGED_FACTOR = 1.5
# What sharing all loops must save of the predicted time: the guards of outputs whose sizes may differ, and what they
# leave of constant sizes inside, cost up to that much more than predicted, by measurements.
_LEAST_JOINT_GAIN = 0.1
# Of the budget, what the search without joints may take where there are any.
_PLAIN_SHARE = 0.5
# Where all that a search has found is refused: what the spaces of further searches do without, more and more of it.
_NARROWER = (
    ("allow_sliding", "allow_storage", "allow_nested_parallel"),
    ("allow_unroll", "allow_reductions", "allow_split"),
    ("allow_compute_at",),
)
# As long as so much of the budget would, these searches may take, all together.
_NARROWER_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to choose from, and how it was found."""

    candidates: Iterator[Candidate]
    """Best first; the last resorts come last."""
    form: Form | None = None
    """The form of the pipeline that won; None where nothing was searched."""
    result: SearchResult | None = None
    """What the search found in it."""
    seconds: float = 0
    """Wall-clock time of the search."""
    is_complete: bool = True
    """False where the time budget ended it early."""
    refusals: tuple[str, ...] = ()
    """Why nothing was searched."""

    @property
    def count(self) -> int:
        """Loop nests that were generated and costed."""
        return 0 if self.result is None else self.result.candidates

    @property
    def pruned(self) -> tuple[tuple[str, int], ...]:
        """Candidates that were illegal or hopeless, by reason."""
        if self.form is None:
            return ()
        return tuple((reason, count) for reason, count in self.form.space.pruned_counts().items() if count)


class Planner:
    """A pipeline together with how it will run."""

    def __init__(
        self,
        pipeline: hl.Pipeline | hl.Func,
        options: SearchOptions,
        *,
        target: str | hl.Target | None = None,
        estimates: EstimateMap | None = None,
        machine: Machine | None = None,
        gpu: str | None = None,
        threads: int | None = None,
        keep: Sequence[hl.Func | str] | hl.Func | str = (),
    ) -> None:
        """Read a pipeline; the arguments are those of `autoschedule`, and so are the errors."""
        target = default_target(gpu) if target is None else target
        parsed = parse_target(target)
        names = func_names(pipeline)  # complains about what is no pipeline
        self.pipeline = pipeline if isinstance(pipeline, hl.Pipeline) else hl.Pipeline(pipeline)
        require_opencl_types(self.pipeline, len(names), parsed)
        self.options = options
        self.estimates = estimates
        self.kept = find_kept(self.pipeline, keep)
        self.machine = choose_machine(parsed, machine, gpu=gpu, threads=threads)
        is_chosen = machine is not None or gpu is not None
        self.target = str(fit_target(target, self.machine, is_chosen=is_chosen).to_string())
        self._strategy = options.make(self.machine)  # complains about one for other machines
        self.read = read_pipeline(self.pipeline, estimates, self.target)
        self.frame = frame_of(self.pipeline, self.read, self.target, self.kept)
        self._forms: dict[tuple[Any, ...], Form | ExtractionError] = {}

    @property
    def dag(self) -> PipelineDag:
        """The pipeline as it is.

        Raises:
            ExtractionError: it does something that the search cannot describe.
        """
        if isinstance(self.read, ExtractionError):
            raise self.read
        return self.read

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of the pipeline that were looked at so far, by searches and otherwise."""
        return tuple(form for form in self._forms.values() if isinstance(form, Form))

    def acceptance(self) -> Acceptance:
        """Return a judge of schedules of this pipeline, whose child starts at once; close it."""
        limits = block_limits(self.machine)
        return Acceptance(self.pipeline, buffer_sizes(self.read), target=self.target, limits=limits)

    def search(
        self,
        is_cancelled: Callable[[], bool] = lambda: False,
        limit_seconds: float = math.inf,
        foresee: Callable[[Schedule], None] | None = None,
    ) -> Found:
        """Search as the options say, in all forms of the pipeline.

        Args:
            is_cancelled: Asked between batches; True ends the search with what it has.
            limit_seconds: Ends the search, where the options would give it more time.
            foresee: Told of what may well be the result, each better than the one before, while the search goes on.
        """
        if isinstance(self.read, ExtractionError):
            plain = plain_candidates(self.pipeline, [keep.func for keep in self.kept])
            return Found(plain, refusals=(str(self.read),))
        started = time.monotonic()
        start = self.form()
        seconds = min(self.options.budget_seconds or math.inf, limit_seconds)
        budget = Budget.start(None if math.isinf(seconds) else seconds, is_cancelled)
        if foresee is not None:
            budget = replace(budget, tell=self._teller(foresee))
        joints = self._joints()
        try:
            ways = [self._search_with((), budget.part(_PLAIN_SHARE) if joints else budget)]
        except DeadEndError as error:
            return Found(last_resorts(start, self.machine, self.lowering), refusals=(str(error),))
        if joints and not budget.is_spent():
            with contextlib.suppress(DeadEndError, ExtractionError):
                joined = self._search_with(joints, budget)
                pays = joined[1].cost_seconds < (1 - _LEAST_JOINT_GAIN) * ways[0][1].cost_seconds
                ways = [joined, *ways] if pays else [*ways, joined]
        form, found = ways[0]
        seconds = time.monotonic() - started
        candidates = itertools.chain.from_iterable(
            searched_candidates(start, *way, self.machine, self.lowering, self.model) for way in ways
        )
        candidates = itertools.chain(candidates, last_resorts(start, self.machine, self.lowering))
        found = replace(found, candidates=sum(result.candidates for _, result in ways))
        return Found(candidates, form, found, seconds, all(result.is_complete for _, result in ways))

    def in_narrower_spaces(
        self, candidates: Iterable[Candidate], is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Candidate]:
        """Yield candidates, and before those that need no search, what there is in narrower spaces.

        These are searched when it comes to that: where all that is in the whole space is refused.
        """
        for candidate in candidates:
            if candidate.origin == "safe":
                yield from self._narrower_candidates(is_cancelled)
            yield candidate

    def _narrower_candidates(self, is_cancelled: Callable[[], bool]) -> Iterator[Candidate]:
        start = self.form()
        options = start.space.options
        strategy = replace(self.options, strategy="greedy", refine=True).make(self.machine)
        seconds = self.options.budget_seconds
        budget = Budget.start(None if seconds is None else _NARROWER_SHARE * seconds, is_cancelled)
        for parts in _NARROWER:
            if budget.is_spent():
                return
            for part in parts:
                setattr(options, part, False)
            form = replace(start, space=start.space.restrict(options))
            with contextlib.suppress(DeadEndError):
                found = strategy.search(form.space, self.model, budget)
                best = next(searched_candidates(start, form, found, self.machine, self.lowering, self.model))
                yield replace(best, origin="narrower")

    def _joints(self) -> tuple[Joint, ...]:
        """Outputs that may share all their loops."""
        is_allowed = self.options.fuse and not (self.options.may_alias or self.kept)
        return find_joints(self.dag) if is_allowed and isinstance(self.machine, CpuMachine) else ()

    def _search_with(self, joints: tuple[Joint, ...], budget: Budget) -> tuple[Form, SearchResult]:
        """Search all forms of the pipeline with these outputs joined."""
        start = self.form(joints=joints)
        form, found = search_forms(start, self._rewriting(joints), self._strategy, self.model, budget)
        return self._with_memory_charged(form, found, budget)

    def _with_memory_charged(self, form: Form, found: SearchResult, budget: Budget) -> tuple[Form, SearchResult]:
        """Take what is best with the memory that is given back; search again where that adds half to the time."""
        if not isinstance(self.machine, CpuMachine):
            return form, found
        ours = self._charged(self.machine, form, found)
        if budget.is_spent() or ours.cost_seconds < _CHARGED_FACTOR * found.cost_seconds:
            return form, ours
        other = copy.copy(self)
        other.machine, other._forms = charging_machine(self.machine), {}
        start, rewriting = other.form(joints=form.joints), other._rewriting(form.joints)
        try:
            best, result = search_forms(start, rewriting, self._strategy, self.model, budget)
        except DeadEndError:
            return form, ours
        here, *states = (self.state_of(other.nest_of(best, state)) for state in (result.state, *result.alternatives))
        result = replace(result, state=here[1], alternatives=tuple(state for _, state in states))
        theirs = self._charged(self.machine, here[0], result)
        form, least = (form, ours) if ours.cost_seconds <= theirs.cost_seconds else (here[0], theirs)
        candidates = found.candidates + result.candidates
        return form, replace(least, candidates=candidates, is_complete=found.is_complete and result.is_complete)

    def _charged(self, machine: CpuMachine, form: Form, found: SearchResult) -> SearchResult:
        """Return the best of a result and its alternatives, with what the system took back after the run before."""
        states = found.state, *found.alternatives
        seconds = [
            float(form.space.cost(state, self.model)[0]) + seconds_of_new_pages(form, state, machine)
            for state in states
        ]
        least = min(range(len(states)), key=seconds.__getitem__)
        rest = tuple(state for i, state in enumerate(states) if i != least)
        return replace(found, state=states[least], cost_seconds=seconds[least], alternatives=rest)

    def _teller(self, foresee: Callable[[Schedule], None]) -> Callable[[_core.Space, SearchResult], None]:
        """Return what hands on the schedules of loop nests that are better than all before."""
        least = math.inf

        def tell(space: _core.Space, found: SearchResult) -> None:
            nonlocal least
            form = next((form for form in self.forms if form.space is space), None)
            if form is None or found.cost_seconds >= least:
                return
            least = found.cost_seconds
            with contextlib.suppress(ScheduleFormatError):  # whoever comes to it in the end says so
                schedule = self.schedule_of(form, found.state, self.nest_of(form, found.state))
                if schedule is not None:
                    foresee(schedule)

        return tell

    @functools.cached_property
    def model(self) -> _core.CostModel:
        """What predicts run times.

        Raises:
            WeightsError: the weights that the options name are not there, or are about other features.
        """
        space = self.form().space
        weights = choose_weights(self.options.weights, self.machine, space)
        return _core.CostModel() if weights is None else weights.model(space)

    @property
    def lowering(self) -> LoweringOptions:
        """What lowering goes by."""
        return replace(self.options.lowering, kept=frozenset(keep.func for keep in self.kept))

    def form(
        self,
        rfactors: tuple[Rfactor, ...] = (),
        stagings: tuple[Staging, ...] = (),
        joints: tuple[Joint, ...] = (),
    ) -> Form:
        """Return a form of the pipeline, read once.

        Raises:
            ExtractionError: Halide refuses such a form, or the pipeline cannot be described at all.
        """
        copies = tuple((copy.func, copy.consumer) for copy in stagings)
        key = tuple(map(_rfactor_key, rfactors)), copies, tuple(map(tuple, joints))
        if key not in self._forms:
            try:
                self._forms[key] = self._read_form(rfactors, stagings, joints)
            except ExtractionError as error:  # Halide alone knows whether an update can be factored
                self._forms[key] = error
        form = self._forms[key]
        if isinstance(form, ExtractionError):
            raise form
        return form

    def state_of(self, nest: Nest) -> tuple[Form, _core.States]:
        """Return the loop nest that these decisions lead to.

        Raises:
            MetolError: they belong to another pipeline, or to another version of the search space.
        """
        try:
            form = self.form(*nest.to_form(self.dag))
            state = form.space.replay(nest.path)
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            raise MetolError(f"These decisions do not fit the pipeline: {str(error).splitlines()[0]}") from error
        if int(state.decisions_made[0]) != form.space.decision_count:
            raise MetolError("These decisions end before the loop nest is complete.")
        return form, state

    def schedule_of(self, form: Form, state: _core.States, nest: Nest) -> Schedule | None:
        """Lower a complete loop nest; what comes of it has been accepted by nobody.

        Returns:
            The schedule, or None where the loop nest cannot be written as directives.
        """
        rules = replace(self.lowering, specialize_estimate=nest.specialize_estimate)
        try:
            scheduled = target_directives(self.machine, form.dag, state.describe(), rules)
        except ScheduleFormatError:
            return None
        count = self.dag.real_func_count
        directives = rewritten_directives(form.dag, form.rfactors, scheduled, count, form.stagings)
        return replace(self.frame, directives=directives)

    def best(self, found: Found, count: int) -> tuple[Schedule, ...]:
        """Return the best few different schedules that a search found, best first; nobody has accepted them.

        Args:
            found: What it found.
            count: How many at most; a search of the strategy `batch` finds the most.
        """
        if found.form is None or found.result is None:
            return ()
        schedules: dict[tuple[Directive, ...], Schedule] = {}
        for state in (found.result.state, *found.result.alternatives):
            if len(schedules) >= count:
                break
            schedule = self.schedule_of(found.form, state, self.nest_of(found.form, state))
            if schedule is not None:
                schedules.setdefault(schedule.directives, schedule)
        return tuple(schedules.values())

    def nest_of(self, form: Form, state: _core.States) -> Nest:
        """Return the decisions that lead to a loop nest, lowered as the options say."""
        return nest_of(self.form(), form, state, specialize_estimate=self.options.specialize_estimate)

    def _read_form(
        self, rfactors: tuple[Rfactor, ...], stagings: tuple[Staging, ...], joints: tuple[Joint, ...]
    ) -> Form:
        dag = self.dag
        if rfactors or stagings or joints:
            dag = extract(
                self.pipeline,
                self.estimates,
                target=self.target,
                rfactors=rfactors,
                stagings=stagings,
                joints=joints,
            )
        restrictions = self.options.space
        positions = {func.origin: position for position, func in enumerate(dag.funcs)}
        for keep in self.kept:
            restrictions.pin(positions[keep.func], keep.placement == "inline")
        for func in funcs_before_outputs(dag) if self.options.may_alias else ():
            restrictions.hold_at_root(func)
        parameters = machine_parameters(self.machine, dag)
        space = _core.Space(dag, parameters, restrictions, self.machine.host_threads)
        return Form(dag, space, rfactors, stagings, joints)

    def _rewriting(self, joints: tuple[Joint, ...] = ()) -> Rewriting | None:
        """Return how to read and what to propose of the pipelines that this one becomes; None where none may be.

        What is kept has no update in two steps, and no copy of it or for it is made: its schedule is about the Func as
        it is, and directives that are taken off a pipeline stay on what is kept.
        """
        options = self.options
        if not (options.rfactor or options.staging):
            return None
        kept = {keep.func for keep in self.kept}

        def ours(dag: PipelineDag, stages: Sequence[int]) -> list[int]:
            return [stage for stage in stages if dag.funcs[dag.stages[stage].func].origin not in kept]

        def read(rfactors: tuple[Rfactor, ...], stagings: tuple[Staging, ...]) -> Form | None:
            try:
                return self.form(rfactors, stagings, joints)
            except ExtractionError:
                return None

        def propose(
            dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
        ) -> tuple[tuple[Rfactor, ...], ...]:
            return propose_rfactors(self.machine, dag, schedules, ours(dag, stages)) if options.rfactor else ()

        def propose_copies(
            dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
        ) -> tuple[Staging, ...]:
            # Grouping is the algorithm of its paper, which has no copies.
            has_copies = options.staging and options.strategy != "grouping"
            copies = propose_stagings(self.machine, dag, schedules, ours(dag, stages)) if has_copies else ()
            return tuple(copy for copy in copies if copy.func not in kept)

        is_gpu = isinstance(self.machine, GpuMachine)
        # Grouping goes by a model of its own, and is quick itself.
        quick = self._strategy if isinstance(self._strategy, Grouping) else BeamSearch(width=1)
        return Rewriting(
            read,
            propose,
            propose_copies,
            quick=quick,
            thorough=quick if is_gpu else BeamSearch(width=8),
        )


def _rfactor_key(rfactor: Rfactor) -> tuple[Any, ...]:
    return rfactor.func, rfactor.update, tuple(map(tuple, rfactor.splits)), tuple(map(tuple, rfactor.preserved))
