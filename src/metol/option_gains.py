"""What each switch of the search brings: run time, predicted run time and search time with it off and with it on.

In: pipeline sources and switches. Out: an `OptionRow` for each option of each source, and their tables. All schedules
of one application that differ are compiled, verified, and timed in turn.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from metol.measure import LocalRunner, Measurement, PipelineSource, Progress, RunOptions, Scheduler
from metol.row_file import RowFile
from metol.switches import Switch
from metol.text_table import NOTHING, TextTable, geometric_mean, three_digits
from metol.variants import DEFAULT, Variant, schedule_variant, variant_name

__all__ = ["OptionRow", "OptionsFile", "options_notes", "options_tables", "run_options"]

ROW_VERSION = 1
# What stands in a cell where the switch changes nothing of the schedule.
_SAME = "="


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One pipeline under one option."""

    app: str
    """The pipeline, as tables name it."""
    option: str
    """The option, or ``default``."""
    circumstances: str
    """What it depends on beside."""
    digest: str = ""
    """The same for schedules that make the same calls; empty where there is no schedule."""
    run_ms: float | None = None
    """Median run time at the estimated size; of schedules that make the same calls, that of the first."""
    predicted_ms: float | None = None
    """What the cost model predicts; None where no search found the schedule."""
    search_seconds: float | None = None
    """Wall time from the built pipeline to its schedule."""
    note: str = ""
    """Why something is missing."""

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self)


class OptionsFile(RowFile[OptionRow]):
    """The rows of this measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, lambda row: OptionRow(**row), "gains of options")


def run_options(
    sources: Sequence[PipelineSource],
    switches: Sequence[Switch],
    options: RunOptions,
    *,
    circumstances: str,
    known: Iterable[OptionRow] = (),
    save: Callable[[OptionRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Iterator[OptionRow]:
    """Measure every source under the default options and with each switch turned; yield the rows of one together.

    Args:
        sources: what to schedule.
        switches: the options.
        options: how to measure.
        circumstances: for the rows.
        known: rows of an earlier run; a source all of whose rows are there, of the same circumstances, is not measured.
        save: called with each new row before it is yielded.
        progress: told about each step.
    """
    done = {(row.app, row.option): row for row in known if row.circumstances == circumstances}
    runner = LocalRunner(options, progress)
    is_warm = False
    for source in sources:
        wanted = [(source.label, variant_name(switch)) for switch in (None, *switches)]
        if all(key in done for key in wanted):
            yield from (done[key] for key in wanted)
            continue
        # The first search of a process takes longer: it imports, and starts what the others find started.
        if not is_warm:
            schedule_variant(source, None, options.threads)
            is_warm = True
        variants = []
        for switch in (None, *switches):
            progress(f"{source.label}: searching, {variant_name(switch)}")
            variants.append(schedule_variant(source, switch, options.threads))
        for row in _measure(source, variants, runner, circumstances):
            save(row)
            yield row


def _measure(
    source: PipelineSource, variants: Sequence[Variant], runner: LocalRunner, circumstances: str
) -> Iterator[OptionRow]:
    distinct = {variant.digest: variant for variant in reversed(variants) if variant.result is not None}
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        schedulers = [Scheduler.of_file(variant.save(Path(folder))) for variant in distinct.values()]
        measured = dict(zip(distinct, runner.run(source, schedulers), strict=True))
    for variant in variants:
        row = OptionRow(source.label, variant.name, circumstances, variant.digest, note=variant.refusal)
        yield row if variant.result is None else _with_times(row, variant, measured[variant.digest])


def _with_times(row: OptionRow, variant: Variant, measured: Measurement) -> OptionRow:
    assert variant.result is not None
    predicted = variant.result.predicted_seconds
    return replace(
        row,
        run_ms=measured.verified_ms,
        predicted_ms=None if math.isnan(predicted) else 1e3 * predicted,
        search_seconds=variant.result.search_seconds,
        note="" if measured.verified else measured.problem,
    )


def options_tables(rows: Sequence[OptionRow], switches: Sequence[Switch]) -> tuple[TextTable, ...]:
    """Return what each switch is and brings in the mean, and the ratios of run time and predicted time of each app."""
    by_app: dict[str, dict[str, OptionRow]] = {}
    for row in rows:
        by_app.setdefault(row.app, {})[row.option] = row
    return (
        _summary(by_app, switches),
        _ratios("Run time with the part off, relative to with it on", by_app, switches, _run),
        _ratios("Predicted run time with the part off, relative to with it on", by_app, switches, _predicted),
    )


_Apps = Mapping[str, Mapping[str, OptionRow]]
_Quantity = Callable[[OptionRow], float | None]


_run: _Quantity = attrgetter("run_ms")
_predicted: _Quantity = attrgetter("predicted_ms")
_search: _Quantity = attrgetter("search_seconds")


def _summary(by_app: _Apps, switches: Sequence[Switch]) -> TextTable:
    lines = []
    for switch in switches:
        means = (_mean(by_app, switch, quantity) for quantity in (_run, _predicted, _search))
        changed = sum(_is_changed(options, switch) for options in by_app.values())
        lines.append((f"{switch.name}: {switch.meaning}", "on" if switch.is_on else "off", *means, str(changed)))
    headers = (
        "part",
        "default",
        "run time off/on",
        "predicted off/on",
        "search time off/on",
        "apps changed",
    )
    times = [_search(options[DEFAULT]) for options in by_app.values() if DEFAULT in options]
    total = three_digits(math.fsum(time for time in times if time is not None))
    summary = (("search of all apps, default", f"{total} s", *[""] * (len(headers) - 2)),)
    return TextTable(
        "Parts of the space and of the search: geometric means over apps; above 1 the part pays",
        headers,
        tuple(lines),
        summary,
    )


def _ratios(title: str, by_app: _Apps, switches: Sequence[Switch], quantity: _Quantity) -> TextTable:
    lines = [(app, *(_cell(options, switch, quantity) for switch in switches)) for app, options in by_app.items()]
    means = tuple(_mean(by_app, switch, quantity) for switch in switches)
    headers = ("app", *(switch.name for switch in switches))
    return TextTable(
        f"{title}; {_SAME} where the schedule is the same", headers, tuple(lines), (("geometric mean (apps)", *means),)
    )


def _off_over_on(options: Mapping[str, OptionRow], switch: Switch, quantity: _Quantity) -> float | None:
    """How many times as much there is with the part off; None where either is not known."""
    if DEFAULT not in options or str(switch) not in options:
        return None
    default, turned = quantity(options[DEFAULT]), quantity(options[str(switch)])
    if not default or not turned:
        return None
    return turned / default if switch.is_on else default / turned


def _is_changed(options: Mapping[str, OptionRow], switch: Switch) -> bool:
    """Whether both options have a schedule, and not the same."""
    digests = {options[name].digest for name in (DEFAULT, str(switch)) if name in options and options[name].digest}
    return len(digests) == 2


def _cell(options: Mapping[str, OptionRow], switch: Switch, quantity: _Quantity) -> str:
    ratio = _off_over_on(options, switch, quantity)
    if ratio is None:
        return NOTHING
    return f"{ratio:.3f}" if _is_changed(options, switch) else _SAME


def _mean(by_app: _Apps, switch: Switch, quantity: _Quantity) -> str:
    found = (_off_over_on(options, switch, quantity) for options in by_app.values())
    known = [ratio for ratio in found if ratio is not None]
    return f"{geometric_mean(known):.3f} ({len(known)})" if known else NOTHING


def options_notes(rows: Sequence[OptionRow]) -> tuple[str, ...]:
    """Name every option that something is missing of, once where options share a schedule."""
    told: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.note:
            told.setdefault((row.app, row.digest or row.option), f"{row.app}, {row.option}: {row.note}")
    return tuple(told.values())
