"""The command `metol check`: does a saved schedule still fit its pipeline and this machine, as fast as it was?

In: words from a shell. Out: a table or JSON on stdout, and exit code 1 where something fails or is slower, 3 where
nothing does but for want of the processor or GPU that the schedule is for.
"""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from metol.bench_command import SOURCE_HELP, EstimatesFile, GeneratorParams
from metol.console import print_checks

__all__ = ["check"]


def check(
    file: Annotated[Path, typer.Argument(help="A schedule that `metol schedule --json` wrote.")],
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to run with; by default those of the measured time, or all.")
    ] = None,
    estimates: EstimatesFile = None,
    generator_param: GeneratorParams = None,
    tolerance: Annotated[float, typer.Option(min=0, help="How much longer it may take: 0.1 is a tenth.")] = 0.1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
) -> None:
    """Check whether a saved schedule still fits and is as fast as it was.

    Exit code 1 where it is not, 3 where it fits and there is no device here to run it on.
    """
    from metol.measure import PipelineSource
    from metol.pipeline import read_estimates
    from metol.tune import check_lock_file

    pipeline = PipelineSource.parse(source).with_parameters(generator_param or [])
    pipeline.require_readable()
    sizes = None if estimates is None else read_estimates(estimates)
    with Console(stderr=True).status("starting") as status:
        report = check_lock_file(
            file,
            pipeline,
            estimates=sizes,
            threads=threads,
            tolerance=tolerance,
            progress=lambda text: status.update(escape(text)),
        )
    if json:
        typer.echo(json_format.dumps(report.to_dict(), indent=1))
    else:
        print_checks(report.checks)
    if not report.holds:
        raise typer.Exit(3 if report.lacks_device else 1)
