"""The command line: `metol schedule`, `tune`, `check`, `bench`, `train`, `records`, `verify-random`, `apps`, and so on.

In: words from a shell. Out: tables, files and exit codes: 0, 1 where a result is wrong, a run failed or a check fails,
2 for a mistake of the user's, which is told in one line, 3 where there is no device to run on, 130 for Ctrl-C, 143
for SIGTERM. Heavy imports wait until a command needs them.
"""

import contextlib
import errno
import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from metol.bench_command import SOURCE_HELP, Seed, Threads, bench
from metol.bench_runs import print_report
from metol.check_command import check
from metol.console import print_checks, say, wide_console
from metol.destinations import require_writable, write_text
from metol.errors import MetolError, MissingDeviceError
from metol.interrupts import TerminatedError, orderly_termination
from metol.records_command import records as records_commands
from metol.train_command import train as train_commands
from metol.tune_command import tune

__all__ = ["app", "main"]

app = typer.Typer(
    help="Turn a Halide algorithm into a fast, verified schedule.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)

# 128 and the number of SIGINT, as shells have it.
_INTERRUPTED = 130
# The same with SIGTERM.
_TERMINATED = 143
# What a disk has, not Metol.
_FULL_OR_BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
# For scripts: there is nothing to run on.
_NO_DEVICE = 3

# Of `metol calibrate --full`.
_FULL_BUDGET = "60min"

Source = Annotated[str, typer.Argument(help=SOURCE_HELP)]


def main() -> None:
    """Run the command line; the entry point of the `metol` script."""
    try:
        with orderly_termination():
            app()
    except TerminatedError:
        say("terminated; files that have been written are whole")
        sys.exit(_TERMINATED)
    except MetolError as error:
        say(f"[red]{escape(str(error))}[/red]")
        sys.exit(_NO_DEVICE if isinstance(error, MissingDeviceError) else 2)
    except OSError as error:
        if error.errno not in _FULL_OR_BROKEN:
            raise
        # What is left for stdout has no place either, and Python complains of it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(f"[red]{escape(str(error.filename or 'the output'))} cannot be written: {error.strerror}.[/red]")
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:  # typer makes the one of the other
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        say("interrupted; files that have been written are whole")
        sys.exit(_INTERRUPTED)


def _show_version(wanted: bool) -> None:
    if wanted:
        from metol.provenance import metol_version

        typer.echo(f"metol {metol_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def schedule(
    source: Source,
    python: Annotated[Path | None, typer.Option(help="Write the schedule as Python source.")] = None,
    cpp: Annotated[Path | None, typer.Option(help="Write the schedule as a C++ header.")] = None,
    json: Annotated[Path | None, typer.Option("--json", "-o", help="Write the schedule for `metol.load`.")] = None,
    verify: Annotated[
        bool, typer.Option(help="Run it and compare with a plain schedule; for CUDA, compile it (extra `cuda`).")
    ] = False,
    strategy: Annotated[str, typer.Option(help="beam, greedy, random, mcts or batch; for GPUs grouping, too")] = "beam",
    beam_width: Annotated[
        int | None, typer.Option(help="States kept at each step of the beam search; by default as suits it.")
    ] = None,
    seed: Seed = 0,
    budget: Annotated[float, typer.Option(help="Seconds to search at most.")] = 5.0,
    fixed_sizes: Annotated[
        bool, typer.Option("--fixed-sizes", help="Outputs always have their estimated size; others are refused.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to schedule for; by default all.")] = None,
    target: Annotated[str, typer.Option(help="Halide target, such as host, cuda or opencl.")] = "host",
    gpu: Annotated[
        str | None, typer.Option(help="GPU to schedule for, such as h200; by default this machine's, if it has one.")
    ] = None,
    estimates: Annotated[
        Path | None, typer.Option(help="Sizes and values that the pipeline does not tell, as JSON.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A Func that keeps its schedule; may be repeated.")] = None,
    generator_param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for a Halide Generator; may be repeated.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(help="Take the best that was measured for this pipeline here; search if there is none."),
    ] = None,
) -> None:
    """Find a schedule; print it as Python, or write it to the files named. Ctrl-C settles for the best so far."""
    import metol
    from metol.interrupts import first_interrupt, uninterrupted
    from metol.measure import PipelineSource
    from metol.pipeline import read_estimates
    from metol.targets import choose_machine, parse_target
    from metol.verification import require_means

    for path in (python, cpp, json):
        require_writable(path)
    options = metol.SearchOptions(
        strategy=strategy, beam_width=beam_width, seed=seed, budget_seconds=budget, fixed_sizes=fixed_sizes
    )
    options.make(choose_machine(parse_target(target), gpu=gpu, threads=threads))  # complains before anything is built
    if verify:
        require_means(target)
    with first_interrupt(_tell_how_to_stop) as is_cancelled:
        pipeline_source = PipelineSource.parse(source).with_parameters(generator_param or [])
        sizes = None if estimates is None else read_estimates(estimates)
        pipeline_source.require_readable()
        pipeline = pipeline_source.build()
        known = None
        refused: tuple[str, ...] = ()
        kernels: tuple[Any, ...] = ()
        # No record tells what is written by hand, or of another GPU.
        if records is not None and not keep and gpu is None:
            terms = {"threads": threads or len(os.sched_getaffinity(0)), "fixed_sizes": fixed_sizes}
            known = _best_record(records, pipeline_source, terms, target, sizes)
        if known is not None:
            found, remark = known.to_schedule(), f"record {known.uid}: measured at {known.run_ms:.4g} ms"
        else:
            result = metol.autoschedule(
                pipeline,
                target=target,
                estimates=sizes,
                gpu=gpu,
                options=options,
                threads=threads,
                verify="kernels" if verify and _can_assemble(target) else False,
                keep=keep or [],
                is_cancelled=is_cancelled,
            )
            found, remark, refused = result.schedule, result.summary(), result.fallbacks
            kernels = result.kernels
    with uninterrupted():
        if python is not None:
            write_text(python, found.to_python())
        if cpp is not None:
            write_text(cpp, found.to_cpp())
        if json is not None:
            write_text(json, found.to_json())
    if python is None and cpp is None and json is None:
        typer.echo(found.to_python())
    for reason in refused:
        say(f"[yellow]refused[/yellow]: {escape(reason)}")
    say(escape(remark))
    if verify:
        how: dict[str, Any] = {"gpu": gpu, "threads": threads, "sizes": sizes, "kernels": kernels}
        _verify(pipeline_source, found, **how)


def _best_record(path: Path, source: Any, terms: dict[str, Any], target: str, sizes: Any) -> Any:
    """The best that was measured for this pipeline on this machine; None where nothing was, or it does not fit."""
    from metol.errors import ExtractionError, ScheduleMismatchError
    from metol.tune import Records, SearchTerms, key_of

    found = None
    # What the search cannot describe, it answers for all the same.
    with Records(path, may_create=False) as database, contextlib.suppress(ExtractionError):
        pipeline = source.build()
        found = database.best(key_of(pipeline, SearchTerms(**terms), target=target, estimates=sizes))
    if found is not None:
        try:
            found.to_schedule().apply(pipeline)
        except ScheduleMismatchError as error:
            say(f"record {found.uid} does not fit: {escape(str(error))}")
            found = None
    if found is None:
        say("nothing was measured for this pipeline on this machine; searching")
    return found


def _tell_how_to_stop() -> None:
    say("finishing with the best schedule found so far; Ctrl-C again gives up")


def _can_assemble(target: str) -> bool:
    """Whether kernels that spill registers can be told here, before the rest is verified."""
    from metol.errors import MissingToolError
    from metol.measure import find_ptxas
    from metol.verification import has_cuda

    if not has_cuda(target):
        return False
    with contextlib.suppress(MissingToolError):
        return bool(find_ptxas())
    return False


def _verify(source: Any, found: Any, *, threads: int | None, sizes: Any, **how: Any) -> None:
    from metol.measure import RunOptions, verify_schedule
    from metol.verification import has_cuda

    if has_cuda(found.target):
        _verify_kernels(source, found, threads=threads, sizes=sizes, **how)
        return
    options = RunOptions(threads=threads or len(os.sched_getaffinity(0)), target=found.target, timing=None)
    row = verify_schedule(source, found, options=options, estimates=sizes)
    if not row.verified:
        say(f"[red]not verified: {escape(row.problem)}[/red]")
        raise typer.Exit(1)
    say(f"[green]verified[/green]: {escape(row.detail)}")


def _verify_kernels(
    source: Any, found: Any, *, gpu: str | None, threads: int | None, sizes: Any, kernels: tuple[Any, ...]
) -> None:
    """Compile the kernels, where the search has not, show what each takes, and run them where there is a GPU."""
    from metol.framing import buffer_sizes, read_pipeline
    from metol.targets import choose_machine, parse_target
    from metol.verification import verify_for

    machine = choose_machine(parse_target(found.target), gpu=gpu, threads=threads)
    read = read_pipeline(source.build(), sizes, found.target)
    verification = verify_for(machine, source, found, sizes=buffer_sizes(read), estimates=sizes, kernels=kernels)
    for report in verification.launched:
        say(escape(report.text))
    if verification.refusal:
        say(f"[red]not verified: {escape(verification.refusal)}[/red]")
        raise typer.Exit(1)
    outcome = "verified" if verification.is_compared else "compiled"
    say(f"[green]{outcome}[/green]: {escape(verification.summary)}")


app.command()(bench)
app.command()(tune)
app.command()(check)
app.add_typer(train_commands, name="train")
app.add_typer(records_commands, name="records")


@app.command("verify-random")
def verify_random(
    count: Annotated[int, typer.Option(help="Programs.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first program; the others follow.")] = 0,
    schedules: Annotated[
        str,
        typer.Option(
            help="searched, random, switched (random, with other options drawn as well), several with commas, or both: "
            "searched,random"
        ),
    ] = "searched",
    samples: Annotated[int, typer.Option(help="Random schedules of each kind of each program.")] = 1,
    most_funcs: Annotated[int, typer.Option(min=2, help="Where programs stop growing.")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="Programs at a time.")] = 1,
    threads: Threads = 2,
    timeout: Annotated[float, typer.Option(help="Seconds for one schedule of one program.")] = 120,
    gpu: Annotated[bool, typer.Option("--gpu", help="Schedules for this machine's NVIDIA GPU.")] = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of --gpu, in place of this machine's: opencl, or any GPU, such as a100, which is emulated.",
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Append each row to this file, and skip the rows in it.")] = None,
) -> None:
    """Schedule, compile, run and verify random programs."""
    from metol.bench_device import wanted_device
    from metol.measure import RunOptions
    from metol.verification import require_device
    from metol.verify_random import RandomRun, RecordFile, summary

    kinds = ("searched", "random") if schedules == "both" else tuple(schedules.split(","))
    where = wanted_device(device, is_wanted=gpu, threads=threads)
    if where is not None and where.is_here:
        require_device(where.target)
    run = RandomRun(count, seed, kinds, samples, most_funcs, where)
    file = None if json is None else RecordFile(json, where)
    rows = list(run.known(file.load())) if file else []
    options = RunOptions(threads=threads, timeout_seconds=timeout, timing=None)
    console = Console(stderr=True)
    try:
        with console.status("starting") as status:
            for row in run.verify(options, jobs=jobs, known=tuple(rows), save=file.append if file else lambda _: None):
                rows.append(row)
                status.update(escape(f"{row.app}: {len(rows)} of {run.row_count}"))
                if not row.verified:
                    say(f"[red]{escape(f'{row.app}: {row.problem}')}[/red]")
                    say(escape(f"    {run.reproduction(row)}"))
    finally:
        wide_console().print(summary(rows))
    if not all(row.verified for row in rows):
        raise typer.Exit(1)


@app.command()
def apps() -> None:
    """List the applications: the core suite, the rest of the full one, then what is in neither."""
    import metol_apps

    console = Console(highlight=False)
    for name in (*metol_apps.names("full"), *metol_apps.variants(), *metol_apps.network()):
        console.print(f"{name:24} {escape(metol_apps.get(name).description)}", soft_wrap=True)


@app.command()
def calibrate(
    threads: Annotated[int | None, typer.Option(min=1, help="Threads in use; by default all.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; by default where schedulers look.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Then measure random programs, and train the cost model for this machine.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Of --full: 60min, 90s, or a number of programs as in 200 trials; 60min.")
    ] = None,
) -> None:
    """Measure this machine, so that the cost model fits it; takes up to a minute."""
    from rich.table import Table

    from metol.targets.cpu import CpuMachine
    from metol.targets.cpu import calibrate as measure_rates

    if full and output is not None:
        raise MetolError("`--full` trains for where schedulers look, and `--output` writes elsewhere; leave one out.")
    if budget is not None and not full:
        raise MetolError("`--budget` is what `--full` may take; without it there is nothing to limit.")
    if full:
        from metol.train import require_extra
        from metol.tune import TuningBudget

        require_extra()
        TuningBudget.parse(budget or _FULL_BUDGET)
    default = CpuMachine.default(threads=threads)
    path = output or default.cache_path()
    require_writable(path)
    with Console(stderr=True).status("measuring the machine") as status:
        machine = measure_rates(
            default,
            progress=lambda text, share: status.update(f"{share:4.0%} {escape(text)}"),
        )
    table = Table("name", "value", "unit", "meaning", box=None)
    for row in machine.rows():
        value = f"{row.value:.4g}" if isinstance(row.value, float) else str(row.value)
        table.add_row(row.name, escape(value), row.unit, row.meaning)
    Console(highlight=False).print(table)
    for note in machine.notes:
        say(escape(note))
    machine.save(path)
    say(f"wrote {escape(str(path))}")
    if full:
        from metol.train_command import train_here

        train_here(machine, budget or _FULL_BUDGET)


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
) -> None:
    """Check what works on this machine; exit code 1 where something that Metol needs does not."""
    from metol.doctor import examine
    from metol.findings import Outcome

    with Console(stderr=True).status("starting") as status:
        checks = examine(
            progress=lambda text: status.update(escape(text)), halide_threads=os.environ.get("HL_NUM_THREADS")
        )
    if json:
        typer.echo(json_format.dumps([check.to_dict() for check in checks], indent=1))
    else:
        print_checks(checks)
    if any(check.outcome is Outcome.FAIL for check in checks):
        raise typer.Exit(1)


@app.command()
def demo(
    image: Annotated[Path, typer.Option(help="Where to write the picture that the schedule computes.")] = Path(
        "harris.png"
    ),
    threads: Threads = 2,
) -> None:
    """Schedule Harris corners, run it beside Halide's own autoschedulers, and write the picture."""
    from metol.demo import run_demo

    require_writable(image)
    console = Console(stderr=True)
    with console.status("starting") as status:
        rows = run_demo(image, threads=threads, progress=lambda text: status.update(escape(text)))
    print_report(rows)
    say(f"wrote {escape(str(image))}")


if __name__ == "__main__":
    main()
