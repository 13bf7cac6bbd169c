"""What tuning gains: the best recorded schedule of each application beside one-shot Metol and its peers, run anew.

In: pipeline sources and a database of records. Out: a `TunedRow` each, and the table of their run times. All schedules
of one application run in fresh processes and are timed in turn, so that no number of the tuner's own is believed.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metol.errors import MetolError
from metol.measure import PEERS, LocalRunner, Measurement, PipelineSource, Progress, RunOptions, Scheduler
from metol.row_file import RowFile
from metol.text_table import NOTHING, UNVERIFIED, UNVERIFIED_NOTE, TextTable, geometric_mean, number_cell, three_digits
from metol.tune import Record, RecordKey, Records, SearchTerms, key_of

__all__ = ["TunedFile", "TunedRow", "run_tuned", "tuned_notes", "tuned_table"]

ROW_VERSION = 1
_TUNED = "tuned"
_ONE_SHOT = "metol"


@dataclass(frozen=True, slots=True)
class TunedRow:
    """The tuned schedule of one pipeline and those of others, at the estimated size."""

    app: str
    """The pipeline, as tables name it."""
    circumstances: str
    """What it depends on beside."""
    record: str = ""
    """The id of the best record; empty where there is none, and nothing was measured."""
    recorded_ms: float | None = None
    """Run time that the tuner reported."""
    tuned_ms: float | None = None
    """Median run time of the recorded schedule here; None where it is not verified."""
    oneshot_ms: float | None = None
    """The same of what Metol schedules without measuring."""
    peers_ms: tuple[tuple[str, float | None], ...] = ()
    """The same of each peer, by name; None where it fails, a time where it merely refuses smaller sizes."""
    verified: tuple[str, ...] = ()
    """Which of ``tuned``, ``metol`` and the peers are right at both sizes."""
    notes: tuple[str, ...] = ()
    """Why something is missing."""

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The fastest peer and its milliseconds; None where all fail."""
        known = [(run_ms, name) for name, run_ms in self.peers_ms if run_ms]
        if not known:
            return None
        run_ms, name = min(known)
        return name, run_ms

    @property
    def gain_over_peer(self) -> float | None:
        """How many times faster the tuned schedule is than the best peer."""
        return self.best_peer[1] / self.tuned_ms if self.best_peer and self.tuned_ms else None

    @property
    def gain_over_oneshot(self) -> float | None:
        """How many times faster the tuned schedule is than the one-shot one."""
        return self.oneshot_ms / self.tuned_ms if self.oneshot_ms and self.tuned_ms else None

    @property
    def reported_off_percent(self) -> float | None:
        """By how much what the tuner reported is more than what was measured here."""
        if self.recorded_ms is None or not self.tuned_ms:
            return None
        return 100 * (self.recorded_ms - self.tuned_ms) / self.tuned_ms

    @property
    def is_right(self) -> bool:
        """Whether no schedule of Metol's is wrong or fails; true where there is no record and nothing was measured."""
        return not self.record or {_TUNED, _ONE_SHOT} <= set(self.verified)

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self) | {"peers_ms": dict(self.peers_ms)}

    @staticmethod
    def from_row(row: dict[str, Any]) -> "TunedRow":
        """Read a row of a result file."""
        tuples = {name: tuple(row[name]) for name in ("verified", "notes")}
        return TunedRow(**{**row, **tuples, "peers_ms": tuple(row["peers_ms"].items())})


class TunedFile(RowFile[TunedRow]):
    """The rows of this measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, TunedRow.from_row, "gains of tuning")


def run_tuned(
    sources: Sequence[PipelineSource],
    records: Records,
    options: RunOptions,
    *,
    peers: Sequence[str] = tuple(PEERS),
    circumstances: str,
    known: Iterable[TunedRow] = (),
    save: Callable[[TunedRow], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Iterator[TunedRow]:
    """Measure the best recorded schedule of every source beside others; yield each row when it is there.

    Args:
        sources: what was tuned.
        records: where the tuned schedules are.
        options: how to measure; their threads and target are part of which record is looked for.
        peers: the schedulers to compare with, beside one-shot Metol.
        circumstances: for the rows.
        known: rows of an earlier run; those of the same record, peers and circumstances are yielded again.
        save: called with each new row before it is yielded; not with those of sources without a record.
        progress: told about each step.

    Raises:
        MetolError: a pipeline cannot be built, or the records cannot be read; a schedule's failure is a note instead.
    """
    done = {(row.app, row.record, _names(row)): row for row in known if row.circumstances == circumstances}
    runner = LocalRunner(options, progress)
    for source in sources:
        progress(f"{source.label}: looking for its record")
        record, reason = _best_record(source, records, options)
        if record is None:
            yield TunedRow(source.label, circumstances, notes=(reason,))
            continue
        row = done.get((source.label, record.uid, tuple(peers)))
        if row is None:
            row = _measure(source, record, peers, runner, circumstances)
            save(row)
        yield row


def _names(row: TunedRow) -> tuple[str, ...]:
    return tuple(name for name, _ in row.peers_ms)


def _best_record(source: PipelineSource, records: Records, options: RunOptions) -> tuple[Record | None, str]:
    """Return the best record of a pipeline on this machine, or why there is none."""
    key = _key(source, options)
    if isinstance(key, str):
        return None, f"it can have no record: {key}"
    where = f"for {options.threads} threads on this machine"
    return records.best(key), f"no record {where}; run `metol tune {source} --records {records.path}`"


def _key(source: PipelineSource, options: RunOptions) -> RecordKey | str:
    """Return the key of a pipeline's records, or why it has none."""
    pipeline = source.build()
    try:
        return key_of(pipeline, SearchTerms(options.threads), target=options.target)
    except MetolError as error:
        return str(error)


def _measure(
    source: PipelineSource, record: Record, peers: Sequence[str], runner: LocalRunner, circumstances: str
) -> TunedRow:
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        file = Path(folder) / "tuned.json"
        # As it was recorded: one that this Metol cannot read fails where it is measured, like any other.
        file.write_text(record.schedule, encoding="utf-8")
        schedulers = [Scheduler.of_file(file), *map(Scheduler.parse, (_ONE_SHOT, *peers))]
        measured = runner.run(source, schedulers)
    rows = dict(zip((_TUNED, _ONE_SHOT, *peers), measured, strict=True))
    return TunedRow(
        source.label,
        circumstances,
        record=record.uid,
        recorded_ms=record.run_ms,
        tuned_ms=rows[_TUNED].verified_ms,
        oneshot_ms=rows[_ONE_SHOT].verified_ms,
        peers_ms=tuple((name, rows[name].run_ms if rows[name].is_ok else None) for name in peers),
        verified=tuple(name for name, row in rows.items() if row.verified),
        notes=tuple(f"{name}: {row.problem}" for name, row in rows.items() if _is_missing(name, row)),
    )


def _is_missing(name: str, row: Measurement) -> bool:
    """Whether a schedule has no time in the table: of Metol's own, more is asked than of the peers'."""
    return not (row.verified if name in (_TUNED, _ONE_SHOT) else row.is_ok)


def tuned_table(rows: Sequence[TunedRow]) -> TextTable:
    """Return run times and gains of the pipelines that have a record, with means, the worst, and the tuner's errors."""
    headers = ("tuned (ms)", "best peer (ms)", "vs best peer", "one-shot (ms)", "vs one-shot")
    lines = tuple(_line(row) for row in rows if row.record)
    over_peer = [(row.gain_over_peer, row.app) for row in rows if row.gain_over_peer is not None]
    over_oneshot = [(row.gain_over_oneshot, row.app) for row in rows if row.gain_over_oneshot is not None]
    errors = [abs(row.reported_off_percent) for row in rows if row.reported_off_percent is not None]
    off = f"{statistics.median(errors):.1f} ({len(errors)})" if errors else NOTHING
    summary = (
        ("geometric mean (apps)", "", "", _mean(over_peer), "", _mean(over_oneshot), "", ""),
        ("worst app", "", "", _worst(over_peer), "", _worst(over_oneshot), "", ""),
        ("median without sign (apps)", "", "", "", "", "", "", off),
    )
    title = "Run time, and how many times faster the tuned schedule is"
    return TextTable(title, ("app", *headers, "reported (ms)", "off by (%)"), lines, summary)


def tuned_notes(rows: Sequence[TunedRow]) -> tuple[str, ...]:
    """Return what a reader of the table must know."""
    is_marked = any(row.best_peer and row.best_peer[0] not in row.verified for row in rows)
    lines = [UNVERIFIED_NOTE] if is_marked else []
    return (*lines, *(f"{row.app}, {note}" for row in rows for note in row.notes))


def _line(row: TunedRow) -> tuple[str, ...]:
    off = row.reported_off_percent
    return (
        row.app,
        number_cell(row.tuned_ms),
        _peer_cell(row),
        _gain(row.gain_over_peer),
        number_cell(row.oneshot_ms),
        _gain(row.gain_over_oneshot),
        number_cell(row.recorded_ms),
        NOTHING if off is None else f"{off:+.1f}",
    )


def _peer_cell(row: TunedRow) -> str:
    if row.best_peer is None:
        return NOTHING
    name, run_ms = row.best_peer
    return f"{name} {three_digits(run_ms)}" + ("" if name in row.verified else f" {UNVERIFIED}")


def _gain(gain: float | None) -> str:
    return NOTHING if gain is None else f"{gain:.2f}×"


def _mean(gains: Sequence[tuple[float, str]]) -> str:
    return f"{_gain(geometric_mean([gain for gain, _ in gains]))} ({len(gains)})" if gains else NOTHING


def _worst(gains: Sequence[tuple[float, str]]) -> str:
    if not gains:
        return NOTHING
    gain, app = min(gains)
    return f"{_gain(gain)} ({app})"
