"""Verify schedules of random programs: each is scheduled, compiled and run in child processes, and compared.

In: how many programs, from which seed, for which device, and which schedules: those that a short search finds, random
legal ones, or random ones of a space with some switches turned. Out: a `Measurement` each, appended to a file as soon
as it is known, so that an interrupted run goes on where it ended.
"""

import contextlib
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metol.bench_device import BenchDevice
from metol.errors import MetolError
from metol.measure import LocalRunner, Measurement, PipelineSource, RunOptions, Scheduler, Status
from metol.row_file import RowFile
from metol.switches import Switch, switches

__all__ = ["RECORD_VERSION", "SCHEDULES", "RandomRun", "RecordFile", "summary"]

RECORD_VERSION = 1
"""Version of the lines that `RecordFile` writes."""

SCHEDULES = ("searched", "random", "switched")
"""What can be verified: the result of a search, any legal loop nest, or any of another space: options that are off by
default, and the lack of those that are on, are drawn for each."""

# Enough for a search to make choices worth verifying, and short, for programs are many.
_SEARCH_SECONDS = 3.0
_BEAM_WIDTH = 4
_PASSES = 2
# A random schedule is not improved, so that all of the space is seen. Refining is the one switch that stays.
_RANDOM = (("strategy", "random"), ("refine", False))
# How often a switch is turned: what is off by default is seen seldom enough, what is on is most of the space.
_OFF_CHANCE = 0.5
_ON_CHANCE = 0.15


@dataclass(frozen=True, slots=True)
class RandomRun:
    """What to verify."""

    count: int
    """Number of programs."""
    seed: int = 0
    """Seed of the first program; the others follow."""
    schedules: tuple[str, ...] = ("searched",)
    """Some of SCHEDULES."""
    samples: int = 1
    """Random schedules of each kind of each program."""
    most_funcs: int = 30
    """Where programs stop growing."""
    device: BenchDevice | None = None
    """The GPU that schedules are for; None for the CPU. One that is not here is emulated."""

    def __post_init__(self) -> None:
        """Raise MetolError on a number or a word that makes no sense."""
        if self.count < 1 or self.samples < 1:
            raise MetolError(
                f"Verifying needs at least 1 program and 1 sample, not {self.count} of the one and {self.samples} of "
                "the other."
            )
        for word in self.schedules:
            if word not in SCHEDULES:
                raise MetolError(f"There are no `{word}` schedules; there are {', '.join(SCHEDULES)}.")

    def tasks(self) -> Iterator[tuple[PipelineSource, tuple[Scheduler, ...]]]:
        """Yield each program and its schedulers."""
        for seed in range(self.seed, self.seed + self.count):
            made = self._schedulers(seed)
            told = made if self.device is None else map(self.device.tell, made)
            yield PipelineSource.parse(f"random:{seed}/most_funcs={self.most_funcs}"), tuple(told)

    @property
    def row_count(self) -> int:
        """How many rows there will be."""
        return self.count * sum(1 if kind == "searched" else self.samples for kind in self.schedules)

    def known(self, rows: Iterable[Measurement]) -> Iterator[Measurement]:
        """Yield those rows of an earlier run that belong to this one."""
        wanted = {(source.label, str(scheduler)) for source, schedulers in self.tasks() for scheduler in schedulers}
        return (row for row in rows if (row.app, row.scheduler) in wanted)

    def reproduction(self, row: Measurement) -> str:
        """Return the command that verifies the program of a row again, with the same schedule."""
        if self.device is None:
            return f"metol bench {row.app} --schedulers {row.scheduler} --rounds 1"
        seed = row.app.removeprefix("random:").partition("/")[0]
        name = f" --device {self.device.name}" if self.device.name else ""
        drawn = _kind(row)
        kind = "" if drawn == "searched" else f" --schedules {drawn} --samples {self.samples}"
        return f"metol verify-random --gpu{name} --count 1 --seed {seed} --most-funcs {self.most_funcs}{kind}"

    def _schedulers(self, seed: int) -> Iterator[Scheduler]:
        if "searched" in self.schedules:
            options = (("beam_width", _BEAM_WIDTH), ("passes", _PASSES), ("budget_seconds", _SEARCH_SECONDS))
            yield Scheduler("metol", options)
        # Not the same choices in every program.
        seeds = range(1000 * seed, 1000 * seed + self.samples)
        if "random" in self.schedules:
            yield from (Scheduler("metol", (*_RANDOM, ("seed", each))) for each in seeds)
        if "switched" in self.schedules:
            yield from (Scheduler("metol", (*_RANDOM, ("seed", each), *_turned(each))) for each in seeds)

    @property
    def _where(self) -> dict[str, Any]:
        """What `RunOptions` are told of the device."""
        if self.device is None:
            return {}
        # Programs compute doubles, which OpenCL need not have.
        target = f"{self.device.target}-cl_doubles" if self.device.is_opencl else self.device.target
        return {"target": target, "is_emulated": not self.device.is_here}

    def verify(
        self,
        options: RunOptions,
        *,
        jobs: int = 1,
        known: Iterable[Measurement] = (),
        save: Callable[[Measurement], None] = lambda _: None,
    ) -> Iterator[Measurement]:
        """Verify everything that is not known yet, and yield each row when it is there.

        Args:
            options: how to run, but for the target; nothing is timed.
            jobs: programs at a time.
            known: rows of an earlier run.
            save: called with each new row, in this thread.
        """
        done = {(row.app, row.scheduler) for row in known}
        options = replace(options, **self._where)
        with contextlib.ExitStack() as stack:
            pool = ThreadPoolExecutor(jobs)
            # After an interruption only what is under way is waited for.
            stack.callback(pool.shutdown, cancel_futures=True)
            futures = []
            for source, schedulers in self.tasks():
                missing = [s for s in schedulers if (source.label, str(s)) not in done]
                if missing:
                    futures.append(pool.submit(_verify, source, missing, options))
            for future in as_completed(futures):
                for row in future.result():
                    save(row)
                    yield row


@dataclass(frozen=True, slots=True)
class _Record:
    """A line of a `RecordFile`."""

    row: Measurement
    device: str = ""
    """Where it ran; empty for the CPU."""

    def to_row(self) -> dict[str, Any]:
        return self.row.to_row() | ({"device": self.device} if self.device else {})

    @staticmethod
    def from_row(row: dict[str, Any]) -> "_Record":
        device = row.pop("device", "")
        return _Record(Measurement.from_row(row), device)


class RecordFile:
    """The rows of random programs on one device; a file may hold those of several."""

    def __init__(self, path: Path, device: BenchDevice | None = None) -> None:
        """Name a file, which need not exist; no device is the CPU."""
        self.path = path
        self._device = "" if device is None else device.name or device.machine.name
        self._lines = RowFile(path, RECORD_VERSION, _Record.from_row, "verified programs")

    def load(self) -> tuple[Measurement, ...]:
        """Read the rows of this device; errors as `RowFile.load`."""
        return tuple(line.row for line in self._lines.load() if line.device == self._device)

    def append(self, row: Measurement) -> None:
        """Write a row at the end."""
        self._lines.append(_Record(row, self._device))


def summary(rows: Sequence[Measurement]) -> Any:
    """Return a table for a terminal: how many schedules of each kind were verified, and what became of the others."""
    from rich.table import Table

    table = Table("schedules", "programs", "verified", *(s.value for s in Status if s is not Status.OK), box=None)
    table.add_column("schedule s")
    table.add_column("compile s")
    for kind in SCHEDULES:
        chosen = [row for row in rows if _kind(row) == kind]
        if not chosen:
            continue
        counts = [str(sum(row.status is status for row in chosen)) for status in Status if status is not Status.OK]
        seconds = (_median([r.schedule_seconds for r in chosen]), _median([r.compile_seconds for r in chosen]))
        programs = len({row.app for row in chosen})
        table.add_row(kind, str(programs), f"{sum(r.verified for r in chosen)} of {len(chosen)}", *counts, *seconds)
    return table


def _free_switches() -> list[Switch]:
    """Those that a random schedule may have either way."""
    return [switch for switch in switches() if switch.name not in dict(_RANDOM)]


def _turned(seed: int) -> Iterator[tuple[str, bool]]:
    """Draw switches to turn; there is always one."""
    drawn, free = random.Random(seed), _free_switches()
    turned = [switch for switch in free if drawn.random() < (_ON_CHANCE if switch.is_on else _OFF_CHANCE)]
    return ((switch.name, not switch.is_on) for switch in turned or drawn.sample(free, 1))


def _kind(row: Measurement) -> str:
    """Which of SCHEDULES a row is about."""
    options = dict(Scheduler.parse(row.scheduler).options)
    if options.get("strategy") != "random":
        return "searched"
    return "switched" if options.keys() & {switch.name for switch in _free_switches()} else "random"


def _verify(source: PipelineSource, schedulers: Sequence[Scheduler], options: RunOptions) -> tuple[Measurement, ...]:
    return LocalRunner(options).run(source, schedulers)


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f}" if known else "–"
