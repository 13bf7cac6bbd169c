"""Measured schedules of random programs, as values and as lines of JSON.

A line is a program with all its schedules, written at once: whatever interrupts, a program is there as a whole or not
at all. Each schedule is kept as the decisions that lead to it, so that it can be featurized again when features change,
and has an id that is a hash of program, target and decisions, so that samples of different programs are never confused.
"""

import hashlib
import json
import lzma
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metol.candidates import Nest
from metol.destinations import write_bytes
from metol.errors import MetolError
from metol.measure import Status
from metol.row_file import RowFile
from metol.targets import Machine, load_machine
from metol.tune import fingerprint

__all__ = ["ProgramSamples", "Sample", "SampleFiles", "SampleFolders", "sample_id"]

_VERSION = 1
_ID_DIGITS = 20
_OPEN_FILE = "samples.jsonl"


@dataclass(frozen=True, slots=True)
class Sample:
    """One schedule of a program, and how it ran."""

    id: str
    """Equal for equal decisions about the same program on the same target."""
    origin: str
    """How its decisions were drawn; a key of `ORIGINS`."""
    nest: str
    """The decisions, as `Nest.to_json` writes them."""
    status: Status
    """What went wrong, or OK."""
    rounds_ms: tuple[float, ...] = ()
    """Medians of the rounds of samples, milliseconds of a run; empty for a failure."""
    compile_seconds: float | None = None
    """From building the pipeline to machine code."""
    detail: str = ""
    """Why it failed."""

    @property
    def run_ms(self) -> float | None:
        """Milliseconds of a run, by the quickest round, for what disturbs only ever adds; None for a failure."""
        return min(self.rounds_ms, default=None)

    def to_nest(self) -> Nest:
        """Return the decisions; raises MetolError where they are of a version that means something else."""
        return Nest.from_json(self.nest)


@dataclass(frozen=True, slots=True)
class ProgramSamples:
    """A program and its samples."""

    program: str
    """The `PipelineSource` as text, such as ``random:17/least_funcs=3/most_funcs=40``, or ``app:harris``."""
    algorithm: str
    """16 hexadecimal digits that name the algorithm: where another release makes another program of the same seed, its
    samples are of no use, and this tells."""
    machine: dict[str, Any]
    """The processor, its cores, Halide's name for it, and the GPU, where schedules ran on one."""
    target: str
    """The Halide target."""
    threads: int
    """Threads that the schedules ran with."""
    versions: dict[str, str]
    """Metol and Halide."""
    has_fixed_sizes: bool
    """Whether the code was made for the estimated size alone."""
    generation: int
    """Rounds of training before: 0 for schedules drawn by the analytical model."""
    samples: tuple[Sample, ...]
    """In the order in which they were drawn."""
    note: str = ""
    """Why there are none, where there are none."""

    @property
    def device(self) -> str:
        """The name of the GPU that the schedules ran on; empty for the processor."""
        return str(self.machine.get("gpu", ""))

    def to_row(self) -> dict[str, Any]:
        """Return it as it stands in a file."""
        return asdict(self)

    @staticmethod
    def from_row(row: dict[str, Any]) -> "ProgramSamples":
        """Read what `to_row` returned."""
        return ProgramSamples(**{**row, "samples": tuple(_sample(one) for one in row["samples"])})


def _sample(row: dict[str, Any]) -> Sample:
    """Read one of the samples; raises ValueError or TypeError where it is none."""
    sample = Sample(**{**row, "status": Status(row["status"]), "rounds_ms": tuple(row["rounds_ms"])})
    if not (isinstance(sample.nest, str) and all(0 < ms < math.inf for ms in sample.rounds_ms)):
        raise ValueError(f"{row} is no sample")
    return sample


class SampleFiles:
    """A folder of samples: one file that grows, any number of compressed ones, and the machines that they are of."""

    def __init__(self, folder: Path) -> None:
        """Name a folder, which need not exist."""
        self.folder = folder
        self._open = RowFile(folder / _OPEN_FILE, _VERSION, ProgramSamples.from_row, "samples")

    def append(self, program: ProgramSamples, machine: Machine) -> None:
        """Write a program and its samples, and once what the cost model knows of the machine."""
        file = self._machine_file(program)
        if not file.exists():
            machine.save(file)
        self._open.append(program)

    def machine_of(self, program: ProgramSamples) -> Machine:
        """Return the machine that a program ran on, as the cost model knew it then.

        Raises:
            MetolError: its file is missing, or is something else.
        """
        if not self.knows_machine(program):
            raise MetolError(f"`{self._machine_file(program)}` is missing, which describes the machine of the samples.")
        return load_machine(self._machine_file(program))

    def knows_machine(self, program: ProgramSamples) -> bool:
        """Tell whether the machine that a program ran on is described here."""
        return self._machine_file(program).exists()

    def _machine_file(self, program: ProgramSamples) -> Path:
        return self.folder / f"machine-{fingerprint(program.machine)}-{program.threads}.json"

    def load(self) -> tuple[ProgramSamples, ...]:
        """Read everything, in the order of the files' names.

        Raises:
            MetolError: a file holds something else, or there is nothing at all.
        """
        found = [*self._packed(), *self._open.load()]
        if not found:
            raise MetolError(f"There are no samples in `{self.folder}`; `metol train generate` makes some.")
        return tuple(found)

    def programs(self, device: str | None = None) -> frozenset[tuple[str, int]]:
        """Return which programs are there, and of which generation; none where the folder is empty.

        Args:
            device: The GPU that they ran on, empty for processors; whatever it was if None.
        """
        there = (*self._packed(), *self._open.load())
        return frozenset((one.program, one.generation) for one in there if device in (None, one.device))

    def pack(self, name: str) -> Path:
        """Compress the file that grows, and begin a new one.

        Raises:
            MetolError: it is empty, or there is one of this name.
        """
        packed = self.folder / f"{name}.jsonl.xz"
        if not self._open.load() or packed.exists():
            raise MetolError(f"Nothing is packed: `{self._open.path}` is empty, or there is a `{packed}`.")
        content = self._open.path.read_bytes()
        write_bytes(packed, lzma.compress(content[: content.rfind(b"\n") + 1], preset=9))
        self._open.path.unlink()
        return packed

    def _packed(self) -> Iterator[ProgramSamples]:
        for file in sorted(self.folder.glob("*.jsonl.xz")):
            try:
                content = lzma.decompress(file.read_bytes())
            except (lzma.LZMAError, EOFError) as error:
                raise MetolError(f"`{file}` is not a file of samples: {error}.") from error
            yield from self._open.read(content, file)


class SampleFolders:
    """Several folders of samples, to read as one."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Name the folders."""
        self._files = [SampleFiles(folder) for folder in folders]

    def load(self) -> tuple[ProgramSamples, ...]:
        """Read everything, in the order of the folders; errors as `SampleFiles.load`."""
        return tuple(program for files in self._files for program in files.load())

    def machine_of(self, program: ProgramSamples) -> Machine:
        """Return the machine that a program ran on; errors as `SampleFiles.machine_of`."""
        known = (files for files in self._files if files.knows_machine(program))
        return next(known, self._files[0]).machine_of(program)


def sample_id(algorithm: str, target: str, nest: str) -> str:
    """Return the id of a sample."""
    text = json.dumps([algorithm, target, nest])
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
