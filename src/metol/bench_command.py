"""The command `metol bench`: which measurement is wanted, where it goes, and what is printed of it.

In: words from a shell. Out: tables on stdout, files, and exit code 1 where a schedule of Metol's is wrong or fails.
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from metol.console import wide_console

__all__ = ["SOURCE_HELP", "Seed", "Threads", "bench", "print_report"]

SOURCE_HELP = "app:NAME, random:SEED, FILE.py:FUNCTION or FILE.py:GENERATOR, package.module:FUNCTION or FILE.hlpipe"
Threads = Annotated[int, typer.Option(min=1, help="Threads that the schedule is made for and run with.")]
Seed = Annotated[int, typer.Option(help="Seed of whatever is random.")]


def bench(
    apps: Annotated[
        list[str] | None, typer.Argument(help=f"Names of apps, {SOURCE_HELP}; by default the suite.")
    ] = None,
    schedulers: Annotated[
        str, typer.Option(help="metol, adams2019, adams2019-greedy, mullapudi2016, reference, schedule:FILE.json")
    ] = "metol,adams2019,mullapudi2016",
    search_speed: Annotated[
        bool, typer.Option("--search-speed", help="Measure the searches alone: candidates a second, time, memory.")
    ] = False,
    threads: Threads = 2,
    timeout: Annotated[float, typer.Option(help="Seconds for one scheduler on one app.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of timing at most; fewer where all have settled.")] = 25,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Write all rows, the machine and the versions.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file, between its marks.")] = None,
) -> None:
    """Measure schedulers on apps, verified and in turn, and print one table."""
    from metol.bench import BenchReport, parse_sources, run_bench
    from metol.measure import RunOptions, Scheduler, TimingPlan
    from metol.report import update_markdown

    sources = parse_sources(apps or ())
    columns = [Scheduler.parse(text) for text in schedulers.split(",") if text]
    timing = TimingPlan(min_rounds=min(5, rounds), max_rounds=rounds)
    options = RunOptions(threads=threads, timeout_seconds=timeout, seed=seed, timing=timing)
    if search_speed:
        _bench_searches(sources, columns, options, json, markdown)
        return
    console = Console(stderr=True)

    def save(report: BenchReport) -> None:
        if json is not None:
            report.save(json)

    with console.status("starting") as status:
        report = run_bench(
            sources,
            columns,
            options=options,
            command=shlex.join(["metol", *sys.argv[1:]]),
            progress=lambda text: status.update(escape(text)),
            save=save,
        )
    print_report(report.rows)
    if markdown is not None:
        update_markdown(markdown, report)
    if any(row.scheduler.partition(":")[0] == "metol" and not row.verified for row in report.rows):
        raise typer.Exit(1)


def _bench_searches(sources: Any, columns: Any, options: Any, json: Path | None, markdown: Path | None) -> None:
    """Measure searches, print their table, and fail where one of Metol's own did."""
    from metol.report import search_speed_table, update_search_speed_markdown
    from metol.search_speed import run_search_speed

    with Console(stderr=True).status("starting") as status:
        report = run_search_speed(
            sources,
            columns,
            threads=options.threads,
            timeout_seconds=options.timeout_seconds,
            command=shlex.join(["metol", *sys.argv[1:]]),
            progress=lambda text: status.update(escape(text)),
            save=lambda so_far: so_far.save(json) if json is not None else None,
        )
    console = wide_console()
    console.print(search_speed_table(report.rows).to_rich())
    for row in report.rows:
        if row.detail:
            console.print(escape(f"{row.app}, {row.scheduler}: {row.detail}"), soft_wrap=True)
    if markdown is not None:
        update_search_speed_markdown(markdown, report)
    if any(row.detail and row.scheduler.partition(":")[0] == "metol" for row in report.rows):
        raise typer.Exit(1)


def print_report(rows: Any) -> None:
    """Print the tables of `metol bench`, and what a reader must know of them."""
    from metol.report import bench_tables, notes

    console = wide_console()
    for table in bench_tables(rows):
        console.print(table.to_rich())
    for line in notes(rows):
        console.print(escape(line), soft_wrap=True)
