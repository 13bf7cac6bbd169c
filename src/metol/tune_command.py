"""The command `metol tune`: measures schedules until a budget is spent, shows how it goes, and writes the best.

In: words from a shell. Out: progress on stderr, a table on stdout, files, and exit code 1 where a pipeline could not be
tuned, 3 where the target's device is missing. The first Ctrl-C settles for the best so far.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from metol.bench_command import SOURCE_HELP, EstimatesFile, FunctionName, GeneratorParams, Seed
from metol.console import say, wide_console
from metol.destinations import require_writable, write_text
from metol.errors import TuningError
from metol.lower import FUNCTION_NAME, require_function_name

if TYPE_CHECKING:
    from metol.measure import PipelineSource
    from metol.tune import Retrainer, TuningFailure, TuningResult

__all__ = ["tune"]


def tune(
    sources: Annotated[list[str], typer.Argument(help=f"{SOURCE_HELP}; several share the budget.")],
    budget: Annotated[str | None, typer.Option(help="10min (the default), 90s, 1h30min or 200 trials.")] = None,
    records: Annotated[Path | None, typer.Option(help="Keep everything that is measured in this database.")] = None,
    resume: Annotated[Path | None, typer.Option(help="The same, of a database that is there: go on from it.")] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="greedy, beam, sample-32, tune, or ROUNDSxSAMPLES such as 20x80: in each round so many searches, and "
            "the cost model fitted anew after it."
        ),
    ] = "tune",
    strategy: Annotated[
        str | None,
        typer.Option(
            help="mcts+real (measured trees, the default on a CPU), beam (on a GPU), greedy, random, mcts, batch or "
            "grouping (for GPUs)."
        ),
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Fit the cost model to the measurements between batches.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to schedule for; by default all.")] = None,
    target: Annotated[str, typer.Option(help="Halide target, such as host, cuda or opencl.")] = "host",
    fixed_sizes: Annotated[
        bool, typer.Option("--fixed-sizes", help="Outputs always have their estimated size; others are refused.")
    ] = False,
    estimates: EstimatesFile = None,
    generator_param: GeneratorParams = None,
    input: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE (.npy, .png) or NAME=NUMBER, to run on; may be repeated.")
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Empty the caches before each run that is timed.")] = False,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Try what Halide's own schedulers find.")] = True,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option("--json", "-o", help="Write the best for `metol.load`.")] = None,
    python: Annotated[Path | None, typer.Option(help="Write the best as Python source.")] = None,
    cpp: Annotated[Path | None, typer.Option(help="Write the best as a C++ header.")] = None,
    function: FunctionName = FUNCTION_NAME,
) -> None:
    """Find the fastest schedule by measuring."""
    from metol.options import SearchOptions
    from metol.pipeline import read_estimates
    from metol.tune import TuningFailure, tuning_strategy
    from metol.verification import require_device

    require_device(target)
    outputs = [path for path in (json, python, cpp) if path is not None]
    pipelines = _expand(sources)
    _check(pipelines, outputs, records, resume)
    if len(pipelines) > 1 and input:
        raise TuningError("`--input` gives inputs of one pipeline, and there are several; tune them one by one.")
    for path in outputs:
        require_writable(path)
    require_function_name(function)
    how = {
        "target": target,
        "threads": threads,
        "inputs": input or (),
        "is_cold": cold,
        "estimates": None if estimates is None else read_estimates(estimates),
    }
    named = [source.with_parameters(generator_param or []) for source in pipelines]
    options = SearchOptions(fixed_sizes=fixed_sizes, seed=seed)
    chosen = tuning_strategy(strategy, mode, options, target)
    run = _Tuning(
        mode, chosen, budget, options, asks_peers=peers, seed=seed, retrainer=_retrainer(mode, is_wanted=retrain)
    )
    results = run.tune(named, how, resume or records, must_exist=resume is not None)
    _print_results(results)
    if not isinstance(results[0], TuningFailure):
        best = results[0].schedule
        for file, text_of in (
            (json, best.to_json),
            (python, partial(best.to_python, function)),
            (cpp, partial(best.to_cpp, function)),
        ):
            if file is not None:
                write_text(file, text_of())
                say(f"wrote {escape(str(file))}")
    if any(isinstance(result, TuningFailure) for result in results):
        raise typer.Exit(1)


def _check(
    sources: "Sequence[PipelineSource]",
    outputs: Sequence[Path],
    records: Path | None,
    resume: Path | None,
) -> None:
    """Raise TuningError on words that do not go together."""
    if records is not None and resume is not None:
        raise TuningError("`--records` and `--resume` name the same thing; give one of them.")
    if len(sources) > 1 and outputs:
        raise TuningError(
            "`--json`, `--python` and `--cpp` write one schedule, and there are several pipelines; use `--records`, "
            "and then `metol records best FILE SOURCE --json FILE` for each."
        )
    if not sources:
        raise TuningError("There is no pipeline to tune among these files.")


def _expand(texts: Sequence[str]) -> "list[PipelineSource]":
    """Read sources; files of the suite's folder, as in `apps/*`, stand for its apps."""
    import metol_apps
    from metol.measure import PipelineSource

    names = metol_apps.names("full")
    sources = []
    for text in texts:
        path = Path(text)
        if not path.exists() or not all((path.parent / f"{name}.py").exists() for name in names):
            sources.append(PipelineSource.parse(text))
            sources[-1].require_readable()
        elif path.stem in names:
            sources.append(PipelineSource.parse(f"app:{path.stem}"))
    return sources


def _retrainer(mode: str, *, is_wanted: bool) -> "Retrainer | None":
    """Return what fits the cost model between batches or rounds; raises MetolError where its packages are missing."""
    from metol.tune import RoundPlan

    has_rounds = RoundPlan.parse(mode) is not None
    if not is_wanted and not has_rounds:
        return None
    from metol.train import FineTuner, require_extra

    require_extra()
    return FineTuner(is_fresh=has_rounds)


class _Tuning:
    """One call of the command."""

    def __init__(
        self,
        mode: str,
        strategy: str | None,
        budget: str | None,
        options: Any,
        *,
        asks_peers: bool,
        seed: int,
        retrainer: "Retrainer | None" = None,
    ) -> None:
        from dataclasses import replace

        from metol.tune import TuningSettings, mode_budget, settings_of_mode, settings_of_strategy

        settings = TuningSettings(seed=seed)
        tuner = replace(
            settings.tuner, seed=seed, peers=settings.tuner.peers if asks_peers else (), retrainer=retrainer
        )
        modal, settings = settings_of_mode(mode, options, replace(settings, tuner=tuner))
        self._options, self._settings = settings_of_strategy(strategy or modal.strategy, modal, settings)
        self._mode, self._given = mode, budget
        mode_budget(mode, budget)  # complains before anything is built

    def tune(
        self, sources: "Sequence[PipelineSource]", how: dict[str, Any], records: Path | None, *, must_exist: bool
    ) -> "tuple[TuningResult | TuningFailure, ...]":
        """Tune all, and show how it goes."""
        from metol.interrupts import first_interrupt
        from metol.tune import Problem, Records, mode_budget, shown_progress, tell_how_to_stop, tune_all

        with contextlib.ExitStack() as stack:
            database = None if records is None else stack.enter_context(Records(records, may_create=not must_exist))
            is_cancelled = stack.enter_context(first_interrupt(tell_how_to_stop))
            problems: list[Problem] = [
                stack.enter_context(Problem(source, options=self._options, **how)) for source in sources
            ]
            progress = stack.enter_context(shown_progress(is_always=True))
            return tune_all(
                problems,
                mode_budget(self._mode, self._given, len(problems)),
                self._settings,
                records=database,
                progress=progress,
                is_cancelled=is_cancelled,
            )


def _print_results(results: "Sequence[TuningResult | TuningFailure]") -> None:
    from rich.table import Table

    from metol.tune import TuningFailure

    table = Table("pipeline", "ms", "95 %", "from", "x safe", "x search", "trials", "failed", "overhead", box=None)
    for result in results:
        if not isinstance(result, TuningFailure):
            table.add_row(*map(escape, _cells(result)))
    if table.row_count:
        wide_console().print(table)
    for result in results:
        if isinstance(result, TuningFailure):
            say(f"[red]{escape(result.label)}: {escape(result.reason)}[/red]")
            continue
        for note in result.notes:
            say(f"{escape(result.label)}: {escape(note)}")
        if not result.is_complete:
            say(f"{escape(result.label)}: stopped before the final race; its time is that of the last batch")


def _cells(result: "TuningResult") -> tuple[str, ...]:
    best = result.best
    interval = "" if best.interval_ms is None else "{:.4g} to {:.4g}".format(*best.interval_ms)

    def gain(origin: str) -> str:
        found = result.speedup_over.get(origin)
        return "" if found is None else f"{found:.2f}"

    return (
        result.label,
        f"{best.run_ms:.4g}",
        interval,
        best.origin,
        gain("safe"),
        gain("search"),
        str(result.trials),
        str(len(result.failures)),
        f"{result.overhead_seconds / max(result.seconds, 1e-9):.1%}",
    )
