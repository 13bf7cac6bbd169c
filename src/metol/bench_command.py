"""The command `metol bench`: which measurement is wanted, where it goes, and what is printed of it.

In: words from a shell. Out: tables on stdout, files, and exit code 1 where a schedule of Metol's is wrong or fails, 3
where a GPU was asked for and there is none. What has been measured is printed when the command is interrupted, too.
"""

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from metol.console import say, wide_console
from metol.destinations import require_writable
from metol.errors import MetolError, MissingDeviceError
from metol.experiments import EXPERIMENTS

__all__ = ["SOURCE_HELP", "Seed", "Threads", "bench", "print_report"]

SOURCE_HELP = "app:NAME, random:SEED, FILE.py:FUNCTION or FILE.py:GENERATOR, package.module:FUNCTION or FILE.hlpipe"
Threads = Annotated[int, typer.Option(min=1, help="Threads that the schedule is made for and run with.")]
Seed = Annotated[int, typer.Option(help="Seed of whatever is random.")]

_CPU_COLUMNS = "metol,adams2019,mullapudi2016"
_GPU_PEER_COLUMNS = "anderson2021,li2018,mullapudi2016"
_GPU_SEARCH_COLUMNS = f"metol-analytical,{_GPU_PEER_COLUMNS}"
# The bars of figure 6 of Sioutas et al. 2020, the most fusion first.
_GPU_COLUMNS = f"metol-analytical,metol-analytical-overlap,metol-analytical-no-fusion,{_GPU_PEER_COLUMNS}"


def bench(
    apps: Annotated[list[str] | None, typer.Argument(help=f"Names of apps, {SOURCE_HELP}; by default a suite.")] = None,
    suite: Annotated[
        str, typer.Option(help="Without names: core, thirteen applications, or full, all of them.")
    ] = "core",
    schedulers: Annotated[
        str | None,
        typer.Option(
            help="metol, adams2019, adams2019-greedy, mullapudi2016, reference, schedule:FILE.json or schedule:FOLDER, "
            "which has a file APP.json of each, and hand, what a person wrote for an application of the suites; by "
            f"default {_CPU_COLUMNS}. With --gpu: metol-analytical (nested fusion), metol-analytical-overlap, "
            "metol-analytical-no-fusion, metol, anderson2021, li2018, mullapudi2016; by default all but metol."
        ),
    ] = None,
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu",
            help="Measure on this machine's NVIDIA GPU, with inputs and outputs on the device; exit code 3 where there "
            "is none. With --search-speed nothing runs on it.",
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of --gpu, in place of this machine's: opencl, or with --search-speed any GPU, such as a100.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="small|large", help="Other images: 192x320 or 3840x2160; matmul has 512 or 4096."),
    ] = None,
    search_speed: Annotated[
        bool, typer.Option("--search-speed", help="Measure the searches alone: candidates a second, time, memory.")
    ] = False,
    every_size: Annotated[
        bool, typer.Option("--every-size", help="Verify Metol's schedules, under every option, at awkward sizes.")
    ] = False,
    tails: Annotated[
        bool, typer.Option("--tails", help="Time Metol's schedules beside the same loop nests with unsafe tails.")
    ] = False,
    options: Annotated[
        bool, typer.Option("--options", help="Time Metol's schedules with each part of the search switched.")
    ] = False,
    experiment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="One of the papers' experiments, with a table, a plot and its data (docs/experiments.md): "
            f"{', '.join(EXPERIMENTS)}.",
        ),
    ] = None,
    programs: Annotated[
        int, typer.Option(min=1, help="Random programs of --experiment, from seed 100000 plus --seed on.")
    ] = 100,
    budget: Annotated[str, typer.Option(help="What --experiment may spend on tuning one pipeline.")] = "60s",
    plots: Annotated[
        Path, typer.Option(help="Where --experiment writes NAME.png and NAME.csv, and --gpu the roofline.")
    ] = Path("out/experiments"),
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="DB", help="Time the best schedules in this database of records beside Metol's and the peers'."
        ),
    ] = None,
    threads: Threads = 2,
    timeout: Annotated[float, typer.Option(help="Seconds for one scheduler on one app.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of timing at most; fewer where all have settled.")] = 25,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            help="Applications that are scheduled, compiled and verified at once, where there are cores and memory for "
            "it; each is then timed alone. Of a comparison of schedulers only.",
        ),
    ] = 1,
    seed: Seed = 0,
    json: Annotated[
        Path | None,
        typer.Option(
            help="Write all rows, the machine and the versions. With --every-size, --tails, --options and --tuned: "
            "append each row, and skip those in it; --experiment as well."
        ),
    ] = None,
    keep_rows: Annotated[
        bool,
        typer.Option(
            "--keep-rows",
            help="Of --experiment, take rows of --json that other code or another machine measured, too, and say so.",
        ),
    ] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file, between its marks.")] = None,
) -> None:
    """Measure schedulers on apps, verified and in turn, and print one table."""
    from metol.bench import parse_sources
    from metol.measure import RunOptions, Scheduler, TimingPlan

    kinds = {
        "search-speed": search_speed,
        "every-size": every_size,
        "tails": tails,
        "options": options,
        "tuned": tuned,
        "experiment": experiment,
    }
    wanted = [kind for kind, is_wanted in kinds.items() if is_wanted]
    if jobs > 1 and wanted:
        raise MetolError(f"`--{wanted[0]}` takes one application after the other; leave `--jobs {jobs}` out.")
    if len(wanted) > 1:
        raise MetolError(f"`--{'` and `--'.join(wanted)}` are measurements of their own; ask for one at a time.")
    is_on_gpu = gpu or _needs_device(experiment)
    if gpu and not _needs_device(experiment) and wanted not in ([], ["search-speed"]):
        raise MetolError(f"`--{wanted[0]}` measures on the CPU; leave `--gpu` out.")
    require_writable(json)
    require_writable(markdown)
    sources = parse_sources(apps or (), suite, size)
    if schedulers is None:
        schedulers = (_GPU_SEARCH_COLUMNS if search_speed else _GPU_COLUMNS) if gpu else _CPU_COLUMNS
    columns = [Scheduler.parse(text) for text in schedulers.split(",") if text]
    if not wanted or search_speed:
        for column in columns:
            column.require_kind(is_gpu=gpu)
    bench_device = _device(device, is_wanted=is_on_gpu, is_run=not search_speed, threads=threads)
    timing = TimingPlan(min_rounds=min(5, rounds), max_rounds=rounds)
    run_options = RunOptions(threads=threads, timeout_seconds=timeout, seed=seed, timing=timing)
    measurements: dict[str, Callable[..., bool]] = {
        "every-size": _bench_every_size,
        "tails": _bench_tails,
        "options": _bench_options,
    }
    if tuned is not None:
        measurements["tuned"] = partial(_bench_tuned, tuned)
    if experiment is not None:
        from metol.tune import TuningBudget

        how = {
            "schedulers": tuple(columns),
            "programs": programs,
            "budget": TuningBudget.parse(budget),
            "device": bench_device,
            "keeps_rows": keep_rows,
        }
        measurements["experiment"] = partial(_bench_experiment, experiment, plots, how)
    if wanted and wanted[0] in measurements:
        is_right = measurements[wanted[0]](sources, run_options, json, markdown)
    elif search_speed:
        is_right = _bench_searches(sources, columns, run_options, json, markdown, device=bench_device)
    else:
        is_right = _bench_schedulers(sources, columns, run_options, json, markdown, bench_device, plots, jobs)
    if not is_right:
        raise typer.Exit(1)


def _device(name: str | None, *, is_wanted: bool, is_run: bool, threads: int) -> Any:
    """Return the `BenchDevice` that is asked for; None where none is.

    Raises:
        MetolError: one that is merely named cannot be run on, or there is none of that name.
        MissingDeviceError: this machine has none.
    """
    if not is_wanted:
        if name is not None:
            raise MetolError(f"`--device {name}` says which GPU `--gpu` is about; add `--gpu`.")
        return None
    from metol.bench_device import NO_GPU, find_bench_device
    from metol.verification import require_device

    device = find_bench_device(name, threads=threads)
    if device is None:
        raise MissingDeviceError(NO_GPU)
    if is_run and device.is_here:
        require_device(device.target)
    if is_run and not device.is_here:
        raise MetolError(
            f"Schedules run on the GPU of this machine, and `--device {name}` merely names one; leave it out, or add "
            "`--search-speed` to compare searches for it."
        )
    return device


def _needs_device(experiment: str | None) -> bool:
    """Tell whether an experiment, if any, runs on a GPU; raises MetolError where there is none of that name."""
    if experiment is None:
        return False
    from metol.experiments import get_experiment

    return get_experiment(experiment).needs_device


def _command() -> str:
    return shlex.join(["metol", *sys.argv[1:]])


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done, on stderr."""
    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(escape(text))


def _bench_schedulers(
    sources: Any,
    columns: Any,
    options: Any,
    json: Path | None,
    markdown: Path | None,
    device: Any,
    plots: Path,
    jobs: int,
) -> bool:
    """Measure schedulers, print their tables, and tell whether Metol's schedules are right."""
    from metol.bench import BenchReport, run_bench
    from metol.measure import is_own
    from metol.report import GPU_MARKS, MARKS, update_markdown
    from metol.text_table import require_marks

    if markdown is not None:
        require_marks(markdown, GPU_MARKS if device else MARKS)
    saved: list[BenchReport] = []

    def save(report: BenchReport) -> None:
        saved.append(report)
        if json is not None:
            report.save(json)

    try:
        with _progress() as progress:
            report = run_bench(
                sources,
                columns,
                options=options,
                command=_command(),
                progress=progress,
                save=save,
                device=device,
                jobs=jobs,
            )
    finally:
        print_report(saved[-1].rows if saved else ())
        if device is not None and saved:
            _draw_roofline(plots, device, sources, saved[-1].rows)
    if markdown is not None:
        update_markdown(markdown, report)
    return all(row.verified for row in report.rows if is_own(row.scheduler))


def _draw_roofline(folder: Path, device: Any, sources: Any, rows: Any) -> None:
    """Draw what ran below what the device can do."""
    from metol.experiments import require_matplotlib, roofline_points, save_roofline

    try:
        require_matplotlib()
    except MetolError as missing:
        say(f"no roofline: {escape(str(missing))}")
        return
    measured = {row.app for row in rows}
    points = roofline_points([source for source in sources if source.label in measured], rows)
    if points:
        say(f"wrote {' and '.join(escape(str(file)) for file in save_roofline(folder, device, points))}")


def _bench_searches(
    sources: Any, columns: Any, options: Any, json: Path | None, markdown: Path | None, *, device: Any
) -> bool:
    """Measure searches, print their table, and tell whether Metol's own have ended well."""
    from metol.measure import is_own
    from metol.report import (
        GPU_SPEED_MARKS,
        SPEED_MARKS,
        search_speed_table,
        search_time_table,
        update_search_speed_markdown,
    )
    from metol.search_speed import SearchSpeedReport, run_search_speed
    from metol.text_table import require_marks

    if markdown is not None:
        require_marks(markdown, GPU_SPEED_MARKS if device else SPEED_MARKS)
    table = search_time_table if device else search_speed_table
    saved: list[SearchSpeedReport] = []

    def save(report: SearchSpeedReport) -> None:
        saved.append(report)
        if json is not None:
            report.save(json)

    try:
        with _progress() as progress:
            report = run_search_speed(
                sources,
                columns,
                threads=options.threads,
                timeout_seconds=options.timeout_seconds,
                command=_command(),
                progress=progress,
                save=save,
                device=device,
            )
    finally:
        rows = saved[-1].rows if saved else ()
        _print([table(rows)] if rows else [], [_failure(row) for row in rows if row.detail])
    if markdown is not None:
        update_search_speed_markdown(markdown, report)
    return not any(row.detail and is_own(row.scheduler) for row in report.rows)


def _failure(row: Any) -> str:
    return f"{row.app}, {row.scheduler}: {row.detail}"


def _bench_every_size(sources: Any, options: Any, json: Path | None, markdown: Path | None) -> bool:
    """Verify at awkward sizes, print the table, and tell whether nothing failed."""
    from dataclasses import replace

    from metol.every_size import EverySizeFile, every_size_failures, every_size_table, run_every_size
    from metol.switches import switches

    def run(**how: Any) -> Iterator[Any]:
        return run_every_size(sources, switches(), replace(options, timing=None), **how)

    kept = _Kept("--every-size", lambda rows: [every_size_table(rows)], every_size_failures, json, markdown)
    return not every_size_failures(kept.measure(run, json and EverySizeFile(json), options.threads))


def _bench_tails(sources: Any, options: Any, json: Path | None, markdown: Path | None) -> bool:
    """Time both kinds of tails, print the table, and tell whether all safe ones are right."""
    from metol.tails_cost import TailsFile, run_tails, tails_notes, tails_table

    def run(**how: Any) -> Iterator[Any]:
        return run_tails(sources, options, **how)

    kept = _Kept("--tails", lambda rows: [tails_table(rows)], tails_notes, json, markdown)
    rows = kept.measure(run, json and TailsFile(json), options.threads)
    return all(row.safe_ms is not None for row in rows)


def _bench_options(sources: Any, options: Any, json: Path | None, markdown: Path | None) -> bool:
    """Time every option, print the tables, and tell whether all schedules are right."""
    from metol.option_gains import OptionsFile, options_notes, options_tables, run_options
    from metol.switches import switches

    def run(**how: Any) -> Iterator[Any]:
        return run_options(sources, switches(), options, **how)

    kept = _Kept("--options", lambda rows: options_tables(rows, switches()), options_notes, json, markdown)
    return not options_notes(kept.measure(run, json and OptionsFile(json), options.threads))


def _bench_tuned(database: Path, sources: Any, options: Any, json: Path | None, markdown: Path | None) -> bool:
    """Time tuned schedules, print the table, and tell whether no schedule of Metol's is wrong or fails."""
    from metol.tune import Records
    from metol.tuned_gains import TunedFile, run_tuned, tuned_notes, tuned_table

    kept = _Kept("--tuned", lambda rows: [tuned_table(rows)], tuned_notes, json, markdown)
    with Records(database, may_create=False) as records:
        rows = kept.measure(partial(run_tuned, sources, records, options), json and TunedFile(json), options.threads)
    return all(row.is_right for row in rows)


def _bench_experiment(
    name: str,
    plots: Path,
    how: dict[str, Any],
    sources: Any,
    options: Any,
    json: Path | None,
    markdown: Path | None,
) -> bool:
    """Run an experiment, print its tables, write its plot and data, and tell whether nothing of Metol's is wrong."""
    from metol.experiments import (
        OutcomeFile,
        Setting,
        get_experiment,
        kept_notes,
        require_matplotlib,
        run_experiment,
        save_csv,
        save_plot,
    )
    from metol.variants import circumstances

    experiment = get_experiment(name)
    require_matplotlib()
    files = [plots / f"{name}.{ending}" for ending in ("csv", "png")]
    for file in files:
        require_writable(file)

    def run(progress: Callable[[str], None], **kept: Any) -> Iterator[Any]:
        setting = Setting(tuple(sources), options=options, progress=progress, **how)
        return run_experiment(experiment, setting, **kept)

    def notes(rows: Sequence[Any]) -> Sequence[str]:
        return (*experiment.notes(rows), *kept_notes(rows, circumstances(options.threads)))

    kept = _Kept(f"--experiment {name}", experiment.tables, notes, json, markdown)
    outcomes = kept.measure(run, json and OutcomeFile(json), options.threads)
    save_csv(files[0], outcomes)
    save_plot(files[1], experiment, outcomes)
    return experiment.is_right(outcomes)


class _Kept:
    """A measurement whose rows are kept in a file as they come, and shown as tables."""

    def __init__(
        self,
        flag: str,
        tables: Callable[[Sequence[Any]], Sequence[Any]],
        notes: Callable[[Sequence[Any]], Sequence[str]],
        json: Path | None,
        markdown: Path | None,
    ) -> None:
        from metol.text_table import marks_of, require_marks

        self._marks = marks_of(f"metol bench {flag}")
        self._tables = tables
        self._notes = notes
        self._markdown = markdown
        if markdown is not None:
            require_marks(markdown, self._marks)

    def measure(self, run: Callable[..., Iterator[Any]], file: Any, threads: int) -> list[Any]:
        """Measure what the file does not hold yet, and print and write the tables."""
        from metol.provenance import Provenance
        from metol.text_table import put_tables
        from metol.variants import circumstances

        rows: list[Any] = []
        how = {"circumstances": circumstances(threads)}
        if file is not None:
            how |= {"known": file.load(), "save": file.append}
        try:
            with _progress() as progress:
                for row in run(progress=progress, **how):
                    rows.append(row)
        finally:
            _print(self._tables(rows) if rows else [], self._notes(rows))
        if self._markdown is not None:
            origin = f"Made by `{_command()}` with {threads} threads on {Provenance.collect().text}."
            put_tables(self._markdown, self._marks, origin, self._tables(rows), self._notes(rows))
        return rows


def _print(tables: Sequence[Any], lines: Sequence[str]) -> None:
    console = wide_console()
    for table in tables:
        console.print(table.to_rich())
    for line in lines:
        console.print(escape(line), soft_wrap=True)


def print_report(rows: Any) -> None:
    """Print the tables of `metol bench`, and what a reader must know of them."""
    from metol.report import bench_tables, notes

    _print(bench_tables(rows) if rows else (), notes(rows))
