"""What a parent asks a child process that runs pipelines, and what the child answers.

The order of a child's life: `Build`, `ApplyScheduler`, `Compile`, then `MakeCases` or any number of `MakeCase` (the
reference alone), or any number of `Recompute`, or of `Verify`, `GrowInputs`, `Bind` and `Time`; or `Build` and
`AskPeer`; or `Build` and any number of `Hold` and `TimeHeld`; or `InspectKernels`. Arrays never travel here; they lie
in the folders of cases.
"""

from dataclasses import dataclass, field
from typing import Any

from metol.measure.message import Done, Failure, Message

__all__ = [
    "Answer",
    "ApplyScheduler",
    "AskPeer",
    "Bind",
    "Build",
    "CasesMade",
    "Compile",
    "Done",
    "Failure",
    "GrowInputs",
    "Held",
    "Hold",
    "InspectKernels",
    "KernelsInspected",
    "MakeCase",
    "MakeCases",
    "PeerText",
    "Recompute",
    "Request",
    "Samples",
    "Search",
    "Searched",
    "Time",
    "TimeHeld",
    "Verdict",
    "Verify",
]


@dataclass(frozen=True, slots=True)
class Build(Message):
    """Build the pipeline."""

    source: str
    """A `PipelineSource` as text."""
    target: str
    """A Halide target, such as ``host``."""
    is_emulated: bool = False
    """Whether code for CUDA runs on the emulated GPU."""


@dataclass(frozen=True, slots=True)
class ApplyScheduler(Message):
    """Schedule the pipeline that was built, in place of whatever schedule it carries."""

    scheduler: str
    """A `Scheduler` as text."""
    threads: int
    """How many threads the schedule will have."""


@dataclass(frozen=True, slots=True)
class Search(Message):
    """Schedule the pipeline that was built, as `ApplyScheduler` does, and tell what the search did."""

    scheduler: str
    """A `Scheduler` as text."""
    threads: int
    """How many threads the schedule will have."""


@dataclass(frozen=True, slots=True)
class AskPeer(Message):
    """Let one of Halide's own autoschedulers schedule the pipeline that was built, and tell the schedule."""

    scheduler: str
    """A `Scheduler` as text; one of `PEERS`."""
    threads: int
    """How many threads the schedule will have."""


@dataclass(frozen=True, slots=True)
class Compile(Message):
    """Compile what was scheduled."""


@dataclass(frozen=True, slots=True)
class CompileObject(Message):
    """Compile what was scheduled to an object file, which may be for another machine."""

    file: str
    """Where it goes."""


@dataclass(frozen=True, slots=True)
class MakeCases(Message):
    """Make the cases, run them, and save them with the results; for the child that holds the reference schedule."""

    folder: str
    """An existing folder; each case becomes a folder in it."""
    seed: int
    """Seed of the random inputs."""
    given: str = ""
    """The folder of `GivenInputs`; empty where there are none."""


@dataclass(frozen=True, slots=True)
class MakeCase(Message):
    """Make the case of one size, run it, and save it with the results; for the child that holds the reference."""

    folder: str
    """The case's folder, which does not exist yet."""
    name: str
    """What size this is, for a person."""
    extents: list[list[int]]
    """Of each output buffer, x first."""
    seed: int
    """Seed of the random inputs."""


@dataclass(frozen=True, slots=True)
class Recompute(Message):
    """Copy a case, with what this code computes as what is expected."""

    case: str
    """The case's folder."""
    folder: str
    """The folder of the copy, which does not exist yet."""
    nudge_seed: int = 0
    """Floats among the inputs are moved by a few units in the last place, at random by this seed; 0 for not at all."""
    needs_floats: bool = True
    """Whether there is to be none where the pipeline computes without floats."""


@dataclass(frozen=True, slots=True)
class GrowInputs(Message):
    """Copy a case, with inputs as large as this code demands where that is more than the algorithm needs."""

    case: str
    """The case's folder."""
    folder: str
    """The folder of the copy, which does not exist yet."""


@dataclass(frozen=True, slots=True)
class Verify(Message):
    """Run once on a case and compare with what is expected; compare what ran last with something else."""

    case: str
    """The case's folder."""
    exact: str = ""
    """The folder of a copy, whose results are expected instead; empty for none."""
    witnesses: list[str] = field(default_factory=list)
    """Those of copies with results that few elements may be instead."""


@dataclass(frozen=True, slots=True)
class Bind(Message):
    """Get ready to be timed on a case; on a GPU that is to compile once more, and to move the inputs there."""

    case: str
    """The case's folder."""


@dataclass(frozen=True, slots=True)
class Time(Message):
    """Take one round of samples on a case."""

    case: str
    """The case's folder."""
    seconds: float
    """How long the round lasts; it takes at least one sample."""
    is_cold: bool = False
    """Whether caches are emptied before each run; each sample is one run then."""
    give_up_ms: float = 0.0
    """A first run that takes longer, and longer than the round, is the only sample; 0 for none that would."""


@dataclass(frozen=True, slots=True)
class Hold(Message):
    """Build the pipeline afresh, schedule and compile it, and run it once; hold it for `TimeHeld` if it is right."""

    schedule: str
    """The saved schedule, as JSON."""
    case: str
    """The case's folder, the same in every request."""


@dataclass(frozen=True, slots=True)
class TimeHeld(Message):
    """Take one round of samples of a schedule that is held."""

    number: int
    """Which, as `Held` told."""
    seconds: float
    """As `Time` has it."""
    give_up_ms: float = 0.0
    """As `Time` has it."""


@dataclass(frozen=True, slots=True)
class InspectKernels(Message):
    """Lower a schedule for CUDA, and assemble its kernels; the only request to a child."""

    source: str
    """A `PipelineSource` as text."""
    target: str
    """A Halide target."""
    schedule: str
    """The saved schedule, as JSON."""
    sizes: str
    """`BufferSizes` as JSON."""
    architectures: list[str]
    """What to assemble for."""
    ptxas: str
    """The assembler's file."""


@dataclass(frozen=True, slots=True)
class KernelsInspected(Message):
    """The answer to `InspectKernels`."""

    kernels: list[dict[str, Any]]
    """The fields of each `Kernel`."""


@dataclass(frozen=True, slots=True)
class Searched(Message):
    """The answer to `Search`."""

    seconds: float
    """How long it took, by the child's clock."""
    candidates: int
    """How many schedules the search costed; 0 where the scheduler does not say."""
    costing_seconds: float
    """How long the scheduler was costing them; 0 where it does not say."""
    peak_mib: float
    """The most memory that the process held meanwhile, what it had imported included."""


@dataclass(frozen=True, slots=True)
class PeerText(Message):
    """The answer to `AskPeer`."""

    cpp: str
    """The schedule, as the autoscheduler prints it in C++."""
    seconds: float
    """How long it took, by the child's clock."""


@dataclass(frozen=True, slots=True)
class CasesMade(Message):
    """The answer to `MakeCases`, `MakeCase`, `Recompute` and `GrowInputs`."""

    cases: list[str]
    """The folders, the estimated size first; none where the pipeline's constraints want another size than was asked
    for, or there are no floats to recompute or nudge; the folder of the case itself where there was nothing to grow."""
    note: str
    """Why there is no awkward size, or no case, where there is none; which inputs have grown."""


@dataclass(frozen=True, slots=True)
class Verdict(Message):
    """The answer to `Verify`."""

    is_equal: bool
    """Whether all outputs agree."""
    text: str
    """The size, and how closely the outputs agree or what differs."""
    is_few: bool = False
    """Whether so few elements differ that a witness may tell."""


@dataclass(frozen=True, slots=True)
class Held(Message):
    """The answer to `Hold`."""

    number: int
    """By which it is held; -1 where it is not."""
    compile_seconds: float
    """From building the pipeline to machine code."""
    first_ms: float
    """How long the first run took."""
    problem: str
    """What is wrong with its results; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class Samples(Message):
    """The answer to `Time` and `TimeHeld`."""

    run_ms: list[float]
    """Milliseconds per run, one for each batch, or for each run with cold caches."""


Request = (
    Build
    | ApplyScheduler
    | Search
    | AskPeer
    | Compile
    | CompileObject
    | MakeCases
    | MakeCase
    | Recompute
    | GrowInputs
    | Verify
    | Bind
    | Time
    | Hold
    | TimeHeld
    | InspectKernels
)
Answer = Done | Searched | PeerText | CasesMade | Verdict | Held | Samples | KernelsInspected | Failure
