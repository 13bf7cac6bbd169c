"""The commands `metol train`: random programs are measured, a cost model is fitted to them, and told how good it is.

In: words from a shell. Out: a folder of samples, a file of weights, tables and plots.
"""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metol.bench_command import SOURCE_HELP, Threads
from metol.console import say, wide_console
from metol.destinations import require_writable
from metol.errors import MetolError

if TYPE_CHECKING:
    from metol.targets.cpu import CpuMachine
    from metol.train import ProgramSamples

__all__ = ["train"]

Decided = Annotated[
    list[float] | None,
    typer.Option(
        min=0,
        max=1,
        help="Part of the decisions that is made, 1 for whole loop nests; may be repeated.",
    ),
]

train = typer.Typer(
    help="Measure random programs, and fit the cost model to them.", no_args_is_help=True, rich_markup_mode=None
)


@train.command()
def generate(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for samples.")],
    budget: Annotated[str, typer.Option(help="60min, 90s, or a number of programs as in 200 trials.")] = "60min",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the samples that are there.")] = False,
    threads: Threads = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first program; the others follow.")] = 0,
    least_funcs: Annotated[int, typer.Option(min=2, help="Funcs of a program, at least.")] = 3,
    most_funcs: Annotated[int, typer.Option(min=2, help="Where programs stop growing.")] = 40,
    count: Annotated[int, typer.Option(min=2, help="Schedules of a program.")] = 32,
    weights: Annotated[
        str, typer.Option(help="What guides the draws: a file of weights, `auto` or `analytical`.")
    ] = "analytical",
    generation: Annotated[
        int, typer.Option(min=0, help="Rounds of training before; another one measures programs again.")
    ] = 0,
    program: Annotated[
        list[str] | None, typer.Option(help=f"{SOURCE_HELP}, in place of random programs; may be repeated.")
    ] = None,
) -> None:
    """Measure schedules of random programs; Ctrl-C ends it after the program at work."""
    from metol.interrupts import first_interrupt
    from metol.measure import PipelineSource
    from metol.train import Collector, CollectPlan, DrawPlan, SampleFiles
    from metol.tune import TuningBudget

    limits = TuningBudget.parse(budget)
    sources = [PipelineSource.parse(text) for text in program or ()]
    files = SampleFiles(out)
    known = len(files.programs())
    if known and not resume:
        raise MetolError(f"`{out}` holds the samples of {known} programs; go on with them by --resume.")
    plan = CollectPlan(
        first_seed=seed,
        least_funcs=least_funcs,
        most_funcs=max(least_funcs, most_funcs),
        threads=threads,
        draw=DrawPlan(count),
        weights=weights,
        generation=generation,
    )
    started, programs, samples = time.monotonic(), 0, 0
    with contextlib.ExitStack() as stack:
        is_cancelled = stack.enter_context(first_interrupt(lambda: say("ending after this program")))
        for one in Collector(files, plan).run(limits, sources, is_cancelled):
            programs += bool(one.samples)
            samples += sum(bool(sample.rounds_ms) for sample in one.samples)
            say(f"{_line(one)}  ({programs} programs, {samples} samples, {time.monotonic() - started:.0f} s)")


def _line(program: "ProgramSamples") -> str:
    if program.note:
        return f"{program.program}: {program.note}"
    times = sorted(one.run_ms for one in program.samples if one.run_ms is not None)
    failed = len(program.samples) - len(times)
    spread = f"{times[0]:.3g} to {times[-1]:.3g} ms" if times else "nothing ran"
    return f"{program.program}: {len(times)} schedules, {spread}, {failed} failed"


@train.command()
def pack(
    data: Annotated[Path, typer.Argument(help="Folder of samples.")],
    name: Annotated[str, typer.Argument(help="Of the compressed file, without its ending.")],
) -> None:
    """Compress the samples that were collected since the last time, to keep them or to pass them on."""
    from metol.train import SampleFiles

    say(f"wrote {SampleFiles(data).pack(name)}")


@train.command()
def fit(
    data: Annotated[list[Path], typer.Argument(help="Folders of samples, as `metol train generate` makes them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of weights.")],
    members: Annotated[int, typer.Option(min=1, help="Networks of the ensemble.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="At most.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first network.")] = 0,
    compare: Annotated[bool, typer.Option("--compare", help="Fit the models that it could have been, too.")] = False,
    held_out: Annotated[
        list[str] | None, typer.Option(help="Program to judge by, in place of one in ten; may be repeated.")
    ] = None,
    decided: Decided = None,
    report: Annotated[Path | None, typer.Option(help="Folder for plots.")] = None,
) -> None:
    """Fit the cost model to samples; needs the extra `train`."""
    from metol.provenance import Provenance
    from metol.train import SampleFolders, make_table, require_extra, score_models, summary_of

    require_extra()
    from metol.train import FitOptions

    require_writable(out)
    files = SampleFolders(data)
    programs = files.load()
    table = make_table(programs, files.machine_of, decided=decided or (1.0,), tell=say)
    options = FitOptions(members=members, epochs=epochs, seed=seed)
    result = score_models(table, options, held_out=held_out or (), compare=compare, tell=say)
    notes = {"data": summary_of(programs, table), "made_by": Provenance.collect().to_dict(), "scores": result.notes()}
    result.weights.with_notes(notes).save(out)
    wide_console().print(result.table().to_rich())
    if report is not None:
        say(f"plots: {', '.join(map(str, result.save_plots(report)))}")
    say(f"weights: {out}")


@train.command()
def evaluate(
    weights: Annotated[Path, typer.Argument(help="File of weights.")],
    data: Annotated[list[Path], typer.Argument(help="Folders of samples.")],
    holdout: Annotated[bool, typer.Option("--holdout", help="Only programs that no fit has ever seen.")] = False,
    decided: Decided = None,
    report: Annotated[Path | None, typer.Option(help="Folder for plots.")] = None,
) -> None:
    """Tell how well weights predict samples, program by program."""
    from metol.cost import Weights
    from metol.train import SampleFolders, evaluate_weights, make_table, rows_per_second

    files = SampleFolders(data)
    table = make_table(files.load(), files.machine_of, decided=decided or (1.0,), tell=say)
    trained = Weights.load(weights)
    result = evaluate_weights(trained, table, only_held_out=holdout)
    console = wide_console()
    console.print(result.programs().to_rich())
    console.print(result.table().to_rich())
    say(f"the core evaluates {rows_per_second(trained, table) / 1e6:.2f} million rows a second, on one core")
    if report is not None:
        say(f"plots: {', '.join(map(str, result.save_plots(report)))}")


def train_here(machine: "CpuMachine", budget: str) -> None:
    """Measure random programs on this machine, and fit the cost model to it; what `metol calibrate --full` adds."""
    from metol.interrupts import first_interrupt
    from metol.train import OwnTraining, require_extra
    from metol.tune import TuningBudget

    require_extra()
    limits, own = TuningBudget.parse(budget), OwnTraining(machine)
    with first_interrupt(lambda: say("fitting to what there is")) as is_cancelled:
        for program in own.collect(limits, is_cancelled):
            say(_line(program))
    result, is_used = own.fit(say)
    wide_console().print(result.table().to_rich())
    say("these weights are used from now on" if is_used else "the analytical model is better, and stays in use")
