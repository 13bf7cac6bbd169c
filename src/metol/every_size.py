"""Every application under every option, at the sizes at which schedules go wrong: is each result right?

In: pipeline sources, and the switches of the search. Out: an `EverySizeRow` for each option of each source, appended to
a file at once, so that an interrupted run goes on where it ended; and the table of how many were right.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import halide as hl

from metol.errors import MetolError
from metol.measure import CheckOutcome, PipelineSource, Progress, RunOptions, SizeCheck, SizeChecker, sizes_to_check
from metol.row_file import RowFile
from metol.switches import Switch
from metol.text_table import TextTable
from metol.variants import Variant, schedule_variant, variant_name

__all__ = ["EverySizeFile", "EverySizeRow", "every_size_failures", "every_size_table", "run_every_size"]

ROW_VERSION = 1


@dataclass(frozen=True, slots=True)
class EverySizeRow:
    """What became of one pipeline under one option, at all sizes."""

    app: str
    """The pipeline, as tables name it."""
    option: str
    """The option, or ``default``."""
    digest: str
    """The same for schedules that make the same calls; empty where there is no schedule."""
    same_as: str
    """The option before it whose schedule makes the same calls: nothing was run again. Empty where there is none."""
    checks: tuple[SizeCheck, ...]
    """One for each size."""
    circumstances: str
    """What it depends on beside."""

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self) | {"checks": [check.to_row() for check in self.checks]}

    @staticmethod
    def from_row(row: dict[str, Any]) -> "EverySizeRow":
        """Read what `to_row` wrote."""
        return EverySizeRow(**{**row, "checks": tuple(map(SizeCheck.from_row, row["checks"]))})


class EverySizeFile(RowFile[EverySizeRow]):
    """The rows of this measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, EverySizeRow.from_row, "checked sizes")


def run_every_size(
    sources: Sequence[PipelineSource],
    switches: Sequence[Switch],
    options: RunOptions,
    *,
    circumstances: str,
    known: Iterable[EverySizeRow] = (),
    save: Callable[[EverySizeRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Iterator[EverySizeRow]:
    """Check every source under the default options and with each switch turned; yield each row when it is there.

    Args:
        sources: what to schedule.
        switches: the options.
        options: how to run; nothing is timed.
        circumstances: for the rows.
        known: rows of an earlier run; those of the same circumstances are yielded again, not measured.
        save: called with each new row before it is yielded.
        progress: told about each step.
    """
    done = {(row.app, row.option): row for row in known if row.circumstances == circumstances}
    for source in sources:
        with (
            tempfile.TemporaryDirectory(prefix="metol-") as name,
            SizeChecker(source, options, Path(name)) as checker,
        ):
            by_digest: dict[str, EverySizeRow] = {}
            for switch in (None, *switches):
                row = done.get((source.label, variant_name(switch)))
                if row is None:
                    progress(f"{source.label}: {variant_name(switch)}")
                    variant = schedule_variant(source, switch, options.threads)
                    row = _row(source, variant, checker, by_digest.get(variant.digest), circumstances)
                    save(row)
                if row.digest:
                    by_digest.setdefault(row.digest, row)
                yield row


def _row(
    source: PipelineSource,
    variant: Variant,
    checker: SizeChecker,
    same: EverySizeRow | None,
    circumstances: str,
) -> EverySizeRow:
    if variant.result is None:
        failed = SizeCheck("any size", "", CheckOutcome.FAILED, f"no schedule: {variant.refusal}")
        return EverySizeRow(source.label, variant.name, "", "", (failed,), circumstances)
    if same is not None:
        return EverySizeRow(source.label, variant.name, variant.digest, same.option, same.checks, circumstances)
    sizes = sizes_to_check(source.build(), variant.result.schedule, hl.get_host_target())
    try:
        checks = tuple(checker.check(variant.save(checker.folder), sizes))
    except MetolError as error:
        checks = (SizeCheck("any size", "", CheckOutcome.FAILED, str(error)),)
    return EverySizeRow(source.label, variant.name, variant.digest, "", checks, circumstances)


def every_size_table(rows: Sequence[EverySizeRow]) -> TextTable:
    """Return how many pairs of an option and a size were right, were not allowed by the pipeline, and failed."""
    apps = tuple(dict.fromkeys(row.app for row in rows))
    by_app = [_counts([row for row in rows if row.app == app]) for app in apps]
    lines = ((app, *map(str, counts)) for app, counts in zip(apps, by_app, strict=True))
    totals = tuple(map(sum, zip(*by_app, strict=True)))
    headers = ("app", "options", "schedules", "verified", "not allowed by the pipeline", "failed")
    summary = (("all", *map(str, totals)),) if by_app else ()
    return TextTable("Pairs of an option and a size of the output", headers, tuple(lines), summary)


def _counts(rows: Sequence[EverySizeRow]) -> tuple[int, ...]:
    """Options, distinct schedules, and pairs by outcome."""
    outcomes = [check.outcome for row in rows for check in row.checks]
    return (len(rows), sum(not row.same_as for row in rows), *(outcomes.count(outcome) for outcome in CheckOutcome))


def every_size_failures(rows: Sequence[EverySizeRow]) -> tuple[str, ...]:
    """Name every failure, once where options share a schedule."""
    return tuple(
        f"{row.app}, {row.option}, {f'{check.size} {check.extents}'.rstrip()}: {check.detail}"
        for row in rows
        if not row.same_as
        for check in row.checks
        if check.outcome is CheckOutcome.FAILED
    )
