"""Tables of measurements: for a terminal, and as Markdown for the docs, from one and the same content.

In: rows. Out: run times per application and scheduler, the speed-up of one scheduler over each of the others with
their geometric means, search times, and what went wrong.
"""

from collections.abc import Sequence
from pathlib import Path

from metol.bench import BenchReport
from metol.measure import Measurement, SearchMeasurement, Status, is_own
from metol.search_speed import SearchSpeedReport
from metol.text_table import (
    NOTHING,
    UNVERIFIED,
    UNVERIFIED_NOTE,
    TextTable,
    geometric_mean,
    marks_of,
    put_tables,
    three_digits,
)

__all__ = [
    "BEGIN_MARK",
    "END_MARK",
    "GPU_MARKS",
    "GPU_SPEED_MARKS",
    "MARKS",
    "SPEED_BEGIN_MARK",
    "SPEED_END_MARK",
    "SPEED_MARKS",
    "bench_tables",
    "notes",
    "search_speed_table",
    "search_time_table",
    "update_markdown",
    "update_search_speed_markdown",
]

MARKS = BEGIN_MARK, END_MARK = marks_of("metol bench")
SPEED_MARKS = SPEED_BEGIN_MARK, SPEED_END_MARK = marks_of("metol bench --search-speed")
GPU_MARKS = marks_of("metol bench --gpu")
GPU_SPEED_MARKS = marks_of("metol bench --gpu --search-speed")


def bench_tables(rows: Sequence[Measurement]) -> tuple[TextTable, TextTable]:
    """Return the table of run times and speed-ups, and that of search times.

    Speed-ups are those of ``metol`` or, where it was not measured, of the first scheduler, over each of the others.
    """
    schedulers = tuple(dict.fromkeys(row.scheduler for row in rows))
    by_app: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        by_app.setdefault(row.app, {})[row.scheduler] = row
    subject = next((s for s in schedulers if is_own(s)), schedulers[0] if schedulers else "")
    others = tuple(s for s in schedulers if s != subject)
    lines = []
    speedups: dict[str, list[float]] = {other: [] for other in others}
    for app, cells in by_app.items():
        ratios = []
        for other in others:
            ratio = _speedup(cells.get(subject), cells.get(other))
            ratios.append(f"{ratio:.2f}×" if ratio else NOTHING)
            speedups[other] += [ratio] if ratio else []
        lines.append((app, *(_run_cell(cells.get(s)) for s in schedulers), *ratios))
    means = (f"{geometric_mean(s):.2f}× ({len(s)})" if s else NOTHING for s in speedups.values())
    run_times = TextTable(
        f"Run time (ms), and how many times faster {subject} is",
        ("app", *schedulers, *(f"vs {other}" for other in others)),
        tuple(lines),
        (("geometric mean (apps)", *[""] * len(schedulers), *means),) if others else (),
    )
    search_lines = ((app, *(_search_cell(cells.get(s)) for s in schedulers)) for app, cells in by_app.items())
    search_times = TextTable("Search time (s)", ("app", *schedulers), tuple(search_lines))
    return run_times, search_times


def notes(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what a reader of the tables must know: marks that occur, and the reason of every failure."""
    lines = []
    if any(row.is_ok and not row.verified for row in rows):
        lines.append(UNVERIFIED_NOTE)
    failures = (row for row in rows if not row.is_ok)
    lines += [f"{row.app}, {row.scheduler}: {row.problem}" for row in failures]
    return tuple(lines)


def update_markdown(path: Path, report: BenchReport) -> None:
    """Put the tables between the marks in a Markdown file; make the file where there is none.

    Raises:
        MetolError: the file exists and lacks the marks.
    """
    put_tables(
        path, GPU_MARKS if report.device else MARKS, origin(report), bench_tables(report.rows), notes(report.rows)
    )


def search_speed_table(rows: Sequence[SearchMeasurement]) -> TextTable:
    """Return candidates a second, seconds and peak memory, and how many times better the first scheduler's are."""
    schedulers = tuple(dict.fromkeys(row.scheduler for row in rows))
    by_app: dict[str, dict[str, SearchMeasurement]] = {}
    for row in rows:
        by_app.setdefault(row.app, {})[row.scheduler] = row
    others = schedulers[1:]
    rates: dict[str, list[float]] = {other: [] for other in others}
    costing: dict[str, list[float]] = {other: [] for other in others}
    times: dict[str, list[float]] = {other: [] for other in others}
    lines = []
    for app, cells in by_app.items():
        first = cells[schedulers[0]]
        line = [app]
        for scheduler in schedulers:
            row = cells[scheduler]
            rate = row.candidates_per_second
            line += [f"{rate:.0f}" if rate else NOTHING]
            line += [_costing_cell(row)] if scheduler == schedulers[0] else []
            line += [three_digits(row.seconds) if row.seconds else row.detail.partition(":")[0]]
            line += [f"{row.peak_mib:.0f}" if row.peak_mib else NOTHING]
        for other in others:
            row = cells[other]
            line += [_ratio(rates[other], first.candidates_per_second, row.candidates_per_second)]
            line += [_ratio(costing[other], first.candidates_per_costing_second, row.candidates_per_costing_second)]
            line += [_ratio(times[other], row.seconds, first.seconds)]
        lines.append(tuple(line))
    columns: list[tuple[str, ...]] = [(f"{s}: candidates/s", "seconds", "peak MiB") for s in schedulers]
    columns[0] = (columns[0][0], "while costing", *columns[0][1:])
    columns += [(f"rate vs {other}", "while costing", f"time vs {other}") for other in others]
    means = [_mean(ratios) for other in others for ratios in (rates[other], costing[other], times[other])]
    summary = (("geometric mean (apps)", *[""] * (3 * len(schedulers) + 1), *means),) if others else ()
    headers = ("app", *(header for group in columns for header in group))
    return TextTable("Searches: schedules costed a second, time and memory", headers, tuple(lines), summary)


def search_time_table(rows: Sequence[SearchMeasurement]) -> TextTable:
    """Return seconds and peak memory of each search, and how many times longer each other than the first takes.

    A search that was given up has no part in means; where the first ended in that time, it was faster.
    """
    schedulers = tuple(dict.fromkeys(row.scheduler for row in rows))
    by_app: dict[str, dict[str, SearchMeasurement]] = {}
    for row in rows:
        by_app.setdefault(row.app, {})[row.scheduler] = row
    first, others = schedulers[0], schedulers[1:]
    times: dict[str, list[float]] = {other: [] for other in others}
    given_up = dict.fromkeys(others, 0)
    lines = []
    for app, cells in by_app.items():
        line = [app]
        for scheduler in schedulers:
            row = cells[scheduler]
            line += [_time_cell(row), f"{row.peak_mib:.0f}" if row.peak_mib else NOTHING]
        line += [_times(times[other], cells[other].seconds, cells[first].seconds) for other in others]
        for other in others:
            given_up[other] += bool(cells[first].seconds) and _failure_kind(cells[other]) == "timeout"
        lines.append(tuple(line))
    means: list[str] = []
    for scheduler in schedulers:
        known = [row.seconds for row in rows if row.scheduler == scheduler and row.seconds]
        means += [f"{_seconds(geometric_mean(known))} ({len(known)})" if known else NOTHING, ""]
    faster = (
        f"{sum(ratio > 1 for ratio in ratios) + given_up[other]} of {len(ratios) + given_up[other]}"
        for other, ratios in times.items()
    )
    summary = (
        ("geometric mean (apps)", *means, *map(_mean_times, times.values())),
        (f"{first} is faster on", *[""] * (2 * len(schedulers)), *faster),
    )
    headers = ("app", *(header for s in schedulers for header in (f"{s} (s)", "peak MiB")))
    return TextTable(
        "Searches for a GPU: time and memory, and how many times longer others take",
        (*headers, *(f"{other} / {first}" for other in others)),
        tuple(lines),
        summary if others else summary[:1],
    )


def _time_cell(row: SearchMeasurement) -> str:
    """Return the seconds of a search; of a failure, its kind."""
    return _failure_kind(row) if row.seconds is None else _seconds(row.seconds)


def _failure_kind(row: SearchMeasurement) -> str:
    return row.detail.partition(":")[0]


def _seconds(seconds: float) -> str:
    """Return seconds with three digits, however few they are: some searches take milliseconds."""
    return three_digits(seconds) if seconds >= 1 else f"{seconds:.3f}" if seconds >= 0.1 else f"{seconds:.4f}"


def _times(seen: list[float], longer: float | None, shorter: float | None) -> str:
    """Return how many times longer the one is, and add it to `seen`; nothing where either is not known."""
    if not longer or not shorter:
        return NOTHING
    seen.append(longer / shorter)
    return _factor(seen[-1])


def _mean_times(ratios: list[float]) -> str:
    return f"{_factor(geometric_mean(ratios))} ({len(ratios)})" if ratios else NOTHING


def _factor(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2g}×"


def update_search_speed_markdown(path: Path, report: SearchSpeedReport) -> None:
    """Put the table of searches between its marks in a Markdown file.

    Raises:
        MetolError: the file exists and lacks the marks.
    """
    failures = [f"{row.app}, {row.scheduler}: {row.detail}" for row in report.rows if row.detail]
    marks, table = (GPU_SPEED_MARKS, search_time_table) if report.device else (SPEED_MARKS, search_speed_table)
    put_tables(path, marks, origin(report), (table(report.rows),), failures)


def origin(report: BenchReport | SearchSpeedReport) -> str:
    """Say how a report was made."""
    device = f", for {report.device}" if report.device else ""
    return f"Made by `{report.command}`{device} with {report.threads} threads on {report.provenance.text}."


def _costing_cell(row: SearchMeasurement) -> str:
    return f"{row.candidates_per_costing_second:.0f}" if row.candidates_per_costing_second else NOTHING


def _ratio(seen: list[float], larger: float | None, smaller: float | None) -> str:
    """Return how many times larger the one is, and add it to `seen`; nothing where either is not known."""
    if not larger or not smaller:
        return NOTHING
    seen.append(larger / smaller)
    return f"{seen[-1]:.1f}×"


def _mean(ratios: list[float]) -> str:
    return f"{geometric_mean(ratios):.1f}× ({len(ratios)})" if ratios else NOTHING


def _speedup(subject: Measurement | None, other: Measurement | None) -> float | None:
    """Return how many times faster `subject` is; only where both are right."""
    if subject is None or other is None or not (subject.is_ok and other.is_ok):
        return None
    return other.run_ms / subject.run_ms if subject.run_ms and other.run_ms else None


def _run_cell(row: Measurement | None) -> str:
    if row is None:
        return NOTHING
    if not row.is_ok:
        return row.status.value
    if row.run_ms is None:
        return "verified" if row.verified else NOTHING
    return three_digits(row.run_ms) + ("" if row.verified else f" {UNVERIFIED}")


def _search_cell(row: Measurement | None) -> str:
    if row is None or row.schedule_seconds is None:
        return "timeout" if row is not None and row.status is Status.TIMEOUT else NOTHING
    return three_digits(row.schedule_seconds)
