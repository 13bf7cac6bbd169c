"""The typed calls of Halide's scheduling language: one `Directive` is one call on one Stage of one Func.

`SIGNATURES` is the only table of calls: validating, applying and writing Python or C++ are all driven by the kinds of
argument that it lists. Loops and Funcs are named as they were when the schedule was made; `FuncRef` says which
position each name stands for.
"""

import enum
import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "MEMORY_TYPES",
    "SIGNATURES",
    "Argument",
    "Call",
    "Directive",
    "Kind",
    "Loop",
    "RVar",
    "Signature",
    "Site",
    "Tail",
    "Var",
    "arguments",
]


@dataclass(frozen=True, slots=True)
class Var:
    """A pure loop of a Stage."""

    name: str
    """A Var of the Func as recorded ("x"), or one that a split, fuse or rfactor made ("x_o")."""


@dataclass(frozen=True, slots=True)
class RVar:
    """A reduction loop of a Stage."""

    name: str
    """An RVar of the update as recorded ("r$x"), or one that a split or fuse made."""


Loop: TypeAlias = Var | RVar


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the loop nest of a consumer, where another Func can be computed or stored."""

    func: int
    """The Func that owns the loop, by position."""
    stage: int
    """The Stage whose loop names `loop` is one of. Halide computes at the loops of that name in every Stage that reads
    the producer: it refuses a place in one Stage where several Stages, or several specializations, read it."""
    loop: Loop | None
    """The loop, or None for the root."""


class Tail(str, enum.Enum):
    """What happens where a split does not divide the extent. Halide's `Auto` and the blends are left out: unsafe."""

    GUARD_WITH_IF = "GuardWithIf"
    PREDICATE = "Predicate"
    PREDICATE_LOADS = "PredicateLoads"
    PREDICATE_STORES = "PredicateStores"
    ROUND_UP = "RoundUp"
    SHIFT_INWARDS = "ShiftInwards"


MEMORY_TYPES = ("Heap", "Stack", "Register", "GPUShared")
"""What `store_in` takes, as Halide names them."""


class Call(str, enum.Enum):
    """A method of Halide's `Func` or `Stage`, or of a dimension of an output's buffer, by its name there."""

    SPLIT = "split"
    FUSE = "fuse"
    RENAME = "rename"
    REORDER = "reorder"
    REORDER_STORAGE = "reorder_storage"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    PARALLEL = "parallel"
    NEVER_PARTITION = "never_partition"
    COMPUTE_ROOT = "compute_root"
    COMPUTE_AT = "compute_at"
    COMPUTE_WITH = "compute_with"
    STORE_ROOT = "store_root"
    STORE_AT = "store_at"
    HOIST_STORAGE = "hoist_storage"
    STORE_IN = "store_in"
    ALIGN_STORAGE = "align_storage"
    BOUND_STORAGE = "bound_storage"
    SPECIALIZE = "specialize"
    SPECIALIZE_SIZE = "specialize size"
    PREFETCH = "prefetch"
    SET_BOUNDS = "set_bounds"
    SET_ESTIMATE = "set_estimate"
    RFACTOR = "rfactor"
    IN = "in"
    ATOMIC = "atomic"
    UNSCHEDULED = "unscheduled"
    GPU_BLOCKS = "gpu_blocks"
    GPU_THREADS = "gpu_threads"
    GPU_SINGLE_THREAD = "gpu_single_thread"

    @property
    def method(self) -> str:
        """The name in Halide, where two calls are one method with conditions of two kinds."""
        return "specialize" if self is Call.SPECIALIZE_SIZE else self.value

    @property
    def python_method(self) -> str:
        """The same in Python, where `in` is a keyword."""
        return f"{self.method}_" if keyword.iskeyword(self.method) else self.method

    @property
    def makes_func(self) -> bool:
        """Whether the call makes a Func, which later directives schedule."""
        return self in (Call.RFACTOR, Call.IN)

    @property
    def fixes_size(self) -> bool:
        """Whether the call says that the code is for outputs of one size, to Halide or to the reader alone."""
        return self in (Call.SET_BOUNDS, Call.SET_ESTIMATE)

    @property
    def makes_branch(self) -> bool:
        """Whether the call makes a version of the Stage, with directives of its own."""
        return self in (Call.SPECIALIZE, Call.SPECIALIZE_SIZE)


class Kind(enum.Enum):
    """What an argument of a Call means."""

    LOOP = enum.auto()  # a loop that the Stage has
    LISTED_LOOP = enum.auto()  # a loop that the Stage has; several are one list
    NEW_LOOP = enum.auto()  # a loop that the call makes
    DIMENSION = enum.auto()  # a Var of the Func, for its storage
    SITE = enum.auto()  # a loop of a consumer, or root
    STAGE_LOOP = enum.auto()  # a loop of one Stage of another Func
    FUNC = enum.auto()  # a Func, by position
    NEW_FUNC = enum.auto()  # the number of the Func that the call makes; not an argument of Halide's
    FACTOR = enum.auto()  # a positive integer
    INTEGER = enum.auto()  # any integer
    BUFFER_DIMENSION = enum.auto()  # a dimension of an output's buffer; not an argument: the call is made on it
    TAIL = enum.auto()  # a Tail
    MEMORY = enum.auto()  # one of MEMORY_TYPES
    MINIMUM_EXTENT = enum.auto()  # two integers: dimension d of the output is at least n long; several are and-ed
    EXACT_SIDE = enum.auto()  # three: dimension d of the output starts at m and is n long; several are and-ed
    PRESERVED = enum.auto()  # two loops: the RVar that rfactor keeps, and the new Var that walks it

    @property
    def width(self) -> int:
        """How many values of `Directive.args` one argument of this kind takes."""
        return {Kind.MINIMUM_EXTENT: 2, Kind.PRESERVED: 2, Kind.EXACT_SIDE: 3}.get(self, 1)


class Owner(enum.Enum):
    """What a Call acts on."""

    FUNC = enum.auto()  # the whole Func: stage 0, no branch
    STAGE = enum.auto()  # any Stage, any branch
    UPDATE = enum.auto()  # an update, any branch


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a Call: `required`, then all or none of `optional`, then `repeated` so many times."""

    owner: Owner
    required: tuple[Kind, ...] = ()
    optional: tuple[Kind, ...] = ()
    repeated: Kind | None = None
    at_least: int = 1
    """How often `repeated` occurs at least."""
    at_most: int = 1_000_000
    """How often `repeated` occurs at most."""

    def kinds(self, count: int) -> tuple[Kind, ...] | None:
        """Return the kinds of `count` values, or None where no call takes that many."""
        rest = count - sum(kind.width for kind in self.required)
        if self.repeated is not None:
            times, left = divmod(rest, self.repeated.width)
            fits = left == 0 and self.at_least <= times <= self.at_most
            return self.required + (self.repeated,) * times if fits else None
        if rest == 0:
            return self.required
        return self.required + self.optional if rest == len(self.optional) else None


SIGNATURES: dict[Call, Signature] = {
    Call.SPLIT: Signature(Owner.STAGE, (Kind.LOOP, Kind.NEW_LOOP, Kind.NEW_LOOP, Kind.FACTOR, Kind.TAIL)),
    Call.FUSE: Signature(Owner.STAGE, (Kind.LOOP, Kind.LOOP, Kind.NEW_LOOP)),
    Call.RENAME: Signature(Owner.STAGE, (Kind.LOOP, Kind.NEW_LOOP)),
    Call.REORDER: Signature(Owner.STAGE, repeated=Kind.LOOP, at_least=2),
    Call.REORDER_STORAGE: Signature(Owner.FUNC, repeated=Kind.DIMENSION, at_least=2),
    Call.VECTORIZE: Signature(Owner.STAGE, (Kind.LOOP,), (Kind.FACTOR, Kind.TAIL)),
    Call.UNROLL: Signature(Owner.STAGE, (Kind.LOOP,), (Kind.FACTOR, Kind.TAIL)),
    Call.PARALLEL: Signature(Owner.STAGE, (Kind.LOOP,)),
    Call.NEVER_PARTITION: Signature(Owner.STAGE, repeated=Kind.LISTED_LOOP),
    Call.COMPUTE_ROOT: Signature(Owner.FUNC),
    Call.COMPUTE_AT: Signature(Owner.FUNC, (Kind.SITE,)),
    Call.COMPUTE_WITH: Signature(Owner.STAGE, (Kind.STAGE_LOOP,)),
    Call.STORE_ROOT: Signature(Owner.FUNC),
    Call.STORE_AT: Signature(Owner.FUNC, (Kind.SITE,)),
    Call.HOIST_STORAGE: Signature(Owner.FUNC, (Kind.SITE,)),
    Call.STORE_IN: Signature(Owner.FUNC, (Kind.MEMORY,)),
    Call.ALIGN_STORAGE: Signature(Owner.FUNC, (Kind.DIMENSION, Kind.FACTOR)),
    Call.BOUND_STORAGE: Signature(Owner.FUNC, (Kind.DIMENSION, Kind.FACTOR)),
    Call.SPECIALIZE: Signature(Owner.STAGE, repeated=Kind.MINIMUM_EXTENT),
    Call.SPECIALIZE_SIZE: Signature(Owner.STAGE, repeated=Kind.EXACT_SIDE),
    Call.PREFETCH: Signature(Owner.STAGE, (Kind.FUNC, Kind.LOOP, Kind.LOOP, Kind.FACTOR)),
    Call.SET_BOUNDS: Signature(Owner.FUNC, (Kind.BUFFER_DIMENSION, Kind.INTEGER, Kind.FACTOR)),
    Call.SET_ESTIMATE: Signature(Owner.FUNC, (Kind.DIMENSION, Kind.INTEGER, Kind.FACTOR)),
    Call.RFACTOR: Signature(Owner.UPDATE, (Kind.NEW_FUNC,), repeated=Kind.PRESERVED, at_least=0),
    Call.IN: Signature(Owner.FUNC, (Kind.NEW_FUNC, Kind.FUNC)),
    Call.ATOMIC: Signature(Owner.UPDATE),
    Call.UNSCHEDULED: Signature(Owner.UPDATE),
    Call.GPU_BLOCKS: Signature(Owner.STAGE, repeated=Kind.LOOP, at_most=3),
    Call.GPU_THREADS: Signature(Owner.STAGE, repeated=Kind.LOOP, at_most=3),
    Call.GPU_SINGLE_THREAD: Signature(Owner.STAGE),
}

Argument: TypeAlias = Var | RVar | Site | Tail | int | str


@dataclass(frozen=True, slots=True)
class Directive:
    """One call of Halide's scheduling language."""

    func: int
    """Position of the Func in `Pipeline.get_func`; one made by `rfactor` or `in` has the next free number."""
    stage: int
    """0 is the pure definition, i the update i-1."""
    call: Call
    """What is called."""
    args: tuple[Argument, ...] = ()
    """What it is called with; see SIGNATURES."""
    branch: tuple[int, ...] = ()
    """Which specialization this applies to: () is the Stage itself, (k,) its k-th `specialize` (from 0), (k, j) the
    j-th of that."""

    def __str__(self) -> str:
        branch = "".join(f" branch {number}" for number in self.branch)
        values = ", ".join(_show(value) for value in self.args)
        return f"Func {self.func} stage {self.stage}{branch}: {self.call.value}({values})"


def _show(value: Argument) -> str:
    """Return an argument as a person would write it in a message."""
    if isinstance(value, Var | RVar):
        return value.name
    if isinstance(value, Tail):
        return value.value
    if isinstance(value, Site):
        return "root" if value.loop is None else f"Func {value.func} stage {value.stage} {value.loop.name}"
    return str(value)


def arguments(directive: Directive) -> Iterator[tuple[Kind, tuple[Argument, ...]]]:
    """Yield each argument of a valid directive as its kind and the one to three values that it takes."""
    kinds = SIGNATURES[directive.call].kinds(len(directive.args))
    assert kinds is not None, directive
    position = 0
    for kind in kinds:
        yield kind, directive.args[position : position + kind.width]
        position += kind.width
