"""The command line: `metol schedule`, `tune`, `check`, `bench`, `train`, `records`, `verify-random`, `apps`, and so on.

In: words from a shell. Out: tables, files and exit codes: 0, 1 where a result is wrong, a run failed or a check fails,
2 for a mistake of the user's, which is told in one line, 3 where there is no device to run on, 130 for Ctrl-C, 143
for SIGTERM. Heavy imports wait until a command needs them.
"""

import errno
import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from metol.bench_command import Threads, bench
from metol.bench_runs import print_report
from metol.check_command import check
from metol.console import print_checks, say, wide_console
from metol.destinations import require_writable
from metol.errors import MetolError, MissingDeviceError
from metol.interrupts import TerminatedError, orderly_termination
from metol.records_command import records as records_commands
from metol.schedule_command import schedule
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


app.command()(schedule)
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
