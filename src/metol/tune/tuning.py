"""Tuning by measurement: `autotune` for one pipeline, `tune_all` for several that share a budget.

Enter: pipelines and a budget. Leaves: for each the fastest schedule that was measured and is right, never slower than
any that was tried. Source: Adams et al. 2019, §4.3 (dropout, retraining) and §6 (modes), and beyond: halving races,
measured descent, peers.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import halide as hl

from metol.errors import MetolError, TuningError
from metol.heap import gives_back_memory
from metol.interrupts import first_interrupt
from metol.measure import InputValue, PipelineSource
from metol.options import STRATEGIES, SearchOptions
from metol.pipeline import EstimateMap
from metol.targets import Machine, parse_target
from metol.tune.budget import Clock, TuningBudget
from metol.tune.database import Records
from metol.tune.problem import Problem
from metol.tune.progress import Progress, shown_progress, tell_how_to_stop
from metol.tune.result import TuningFailure, TuningResult
from metol.tune.rounds import RoundPlan
from metol.tune.tuning_run import TuningRun, TuningSettings

__all__ = [
    "MODES",
    "TUNING_STRATEGIES",
    "autotune",
    "mode_budget",
    "settings_of_mode",
    "settings_of_strategy",
    "tune_all",
    "tuning_strategy",
]

MODES = ("greedy", "beam", "sample-32", "tune")
"""The modes of Adams et al. 2019, §6: the greedy search's result, the beam's, the best of 32 samples, and tuning.

Beside them there are rounds times samples, such as ``20x80`` (Anderson et al. 2021, §6): in each round so many samples
are drawn and measured, and then the cost model is fitted anew to all measurements."""

MEASURED_TREES = "mcts+real"
"""What tunes by default on a CPU."""

TUNING_STRATEGIES = (*STRATEGIES, MEASURED_TREES)
"""What may choose the schedules that are measured: a search, around whose result samples are drawn and descents made,
or trees that go on from the fastest that was measured (ProTuner 2020, §4.2)."""

_SAMPLES = 32
_DEFAULT_BUDGET = "10min"


@gives_back_memory
def autotune(
    pipeline: hl.Pipeline | hl.Func | PipelineSource | str,
    *,
    budget: TuningBudget | str | float | None = None,
    records: str | Path | None = None,
    mode: str = "tune",
    strategy: str | None = None,
    options: SearchOptions | None = None,
    target: str | hl.Target | None = None,
    estimates: EstimateMap | None = None,
    machine: Machine | None = None,
    threads: int | None = None,
    inputs: Mapping[str, InputValue] | None = None,
    is_cold: bool = False,
    settings: TuningSettings | None = None,
    progress: Progress | None = None,
) -> TuningResult:
    """Find the fastest schedule by measuring; the pipeline stays as it is until `result.apply(pipeline)`.

    Ctrl-C ends it with the best so far; a second one raises KeyboardInterrupt. Either way all that was measured is in
    the records.

    Args:
        pipeline: The pipeline, the Func of its only output, or a source such as ``app:harris``.
        budget: Seconds, or text such as ``10min`` or ``200 trials``; ten minutes if None.
        records: A database that keeps everything measured, and from which tuning goes on.
        mode: One of MODES, or rounds times samples, such as ``20x80``.
        strategy: One of TUNING_STRATEGIES; if None, measured trees (`mcts+real`) on a CPU, in the mode ``tune`` and
            where the options name no strategy, and that of the options otherwise.
        options: How to search.
        target: A Halide target; the CPU of this machine if None.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.
        machine: The CPU or GPU to schedule for, which must be here; as `autoschedule` chooses it if None.
        threads: Threads that the schedule will run with; all of this process if None.
        inputs: What to run on in place of random inputs, by name: arrays, numbers, or files (.npy, .png).
        is_cold: Whether caches are emptied before each run that is timed.
        settings: How to tune, beyond all that.
        progress: Told after every step; if None, a line on stderr shows them where that is a terminal.

    Returns:
        The best schedule, as measured in the final race, and all that was measured.

    Raises:
        GivenInputError: an input is not one of the pipeline's, or of the wrong type or size.
        TuningError: the budget, the mode or the strategy makes no sense, or no schedule was right.
        RecordError: the file of records cannot be used.
        MetolError: the pipeline cannot be built, read or run.
    """
    options = options or SearchOptions()
    search, tuning = settings_of_mode(mode, options, settings or TuningSettings())
    chosen = tuning_strategy(strategy, mode, options, target) or search.strategy
    search, tuning = settings_of_strategy(chosen, search, tuning)
    limits = mode_budget(mode, budget)
    with contextlib.ExitStack() as stack:
        database = None if records is None else stack.enter_context(Records(records))
        is_cancelled = stack.enter_context(first_interrupt(tell_how_to_stop))
        told = progress or stack.enter_context(shown_progress())
        problem = stack.enter_context(
            Problem(
                pipeline,
                options=search,
                target=target,
                estimates=estimates,
                machine=machine,
                threads=threads,
                inputs=inputs or {},
                is_cold=is_cold,
            )
        )
        (result,) = tune_all([problem], limits, tuning, records=database, progress=told, is_cancelled=is_cancelled)
    if isinstance(result, TuningFailure):
        raise result.error or TuningError(result.reason)
    return result


def settings_of_mode(
    mode: str, options: SearchOptions, settings: TuningSettings
) -> tuple[SearchOptions, TuningSettings]:
    """Return how a mode searches and tunes.

    Raises:
        TuningError: there is no such mode, or it is one of rounds, and nothing fits the cost model after each.
    """
    rounds = RoundPlan.parse(mode, replace(options, strategy="batch").batch)
    if rounds is not None:
        if settings.tuner.retrainer is None:
            raise TuningError(
                f"In the mode `{mode}` the cost model is fitted anew after each round; pass what fits it, as in "
                "`TuningSettings(TunerOptions(retrainer=metol.train.FineTuner(is_fresh=True)))`."
            )
        tuner = replace(settings.tuner, rounds=rounds, peers=())
        return replace(options, strategy="batch", searches=rounds.batch.searches), replace(settings, tuner=tuner)
    if mode not in MODES:
        raise TuningError(f"There is no mode `{mode}`; there are {', '.join(MODES)}, and rounds as in 20x80.")
    if mode == "greedy":
        return replace(options, strategy="greedy"), replace(settings, only_seeds=True)
    if mode == "beam":
        return options, replace(settings, only_seeds=True)
    if mode == "sample-32":
        return options, replace(settings, tuner=replace(settings.tuner, sample_share=1.0, peers=()))
    return options, settings


def tuning_strategy(
    strategy: str | None, mode: str, options: SearchOptions, target: str | hl.Target | None
) -> str | None:
    """Return by what is tuned; None for whatever the mode searches by.

    Args:
        strategy: What the user named; None for the default, which is what has won at equal time (`protuner-fig9`).
        mode: One of MODES, or rounds times samples: all but ``tune`` have their own.
        options: How the user wants to search.
        target: A Halide target; the CPU of this machine if None. On GPUs trees were not measured.
    """
    is_open = strategy is None and mode == "tune" and options.strategy == SearchOptions().strategy
    return MEASURED_TREES if is_open and not parse_target(target).has_gpu_feature() else strategy


def settings_of_strategy(
    strategy: str, options: SearchOptions, settings: TuningSettings
) -> tuple[SearchOptions, TuningSettings]:
    """Return how a strategy searches and tunes.

    Raises:
        TuningError: there is no such strategy, or the mode has its own.
    """
    if strategy not in TUNING_STRATEGIES:
        raise TuningError(f"Nothing tunes by `{strategy}`; there are {', '.join(TUNING_STRATEGIES)}.")
    if settings.tuner.rounds is not None and strategy != "batch":
        raise TuningError(f"Rounds are drawn by the strategy `batch`, and not by `{strategy}`; leave the strategy out.")
    if strategy == MEASURED_TREES:
        return options, replace(settings, tuner=replace(settings.tuner, trees=options.monte_carlo))
    return replace(options, strategy=strategy), settings


def mode_budget(mode: str, budget: TuningBudget | str | float | None, pipelines: int = 1) -> TuningBudget:
    """Return the budget of a mode: that of tuning is the user's, the others bring a number of trials a pipeline."""
    given = None if budget is None else TuningBudget.parse(budget)
    if mode == "tune":
        return given or TuningBudget.parse(_DEFAULT_BUDGET)
    rounds = RoundPlan.parse(mode)
    trials = rounds.trials if rounds is not None else _SAMPLES if mode == "sample-32" else 1
    return TuningBudget(None if given is None else given.seconds, trials * pipelines)


def tune_all(
    problems: Sequence[Problem],
    budget: TuningBudget,
    settings: TuningSettings | None = None,
    *,
    records: Records | None = None,
    progress: Progress = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[TuningResult | TuningFailure, ...]:
    """Tune several pipelines on one budget.

    Half of the budget is shared evenly; the rest goes to whoever has gained most of late. A pipeline that cannot be
    tuned is a `TuningFailure`, and leaves its share to the others.

    Returns:
        One outcome for each problem, in the order given.
    """
    clock = Clock(budget)
    outcomes: dict[int, TuningResult | TuningFailure] = {}
    with contextlib.ExitStack() as stack:
        runs = [
            stack.enter_context(
                TuningRun(
                    problem,
                    settings or TuningSettings(),
                    records,
                    clock=clock,
                    parts=len(problems),
                    progress=progress,
                    is_cancelled=is_cancelled,
                )
            )
            for problem in problems
        ]
        for place, run in enumerate(runs):
            with _failing(run, place, outcomes):
                if is_cancelled():
                    raise TuningError(f"Interrupted before anything of {run.problem.label} was measured.")
                run.start()
        _share(clock, [run for place, run in enumerate(runs) if place not in outcomes], is_cancelled)
        unfinished = [place for place in range(len(runs)) if place not in outcomes]
        for count, place in zip(range(len(unfinished), 0, -1), unfinished, strict=True):
            with _failing(runs[place], place, outcomes):
                outcomes[place] = runs[place].finish(clock.seconds + clock.seconds_left / count)
    return tuple(outcomes[place] for place in range(len(problems)))


def _share(clock: Clock, runs: Sequence[TuningRun], is_cancelled: Callable[[], bool]) -> None:
    """Give everybody their turns, until only the final races are left of the budget."""
    sharing = _Sharing(clock, len(runs))
    while not is_cancelled():
        clock.reserve_seconds = sum(run.reserve_seconds for run in runs)
        ready = [run for run in runs if not run.is_exhausted]
        if not ready or sharing.is_spent():
            return
        run = sharing.next(ready)
        try:
            run.step(sharing.share(run))
        except MetolError as error:  # what was measured before is still good
            run.note(f"measuring ended early: {error}")
            run.is_exhausted = True


@contextlib.contextmanager
def _failing(run: TuningRun, place: int, outcomes: dict[int, TuningResult | TuningFailure]) -> Iterator[None]:
    """Make a failure of one pipeline its outcome, and let the others go on."""
    try:
        yield
    except MetolError as error:
        outcomes[place] = TuningFailure(run.problem.label, str(error), run.history, error)


class _Sharing:
    """Who is next, and how much of its part of the budget a pipeline has spent."""

    # Of the budget, what is shared evenly before gains count.
    EVEN_SHARE = 0.5

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock = clock
        self._count = count

    def is_spent(self) -> bool:
        """Whether only the final races are left."""
        return self._clock.trials_left == 0 or self._clock.seconds_left <= self._clock.reserve_seconds

    def share(self, run: TuningRun) -> float:
        """The share of its even part that a pipeline has spent: beyond 1 where it has had more."""
        budget = self._clock.budget
        shares = [0.0]
        if budget.seconds is not None:
            usable_seconds = max(1e-9, budget.seconds - self._clock.reserve_seconds)
            shares.append(run.spent_seconds * self._count / usable_seconds)
        if budget.trials is not None:
            shares.append(run.trials * self._count / budget.trials)
        return max(shares)

    def next(self, ready: Sequence[TuningRun]) -> TuningRun:
        """Return whose turn it is."""
        behind = min(ready, key=self.share)
        if self.share(behind) < self.EVEN_SHARE:
            return behind
        return max(ready, key=lambda run: (run.gain_rate, -self.share(run)))
