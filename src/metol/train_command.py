"""The commands `metol train`: random programs are measured, a cost model is fitted to them, and told how good it is.

In: words from a shell. Out: a folder of samples, a file of weights, tables and plots. `metol train gpu` does all of it
for the GPU of this machine; exit code 3 where there is none.
"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metol.bench_command import SOURCE_HELP, Threads
from metol.console import say, wide_console
from metol.destinations import require_writable, require_writable_folder, write_text
from metol.errors import MetolError

if TYPE_CHECKING:
    from collections.abc import Iterator

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

_DeviceTarget = typer.Option(help="Only samples for this target: host, cuda or opencl; by default what there is.")
_DeviceName = typer.Option(help="Only samples of this GPU, by part of its name.")

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
    count: Annotated[int, typer.Option(min=4, help="Schedules of a program; fits take four at least.")] = 32,
    weights: Annotated[
        str, typer.Option(help="What guides the draws: a file of weights, `auto` or `analytical`.")
    ] = "analytical",
    generation: Annotated[
        int, typer.Option(min=0, help="Rounds of training before; another one measures programs again.")
    ] = 0,
    target: Annotated[
        str, typer.Option(help="Halide target: host, or cuda or opencl for the GPU that is here.")
    ] = "host",
    gpu: Annotated[
        str | None, typer.Option(help="Which GPU that is, such as h100; by default it is described by its driver.")
    ] = None,
    program: Annotated[
        list[str] | None, typer.Option(help=f"{SOURCE_HELP}, in place of random programs; may be repeated.")
    ] = None,
) -> None:
    """Measure schedules of random programs; Ctrl-C ends it after the program at work."""
    from metol.interrupts import first_interrupt
    from metol.measure import PipelineSource
    from metol.train import Collector, CollectPlan, DrawPlan, SampleFiles
    from metol.tune import TuningBudget
    from metol.verification import require_device

    require_device(target)
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
    ).for_target(target, gpu)
    with first_interrupt(lambda: say("ending after this program")) as is_cancelled:
        _tell(Collector(files, plan).run(limits, sources, is_cancelled))


def _tell(measured: "Iterator[ProgramSamples]") -> None:
    """Tell of each program as soon as it is measured."""
    started, programs, samples, one = time.monotonic(), 0, 0, None
    for one in measured:
        programs += bool(one.samples)
        samples += sum(bool(sample.rounds_ms) for sample in one.samples)
        say(f"{_line(one)}  ({programs} programs, {samples} samples, {time.monotonic() - started:.0f} s)")
    if one is None:
        say("no program was measured: the budget was spent before one was, or all are there already")


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
    target: Annotated[str | None, _DeviceTarget] = None,
    gpu: Annotated[str | None, _DeviceName] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for plots.")] = None,
) -> None:
    """Fit the cost model to samples; needs the extra `train`."""
    from metol.provenance import Provenance
    from metol.train import SampleFolders, make_table, require_extra, samples_of, score_models, summary_of

    require_extra()
    from metol.train import FitOptions

    require_writable(out)
    require_writable_folder(report)
    files = SampleFolders(data)
    programs = samples_of(files.load(), target, gpu)
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
    weights: Annotated[Path, typer.Argument(help="File of weights, or `analytical` for the model without any.")],
    data: Annotated[list[Path], typer.Argument(help="Folders of samples.")],
    holdout: Annotated[bool, typer.Option("--holdout", help="Only programs that no fit has ever seen.")] = False,
    decided: Decided = None,
    target: Annotated[str | None, _DeviceTarget] = None,
    gpu: Annotated[str | None, _DeviceName] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for plots.")] = None,
) -> None:
    """Tell how well weights predict samples, program by program, and what a rank correlation asks for."""
    from metol.cost import Weights
    from metol.cost_choice import ANALYTICAL
    from metol.train import (
        SampleFolders,
        evaluate_analytical,
        evaluate_weights,
        make_table,
        rows_per_second,
        samples_of,
    )

    if str(weights) == ANALYTICAL and report is not None:
        raise MetolError("`--report` draws what weights predict, and `analytical` is the model without any.")
    require_writable_folder(report)
    files, console = SampleFolders(data), wide_console()
    table = make_table(samples_of(files.load(), target, gpu), files.machine_of, decided=decided or (1.0,), tell=say)
    if str(weights) == ANALYTICAL:
        for scores in evaluate_analytical(table, only_held_out=holdout):
            console.print(scores.to_rich())
        return
    trained = Weights.load(weights)
    result = evaluate_weights(trained, table, only_held_out=holdout)
    console.print(result.programs().to_rich())
    console.print(result.table().to_rich())
    errors = ", ".join(f"{rank:.3f} if wrong by {error:.0%}" for error, rank in result.yardstick().items())
    say(f"rank correlation of these samples with predictions that were right but for noise: {errors}")
    say(f"the core evaluates {rows_per_second(trained, table) / 1e6:.2f} million rows a second, on one core")
    if report is not None:
        say(f"plots: {', '.join(map(str, result.save_plots(report)))}")


@train.command("gpu")
def train_gpu(
    out: Annotated[Path, typer.Option("--out", "-o", help="File of weights; samples and a report lie beside it.")],
    budget: Annotated[str, typer.Option(help="For everything: 25min, 1h30min, or a number of programs.")] = "25min",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the samples that are there.")] = False,
    target: Annotated[str, typer.Option(help="cuda or opencl.")] = "cuda",
    gpu: Annotated[
        str | None, typer.Option(help="Which GPU that is, such as h100; by default it is described by its driver.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the CPU beside it; by default all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first random program; the others follow.")] = 0,
    members: Annotated[int, typer.Option(min=1, help="Networks of the ensemble.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="At most.")] = 200,
) -> None:
    """Measure, fit and judge weights for the GPU of this machine; Ctrl-C fits to what there is."""
    from metol.verification import require_device

    require_device(target)
    import metol_apps
    from metol.interrupts import first_interrupt
    from metol.measure import PipelineSource
    from metol.train import SampleFiles, require_extra
    from metol.tune import TuningBudget

    require_extra()
    from metol.train import FitOptions, GpuTraining

    limits, started = TuningBudget.parse(budget), time.monotonic()
    training = GpuTraining(
        out,
        target,
        gpu,
        threads=threads or len(os.sched_getaffinity(0)),
        seed=seed,
        applications=tuple(PipelineSource.parse(f"app:{name}") for name in metol_apps.names("full")),
        options=FitOptions(members=members, epochs=epochs, seed=seed),
    )
    for path in (out, training.report_path):
        require_writable(path)
    known = len(SampleFiles(training.folder).programs())
    if known and not resume:
        raise MetolError(f"`{training.folder}` holds the samples of {known} programs; go on with them by --resume.")
    with first_interrupt(lambda: say("fitting to what there is after this program")) as is_cancelled:
        _tell(training.collect(limits, is_cancelled))
    left = float("inf") if limits.seconds is None else limits.seconds - (time.monotonic() - started)
    trained = training.fit(left, say)
    wide_console().print(trained.judged.table().to_rich())
    write_text(training.report_path, trained.report(shlex.join(["metol", *sys.argv[1:]])))
    say("these weights are used from now on" if trained.is_used else trained.why_not)
    say(f"weights: {out}; report: {training.report_path}; samples: {training.folder}")


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
    try:
        result, is_used = own.fit(say)
    except MetolError as error:
        raise MetolError(
            f"Nothing is trained: {error} The samples are kept in `{own.folder}`; run this again for more."
        ) from error
    wide_console().print(result.table().to_rich())
    say("these weights are used from now on" if is_used else "the analytical model is better, and stays in use")
