"""The measurements of `metol bench`: each runs, shows how it goes, prints its tables and writes its files.

In: what is asked for, and where rows and tables go. Out: whether everything of Metol's is right; tables on stdout. What
has been measured is printed when the command is interrupted, too.
"""

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from metol.console import say, wide_console
from metol.destinations import require_writable
from metol.errors import MetolError

__all__ = [
    "Asked",
    "Written",
    "bench_every_size",
    "bench_experiment",
    "bench_options",
    "bench_schedulers",
    "bench_searches",
    "bench_tails",
    "bench_tuned",
    "print_report",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured."""

    sources: Any
    """Pipelines, each a `PipelineSource`."""
    options: Any
    """How they run, a `RunOptions`."""
    columns: Any = ()
    """Schedulers, each a `Scheduler`."""
    device: Any = None
    """The GPU, a `BenchDevice`; None for the processor."""


@dataclass(frozen=True, slots=True)
class Written:
    """Where it goes; nowhere where a file is None."""

    json: Path | None = None
    """All rows."""
    markdown: Path | None = None
    """The tables, between their marks."""

    def require_marks(self, marks: tuple[str, str]) -> None:
        """Raise MetolError where the tables could not be written, before anything is measured."""
        from metol.text_table import require_marks

        if self.markdown is not None:
            require_marks(self.markdown, marks)


def _command() -> str:
    return shlex.join(["metol", *sys.argv[1:]])


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done, on stderr."""
    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(escape(text))


@contextlib.contextmanager
def _measuring(written: Written, marks: tuple[str, str], show: Callable[[Any], None]) -> Iterator[dict[str, Any]]:
    """Yield what a measurement is to tell its command, progress and reports with, and show the rows of the last one.

    Each report is written as soon as it is there, so that what is measured outlives an interrupt.
    """
    written.require_marks(marks)
    saved: list[Any] = []

    def save(report: Any) -> None:
        saved.append(report)
        if written.json is not None:
            report.save(written.json)

    try:
        with _progress() as progress:
            yield {"command": _command(), "progress": progress, "save": save}
    finally:
        show(saved[-1].rows if saved else ())


def bench_schedulers(asked: Asked, written: Written, plots: Path, jobs: int) -> bool:
    """Measure schedulers, print their tables, and tell whether some ran, and Metol's schedules are right."""
    from metol.bench import run_bench
    from metol.measure import is_own
    from metol.report import GPU_MARKS, MARKS, update_markdown

    def show(rows: Any) -> None:
        print_report(rows)
        if asked.device is not None and rows:
            _draw_roofline(plots, asked.device, asked.sources, rows)

    with _measuring(written, GPU_MARKS if asked.device else MARKS, show) as how:
        report = run_bench(asked.sources, asked.columns, options=asked.options, device=asked.device, jobs=jobs, **how)
    if written.markdown is not None:
        update_markdown(written.markdown, report)
    has_run = any(row.is_ok for row in report.rows)
    return has_run and all(row.verified for row in report.rows if is_own(row.scheduler))


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


def bench_searches(asked: Asked, written: Written) -> bool:
    """Measure searches, print their table, and tell whether Metol's own have ended well."""
    from metol.measure import is_own
    from metol.report import (
        GPU_SPEED_MARKS,
        SPEED_MARKS,
        search_speed_table,
        search_time_table,
        update_search_speed_markdown,
    )
    from metol.search_speed import run_search_speed

    table = search_time_table if asked.device else search_speed_table

    def show(rows: Any) -> None:
        _print([table(rows)] if rows else [], [_failure(row) for row in rows if row.detail])

    with _measuring(written, GPU_SPEED_MARKS if asked.device else SPEED_MARKS, show) as how:
        report = run_search_speed(
            asked.sources,
            asked.columns,
            threads=asked.options.threads,
            timeout_seconds=asked.options.timeout_seconds,
            device=asked.device,
            **how,
        )
    if written.markdown is not None:
        update_search_speed_markdown(written.markdown, report)
    return not any(row.detail and is_own(row.scheduler) for row in report.rows)


def _failure(row: Any) -> str:
    return f"{row.app}, {row.scheduler}: {row.detail}"


def bench_every_size(asked: Asked, written: Written) -> bool:
    """Verify at awkward sizes, print the table, and tell whether nothing failed."""
    from dataclasses import replace

    from metol.every_size import EverySizeFile, every_size_failures, every_size_table, run_every_size
    from metol.switches import switches

    def run(**how: Any) -> Iterator[Any]:
        return run_every_size(asked.sources, switches(), replace(asked.options, timing=None), **how)

    kept = _Kept("--every-size", lambda rows: [every_size_table(rows)], every_size_failures, written)
    return not every_size_failures(kept.measure(run, EverySizeFile, asked.options.threads))


def bench_tails(asked: Asked, written: Written) -> bool:
    """Time both kinds of tails, print the table, and tell whether all safe ones are right."""
    from metol.tails_cost import TailsFile, run_tails, tails_notes, tails_table

    def run(**how: Any) -> Iterator[Any]:
        return run_tails(asked.sources, asked.options, **how)

    kept = _Kept("--tails", lambda rows: [tails_table(rows)], tails_notes, written)
    rows = kept.measure(run, TailsFile, asked.options.threads)
    return all(row.safe_ms is not None for row in rows)


def bench_options(asked: Asked, written: Written) -> bool:
    """Time every option, print the tables, and tell whether all schedules are right."""
    from metol.option_gains import OptionsFile, options_notes, options_tables, run_options
    from metol.switches import switches

    def run(**how: Any) -> Iterator[Any]:
        return run_options(asked.sources, switches(), asked.options, **how)

    kept = _Kept("--options", lambda rows: options_tables(rows, switches()), options_notes, written)
    return not options_notes(kept.measure(run, OptionsFile, asked.options.threads))


def bench_tuned(asked: Asked, written: Written, database: Path) -> bool:
    """Time tuned schedules, print the table, and tell whether no schedule of Metol's is wrong or fails."""
    from metol.tune import Records
    from metol.tuned_gains import TunedFile, run_tuned, tuned_notes, tuned_table

    kept = _Kept("--tuned", lambda rows: [tuned_table(rows)], tuned_notes, written)
    with Records(database, may_create=False) as records:
        rows = kept.measure(partial(run_tuned, asked.sources, records, asked.options), TunedFile, asked.options.threads)
    return all(row.is_right for row in rows)


def bench_experiment(asked: Asked, written: Written, name: str, plots: Path, **how: Any) -> bool:
    """Run an experiment, print its tables, write its plot and data, and tell whether nothing of Metol's is wrong.

    Args:
        asked: Of which applications, by which schedulers.
        written: Where its rows and tables go.
        name: Which experiment.
        plots: The folder for its plot and data.
        how: What else its `Setting` has.
    """
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
        setting = Setting(
            tuple(asked.sources),
            tuple(asked.columns),
            asked.options,
            progress=progress,
            device=asked.device,
            **how,
        )
        return run_experiment(experiment, setting, **kept)

    def notes(rows: Sequence[Any]) -> Sequence[str]:
        return (*experiment.notes(rows), *kept_notes(rows, circumstances(asked.options.threads)))

    kept = _Kept(f"--experiment {name}", experiment.tables, notes, written)
    outcomes = kept.measure(run, OutcomeFile, asked.options.threads)
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
        written: Written,
    ) -> None:
        from metol.text_table import marks_of

        self._marks = marks_of(f"metol bench {flag}")
        self._tables = tables
        self._notes = notes
        self._written = written
        written.require_marks(self._marks)

    def measure(self, run: Callable[..., Iterator[Any]], open_file: Callable[[Path], Any], threads: int) -> list[Any]:
        """Measure what the file does not hold yet, and print and write the tables."""
        from metol.provenance import Provenance
        from metol.text_table import put_tables
        from metol.variants import circumstances

        rows: list[Any] = []
        how = {"circumstances": circumstances(threads)}
        if self._written.json is not None:
            file = open_file(self._written.json)
            how |= {"known": file.load(), "save": file.append}
        try:
            with _progress() as progress:
                for row in run(progress=progress, **how):
                    rows.append(row)
        finally:
            _print(self._tables(rows) if rows else [], self._notes(rows))
        if self._written.markdown is not None:
            origin = f"Made by `{_command()}` with {threads} threads on {Provenance.collect().text}."
            put_tables(self._written.markdown, self._marks, origin, self._tables(rows), self._notes(rows))
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
