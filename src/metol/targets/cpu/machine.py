"""The description of a CPU that the search and the cost model work from.

Sizes come from the operating system, rates from `metol calibrate` or from built-in defaults. A description is saved as
versioned JSON under its fingerprint, so that a calibration is found again on the machine it was made on.
"""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import halide as hl
import platformdirs

from metol.destinations import write_text
from metol.errors import MachineFormatError, UnsupportedTargetError
from metol.targets.cpu.host import available_cpus, cpu_name, detect_caches, page_fault_seconds_per_byte
from metol.targets.cpu.rates import (
    CoreClass,
    MemoryRates,
    OperationRates,
    OverheadRates,
    default_clock_hz,
    default_rates,
)

__all__ = ["VERSION", "CpuMachine", "MachineRow", "default_cache_directory", "vector_isa"]

VERSION: Final = 2
_FORMAT: Final = "metol-cpu-machine"
_VECTOR_BYTES: Final = (16, 32, 64)
# What a Halide target says about vectors starts with one of these; the rest of it does not change how fast code is.
_VECTOR_FEATURES: Final = ("sse", "avx", "fma", "f16c", "sve", "arm_dot", "arm_fp16", "vsx", "rvv", "wasm_simd")
# Of these, those of processors that multiply and add bytes, four at once.
_BYTE_DOT_FEATURES: Final = frozenset({"avxvnni", "avx512_zen4", "avx512_zen5", "avx512_sapphirerapids"})
_Rates = TypeVar("_Rates", OperationRates, MemoryRates, OverheadRates)


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One line of the table that describes a machine to a person."""

    name: str
    """The field."""
    value: str | int | float
    """Its value."""
    unit: str
    """Its unit, or an empty string."""
    meaning: str
    """What it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMachine:
    """A CPU, as code that Halide generates for one target sees it."""

    name: str
    """Model of the CPU."""
    vector_isa: str
    """Architecture and vector features, itself a Halide target such as ``x86-64-linux-avx-avx2-fma``."""
    integer_vector_bytes: int
    """Bytes of a native vector of integers: 16, 32 or 64."""
    float_vector_bytes: int
    """Bytes of a native vector of floats; only plain AVX differs from integers."""
    cores: int
    """Threads used."""
    l1_bytes: int
    """L1 data cache of one core."""
    l2_bytes: int
    """L2 cache of one core."""
    l3_bytes: int
    """L3 cache of the cores in use together."""
    cache_line_bytes: int
    """One cache line."""
    clock_hz: float
    """Clock while vector code runs."""
    halide_version: str
    """Halide that generated the measured code."""
    operations: OperationRates
    """What arithmetic costs."""
    memory: MemoryRates
    """What data movement costs."""
    overheads: OverheadRates
    """What allocations, loops and tasks cost."""
    is_calibrated: bool = False
    """Whether the rates were measured here, and are not built-in defaults."""
    notes: tuple[str, ...] = ()
    """What a person should know: implausible measurements that were clamped, a calibration that could not be read."""

    def __post_init__(self) -> None:
        for name in ("integer_vector_bytes", "float_vector_bytes"):
            if getattr(self, name) not in _VECTOR_BYTES:
                raise MachineFormatError(f"`{name}` must be 16, 32 or 64, not {getattr(self, name)}.")
        for name in ("cores", "l1_bytes", "l2_bytes", "l3_bytes", "cache_line_bytes", "clock_hz"):
            _require_positive(name, getattr(self, name))
        for group in (self.operations, self.memory, self.overheads):
            for item in fields(group):
                _require_positive(item.name, getattr(group, item.name))

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest native vector."""
        return max(self.integer_vector_bytes, self.float_vector_bytes)

    @property
    def host_threads(self) -> int:
        """Threads of the CPU that searches: those that it schedules for."""
        return self.cores

    @property
    def fingerprint(self) -> str:
        """16 hex digits over what the rates depend on: model, cores, caches, vectors and the version of Halide."""
        key = (
            self.name, self.vector_isa, self.integer_vector_bytes, self.float_vector_bytes, self.cores, self.l1_bytes,
            self.l2_bytes, self.l3_bytes, self.cache_line_bytes, self.halide_version,
        )  # fmt: skip
        import hashlib

        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]

    def natural_vector_lanes(self, bits: int, *, is_float: bool = False) -> int:
        """Return the lanes of a native vector of a type, at least one."""
        total_bytes = self.float_vector_bytes if is_float else self.integer_vector_bytes
        return max(total_bytes * 8 // bits, 1)

    def dot_steps(self, factor_bytes: int) -> int:
        """Return how many products of a sum an instruction multiplies and adds for each lane of 32 bits.

        Args:
            factor_bytes: Bytes of the factors; those of bytes are one signed, and one not.
        """
        arch, *features = self.vector_isa.split("-")
        if factor_bytes not in (1, 2) or arch != "x86":
            return 1
        return 4 if factor_bytes == 1 and _BYTE_DOT_FEATURES.intersection(features) else 2

    def misfit(self, target: hl.Target) -> str:
        """Tell why code for a target cannot be scheduled by this description; "" where it can.

        Narrower vectors than the target's are in its code, too; wider ones are not, and the rates are theirs.
        """
        here, there = (str(text).split("-")[:2] for text in (self.vector_isa, target))
        if here != there:
            return f"it is of {'-'.join(here)}"
        vectors = zip(_native_vector_bytes(target), (self.integer_vector_bytes, self.float_vector_bytes), strict=True)
        for kind, (native, described) in zip(("integers", "floats"), vectors, strict=True):
            if described > native:
                return f"its vectors of {kind} have {described} bytes, and those of the target {native}"
        return ""

    @classmethod
    def default(cls, target: str = "host", *, threads: int | None = None) -> "CpuMachine":
        """Describe this machine by its detected sizes and the default rates of its class.

        Args:
            target: A Halide target string, or ``host``.
            threads: Threads used; all that this process may run on if None.

        Raises:
            UnsupportedTargetError: Halide does not know the target.
        """
        from importlib import metadata

        parsed = _parse_target(target)
        integers, floats = _native_vector_bytes(parsed)
        cpus = available_cpus()[:threads]
        caches = detect_caches(cpus)
        cores = threads or len(cpus)
        core = _core_class(parsed, max(integers, floats))
        operations, memory, overheads = default_rates(core, cores)
        return cls(
            name=cpu_name(), vector_isa=vector_isa(parsed), integer_vector_bytes=integers, float_vector_bytes=floats,
            cores=cores, l1_bytes=caches.l1_bytes, l2_bytes=caches.l2_bytes, l3_bytes=caches.l3_bytes,
            cache_line_bytes=caches.line_bytes, clock_hz=default_clock_hz(core),
            halide_version=metadata.version("halide"), operations=operations, memory=memory, overheads=overheads,
        )  # fmt: skip

    @classmethod
    def detect(
        cls, target: str = "host", *, threads: int | None = None, cache_directory: Path | None = None
    ) -> "CpuMachine":
        """Return the saved calibration of this machine; where there is none, what `default` returns, but for new pages.

        What these cost is measured, in some milliseconds, for it differs more between machines than anything else.

        Args:
            target: A Halide target string, or ``host``.
            threads: Threads used; all that this process may run on if None.
            cache_directory: Where calibrations are kept; `default_cache_directory()` if None.

        Raises:
            UnsupportedTargetError: Halide does not know the target.
        """
        machine = cls.default(target, threads=threads)
        path = machine.cache_path(cache_directory)
        if path.is_file():
            try:
                return cls.load(path)
            except (MachineFormatError, OSError) as error:
                note = f"The saved calibration is not used. {error} Run `metol calibrate` again."
                machine = replace(machine, notes=(note,))
        return machine.with_pages(page_fault_seconds_per_byte())

    def with_pages(self, page_fault_seconds_per_byte: float) -> "CpuMachine":
        """Return the same machine with another price of new pages.

        Args:
            page_fault_seconds_per_byte: As in `MemoryRates`, of one thread; that of all threads goes along.
        """
        memory = self.memory
        more = page_fault_seconds_per_byte / memory.page_fault_seconds_per_byte
        all_threads = more * memory.page_fault_seconds_per_byte_all_threads
        return replace(
            self,
            memory=replace(
                memory,
                page_fault_seconds_per_byte=page_fault_seconds_per_byte,
                page_fault_seconds_per_byte_all_threads=all_threads,
            ),
        )

    def cache_path(self, cache_directory: Path | None = None) -> Path:
        """Return where the calibration of this machine is kept."""
        return (cache_directory or default_cache_directory()) / f"cpu-{self.fingerprint}.json"

    def rows(self) -> tuple[MachineRow, ...]:
        """Return the description as a table: identity, sizes, then every rate with its unit and meaning."""
        identity = (
            MachineRow("name", self.name, "", "model of the CPU"),
            MachineRow("vector_isa", self.vector_isa, "", "architecture and vector features"),
            MachineRow("vector_bytes", self.vector_bytes, "B", "native vector"),
            MachineRow("cores", self.cores, "", "threads used"),
            MachineRow("l1_bytes", self.l1_bytes, "B", "L1 data cache of one core"),
            MachineRow("l2_bytes", self.l2_bytes, "B", "L2 cache of one core"),
            MachineRow("l3_bytes", self.l3_bytes, "B", "L3 cache of the cores in use"),
            MachineRow("clock_hz", self.clock_hz, "Hz", "effective clock"),
        )
        rates = tuple(
            MachineRow(item.name, getattr(group, item.name), item.metadata["unit"], item.metadata["meaning"])
            for group in (self.operations, self.memory, self.overheads)
            for item in fields(group)
        )
        return identity + rates

    def to_json(self) -> str:
        """Return the description as versioned JSON."""
        return json.dumps({"format": _FORMAT, "version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "CpuMachine":
        """Read a description.

        Raises:
            MachineFormatError: The text is not JSON, not a machine, of another version, or has a bad value.
        """
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise MachineFormatError(f"A machine file must be JSON: {error}.") from error
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise MachineFormatError(f"A machine file must say `format: {_FORMAT}`.")
        version = content.pop("version", None)
        if version != VERSION:
            raise MachineFormatError(f"A machine file must be of version {VERSION}, not {version}.")
        _require_fields(cls, content)
        values: dict[str, Any] = {
            **content,
            "operations": _rates_from(OperationRates, content["operations"]),
            "memory": _rates_from(MemoryRates, content["memory"]),
            "overheads": _rates_from(OverheadRates, content["overheads"]),
            "notes": tuple(content["notes"]),
        }
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write the description to a file, whole or not at all."""
        write_text(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "CpuMachine":
        """Read a description from a file.

        Raises:
            MachineFormatError: As `from_json`; the message names the file.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except MachineFormatError as error:
            raise MachineFormatError(f"{path}: {error}") from error


def default_cache_directory() -> Path:
    """Return the folder of the user that calibrations are kept in."""
    return Path(platformdirs.user_cache_dir("metol")) / "machines"


def vector_isa(target: Any) -> str:
    """Return the architecture and the vector features of a Halide target, itself a target string."""
    parts = str(target).split("-")  # architecture, bits, operating system, features
    return "-".join((*parts[:3], *sorted(part for part in parts[3:] if part.startswith(_VECTOR_FEATURES))))


def _parse_target(target: str) -> Any:
    if not hl.Target.validate_target_string(target):
        raise UnsupportedTargetError(
            f"Halide does not know the target `{target}`; give one such as `x86-64-linux-avx2`."
        )
    parsed = hl.Target(target)
    if parsed.arch not in (hl.TargetArch.X86, hl.TargetArch.ARM, hl.TargetArch.POWERPC, hl.TargetArch.RISCV):
        raise UnsupportedTargetError(
            f"The target `{target}` is no CPU that Metol knows; x86, arm, powerpc and riscv are."
        )
    return parsed


def _native_vector_bytes(target: Any) -> tuple[int, int]:
    """Return the bytes of a vector of integers and of one of floats."""
    integers, floats = (
        min(max(kind(32).bytes() * target.natural_vector_size(kind(32)), 16), 64) for kind in (hl.Int, hl.Float)
    )
    return integers, floats


def _core_class(target: Any, vector_bytes: int) -> CoreClass:
    """Return the class of core that a target is about, `vector_bytes` being its native vector."""
    if vector_bytes == 64:
        # Halide says of a Zen 5 that it has what a Zen 4 has.
        if target.has_feature(hl.TargetFeature.AVX512_Zen5):
            return CoreClass.AVX512_NEAR_CACHE
        is_zen4 = target.has_feature(hl.TargetFeature.AVX512_Zen4)
        return CoreClass.AVX512_IN_HALVES if is_zen4 else CoreClass.AVX512
    return CoreClass.AVX2 if vector_bytes == 32 else CoreClass.OTHER


def _require_positive(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise MachineFormatError(f"`{name}` must be a positive number, not {value!r}.")


def _require_fields(cls: type, content: object) -> None:
    if not isinstance(content, dict):
        raise MachineFormatError(f"`{cls.__name__}` must be an object, not {content!r}.")
    expected, given = {item.name for item in fields(cls)}, set(content)
    if expected != given:
        missing, unknown = sorted(expected - given), sorted(given - expected)
        raise MachineFormatError(f"`{cls.__name__}` lacks the fields {missing} and has unknown ones {unknown}.")


def _rates_from(cls: type[_Rates], content: Any) -> _Rates:
    _require_fields(cls, content)
    return cls(**content)
