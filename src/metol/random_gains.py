"""How Metol does on programs that nobody wrote: random ones, which no weights were fitted to, beside its peers.

In: how many programs, and from which seed on. Out: a `RandomGain` each, and a table over all of them. The schedules of
one program are verified and timed in turn (Adams et al. 2019, §6.2 and figure 7).
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metol.measure import LocalRunner, Measurement, PipelineSource, Progress, RunOptions, Scheduler
from metol.row_file import RowFile
from metol.text_table import NOTHING, TextTable, geometric_mean, three_digits
from metol.train import CollectPlan
from metol.variants import Variant, schedule_variant

__all__ = ["FIRST_SEED", "RandomFile", "RandomGain", "random_notes", "random_tables", "run_random"]

ROW_VERSION = 1
FIRST_SEED = 100_000
"""Programs from here on are not trained on: `metol train generate` begins at 0."""
_METOL = "metol"


@dataclass(frozen=True, slots=True)
class RandomGain:
    """One random program, scheduled by Metol and by its peers."""

    app: str
    """The program, as tables name it."""
    circumstances: str
    """What it depends on beside."""
    predicted_ms: float | None = None
    """Run time that Metol predicts; None where there is no schedule."""
    run_ms: tuple[tuple[str, float | None], ...] = ()
    """Median run time by scheduler, Metol first; None where it failed. Empty where nothing was measured."""
    notes: tuple[str, ...] = ()
    """Why something is missing."""

    @property
    def is_right(self) -> bool:
        """Whether Metol's schedule is verified at both sizes, or there was nothing to measure."""
        return not self.run_ms or dict(self.run_ms)[_METOL] is not None

    def gain_over(self, peer: str) -> float | None:
        """How many times faster Metol's schedule is than a peer's; None where one of them failed."""
        times = dict(self.run_ms)
        own, other = times.get(_METOL), times.get(peer)
        return other / own if own and other else None

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self) | {"run_ms": dict(self.run_ms)}

    @staticmethod
    def from_row(row: dict[str, Any]) -> "RandomGain":
        """Read a row of a result file."""
        return RandomGain(**{**row, "run_ms": tuple(row["run_ms"].items()), "notes": tuple(row["notes"])})


class RandomFile(RowFile[RandomGain]):
    """The rows of this measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, RandomGain.from_row, "random programs beside peers")


def run_random(
    count: int,
    peers: Sequence[Scheduler],
    options: RunOptions,
    *,
    first_seed: int = FIRST_SEED,
    most_funcs: int = 40,
    circumstances: str,
    known: Iterable[RandomGain] = (),
    save: Callable[[RandomGain], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Iterator[RandomGain]:
    """Measure random programs until so many were; yield each row when it is there.

    Args:
        count: programs that are measured; those predicted to be much faster than 0.1 ms or slower than 100 do not
            count, and have a row without run times.
        peers: what Metol is compared with.
        options: how to measure.
        first_seed: of the first program; the others follow.
        most_funcs: where programs stop growing; they have three Funcs at least.
        circumstances: for the rows.
        known: rows of an earlier run; those of the same circumstances are yielded again, not measured.
        save: called with each new row before it is yielded.
        progress: told about each step.
    """
    done = {row.app: row for row in known if row.circumstances == circumstances}
    runner = LocalRunner(options, progress)
    plan = CollectPlan(most_funcs=most_funcs)
    seed = first_seed
    while count > 0:
        source = plan.source(seed)
        seed += 1
        row = done.get(source.label)
        if row is None:
            progress(f"{source.label}: searching")
            variant = schedule_variant(source, None, options.threads)
            row = _unsuitable(source, variant, plan, circumstances)
            row = row or _measure(source, variant, peers, runner, circumstances)
            save(row)
        count -= bool(row.run_ms)
        yield row


def _unsuitable(source: PipelineSource, variant: Variant, plan: CollectPlan, circumstances: str) -> RandomGain | None:
    """Return the row of a program that is not to be measured; None for one that is."""
    if variant.result is None:
        return RandomGain(source.label, circumstances, None, ((_METOL, None),), (f"metol: {variant.refusal}",))
    predicted_ms = 1e3 * variant.result.predicted_seconds
    if plan.suits(predicted_ms):
        return None
    return RandomGain(source.label, circumstances, predicted_ms, notes=(f"predicted to take {predicted_ms:.3g} ms",))


def _measure(
    source: PipelineSource, variant: Variant, peers: Sequence[Scheduler], runner: LocalRunner, circumstances: str
) -> RandomGain:
    assert variant.result is not None
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        own = Scheduler.of_file(variant.save(Path(folder)))
        measured = runner.run(source, [own, *peers])
    rows = dict(zip((_METOL, *map(str, peers)), measured, strict=True))
    times = {name: _time(name, row) for name, row in rows.items()}
    notes = tuple(f"{name}: {row.problem}" for name, row in rows.items() if times[name] is None)
    return RandomGain(source.label, circumstances, 1e3 * variant.result.predicted_seconds, tuple(times.items()), notes)


def _time(name: str, row: Measurement) -> float | None:
    """Return the run time that counts: of Metol's own schedule, more is asked than of the peers'."""
    if name == _METOL:
        return row.verified_ms
    return row.run_ms if row.is_ok else None


def random_tables(rows: Sequence[RandomGain]) -> tuple[TextTable, ...]:
    """Return how Metol compares with each peer over all programs that were measured."""
    measured = [row for row in rows if row.run_ms]
    peers = tuple(dict.fromkeys(name for row in measured for name, _ in row.run_ms if name != _METOL))
    lines = tuple(_line(peer, measured) for peer in peers)
    headers = ("Metol beside", "programs of both", "geometric mean", "faster in", "least", "median", "most", "it fails")
    fails = sum(not row.is_right for row in measured)
    summary = (("metol", str(len(measured) - fails), *[""] * 5, str(fails)),)
    return (TextTable("How many times faster Metol's schedules of random programs run", headers, lines, summary),)


def _line(peer: str, rows: Sequence[RandomGain]) -> tuple[str, ...]:
    gains = sorted(gain for gain in (row.gain_over(peer) for row in rows) if gain is not None)
    fails = str(sum(dict(row.run_ms).get(peer) is None for row in rows))
    if not gains:
        return (peer, "0", *[NOTHING] * 5, fails)
    faster = f"{100 * sum(gain > 1 for gain in gains) / len(gains):.0f} %"
    spread = (f"{gain:.2f}×" for gain in (gains[0], gains[len(gains) // 2], gains[-1]))
    return (peer, str(len(gains)), f"{geometric_mean(gains):.2f}×", faster, *spread, fails)


def random_notes(rows: Sequence[RandomGain]) -> tuple[str, ...]:
    """Return what a reader of the table must know: what went wrong, by kind, and each schedule of Metol's that did."""
    kinds: Counter[str] = Counter()
    own: list[str] = []
    for row in rows:
        for note in row.notes if row.run_ms else ():
            name, _, reason = note.partition(": ")
            if name == _METOL:
                own.append(f"{row.app}, {note}")
            else:
                kinds[f"{name}: {reason.partition(':')[0]}"] += 1
    slowest = max((ms for row in rows for _, ms in row.run_ms if ms), default=0.0)
    told = [f"{kind}: {times} programs" for kind, times in sorted(kinds.items())]
    return (*own, *told, f"the slowest schedule takes {three_digits(slowest)} ms") if rows else ()
