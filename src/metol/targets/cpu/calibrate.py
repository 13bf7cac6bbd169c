"""Measures the rates of this machine with small Halide kernels: a machine with default rates in, a calibrated one out.

All kernels are timed in turn, round after round, and the fastest sample of each counts: what other processes take away
comes and goes, what the machine can do does not. Rates that no CPU of the class has are clamped and noted.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, TypeVar

import halide as hl

from metol.errors import UnsupportedTargetError
from metol.targets.cpu import memory_kernels, operation_kernels
from metol.targets.cpu.machine import CpuMachine, vector_isa
from metol.targets.cpu.operation_kernels import CYCLES_PER_STEP, Probe
from metol.targets.cpu.rates import MemoryRates, OperationRates, OverheadRates

__all__ = ["Progress", "calibrate", "measure_moving", "measure_operations"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction that is done."""

_ROUNDS: Final = 10
_SAMPLES_PER_ROUND: Final = 3
# Long enough for the clock and the call from Python not to matter, short enough to fit between two interruptions.
_SAMPLE_SECONDS: Final = 5e-4
# Samples that take longer than this are slow: one a round has to do.
_SLOW_SECONDS: Final = 2e-3
# Share of the budget that may go into compiling the kernels; what is not compiled by then keeps its default.
_COMPILE_SHARE: Final = 0.6
# A measured rate farther from the default of its class than this factor is a disturbed measurement.
_PLAUSIBLE_OPERATION: Final = 6.0
_PLAUSIBLE_MEMORY: Final = 15.0
_PLAUSIBLE_OVERHEAD: Final = 50.0
# DRAM is measured on four times the L3, within these bounds and an eighth of the memory.
_DRAM_BYTES_MIN: Final = 64 << 20
_DRAM_BYTES_MAX: Final = 512 << 20
# Length of a task in steps: about 2 us where a launch is measured, about 0.3 us where tasks are; and tasks per thread.
# Runs of a tiled read are 8 vectors long, and its rows this many of them.
_TILE_COLUMNS: Final = 16
_LAUNCH_STEPS: Final = 1000
_TASK_STEPS: Final = 125
_TASKS_PER_THREAD: Final = 64
# All cores were ours when all threads together read this share of what they should from L2. Then a few more rounds
# follow, for the other probes to meet such a moment too; the wait is bounded, for threads that share a core never get
# there.
_QUIET_SHARE: Final = 0.8
_QUIET_ROUNDS: Final = 6
_QUIET_SECONDS: Final = 15.0
_ALL_THREADS: Final = "_all_threads"
_PARALLEL_PROBES: Final = ("launch", "tasks")
_SHORT_LOOP: Final = 4
_LONG_LOOP: Final = 64

_Rates = TypeVar("_Rates", OperationRates, MemoryRates, OverheadRates)


@dataclass(slots=True)
class _Timing:
    """The fastest sample of one probe so far."""

    probe: Probe
    repetitions: int
    best_seconds: float

    def sample(self) -> None:
        """Time the probe once more."""
        self.best_seconds = min(self.best_seconds, _time(self.probe, self.repetitions))

    @property
    def is_slow(self) -> bool:
        """Whether a sample takes so long that few must do."""
        return self.best_seconds > _SLOW_SECONDS

    @property
    def seconds_per_event(self) -> float:
        """The result."""
        return self.best_seconds / (self.repetitions * self.probe.events)


def calibrate(machine: CpuMachine, *, progress: Progress | None = None, budget_seconds: float = 45.0) -> CpuMachine:
    """Measure the rates of this machine.

    Args:
        machine: The machine, with the rates to fall back on: `CpuMachine.default(target)` for a target that runs here.
        progress: Called as the work goes on, if given.
        budget_seconds: When to stop, roughly; undisturbed, ten seconds are enough.

    Returns:
        The machine with measured rates; its notes tell what was clamped or left out. It counts as calibrated if nothing
        was left out for want of time.

    Raises:
        UnsupportedTargetError: The machine is of another architecture, or has vector features that are not here.
    """
    start = time.perf_counter()
    report = progress or (lambda text, fraction: None)
    jit = _jit_target(machine.vector_isa)
    builders = tuple(_builders(machine, jit))
    timings: dict[str, _Timing] = {}
    for i, (name, build) in enumerate(builders):
        if time.perf_counter() - start > budget_seconds * _COMPILE_SHARE:
            break
        report(f"compiling {name}", 0.5 * i / len(builders))
        timings[name] = _first_timing(build())
    for i in range(_ROUNDS):
        report(f"timing, round {i + 1} of {_ROUNDS}", 0.5 + 0.5 * i / _ROUNDS)
        _sample_round(timings.values(), start + budget_seconds)
    notes = [f"`{name}` was not measured within the budget." for name, _ in builders if name not in timings]
    if not _await_quiet_cores(timings, machine.cores, report, start + budget_seconds):
        notes.append("Other processes kept the cores busy: the rates of all threads are below what the machine can do.")
    report("done", 1.0)
    measured = _with_rates(machine, {name: timing.seconds_per_event for name, timing in timings.items()}, tuple(notes))
    return replace(measured, is_calibrated=len(timings) == len(builders))


def measure_operations(machine: CpuMachine) -> CpuMachine:
    """Measure the rates of operations alone, and return the machine with these; it does not count as calibrated.

    Args:
        machine: A machine whose code runs here.
    """
    builders = _operation_builders(machine, _jit_target(machine.vector_isa))
    timings = {name: _first_timing(build()) for name, build in builders}
    for _ in range(_ROUNDS):
        _sample_round(timings.values(), math.inf)
    return _with_rates(machine, {name: timing.seconds_per_event for name, timing in timings.items()}, ())


def measure_moving(machine: CpuMachine, read_bytes: int, written_bytes: int, *, threads: int) -> float:
    """Measure the least time in which so much is read, and so much written, from wherever it stays in between.

    Args:
        machine: A machine whose code runs here.
        read_bytes: Bytes read, each once.
        written_bytes: Bytes written, each once: as much as is read is a copy.
        threads: That share the work.

    Returns:
        Seconds, of the fastest of several rounds.
    """
    jit, wide = _jit_target(machine.vector_isa), machine.vector_bytes
    both = min(read_bytes, written_bytes)
    probes = [
        build(build.__name__, size, wide, jit, threads=threads)
        for build, size in (
            (memory_kernels.build_copy, both),
            (memory_kernels.build_read, read_bytes - both),
            (memory_kernels.build_write, written_bytes - both),
        )
        if size > 0
    ]
    timings = [_first_timing(probe) for probe in probes]
    for _ in range(_ROUNDS):
        _sample_round(timings, math.inf)
    return sum(timing.best_seconds / timing.repetitions for timing in timings)


def _sample_round(timings: Iterable[_Timing], deadline: float) -> None:
    for timing in timings:
        if time.perf_counter() > deadline:
            return
        for _ in range(1 if timing.is_slow else _SAMPLES_PER_ROUND):
            timing.sample()


def _await_quiet_cores(timings: Mapping[str, _Timing], cores: int, report: Progress, deadline: float) -> bool:
    """Time what uses all threads again until all cores were free once, for a while; say whether they were.

    Each core has an L2 of its own (or shares it with one more thread), so its bandwidth tells how many cores we had.
    """
    parallel = [timing for name, timing in timings.items() if name.endswith(_ALL_THREADS) or name in _PARALLEL_PROBES]
    one, every = timings.get("l2_read"), timings.get(f"l2_read{_ALL_THREADS}")
    if one is None or every is None:
        return True
    deadline = min(deadline, time.perf_counter() + _QUIET_SECONDS)
    quiet_rounds = 0
    while one.seconds_per_event < _QUIET_SHARE * cores * every.seconds_per_event or quiet_rounds < _QUIET_ROUNDS:
        if time.perf_counter() > deadline:
            break
        report("waiting for other processes to leave the cores", 0.99)
        _sample_round(parallel, deadline)
        quiet_rounds += one.seconds_per_event >= _QUIET_SHARE * cores * every.seconds_per_event
    return one.seconds_per_event >= _QUIET_SHARE * cores * every.seconds_per_event


def _jit_target(isa: str) -> Any:
    host = vector_isa(hl.get_host_target())
    absent = sorted(set(isa.split("-")) - set(host.split("-")))
    if absent:
        raise UnsupportedTargetError(f"`{isa}` does not run here, which lacks {absent}; calibrate on its own machine.")
    parsed = hl.Target(isa)
    features = (hl.TargetFeature.JIT, hl.TargetFeature.NoAsserts, hl.TargetFeature.NoBoundsQuery)
    for feature in features:
        parsed = parsed.with_feature(feature)
    return parsed


def _builders(machine: CpuMachine, target: Any) -> Iterator[tuple[str, Callable[[], Probe]]]:
    """Name every probe with what compiles it; the order is the one of importance should the budget run out."""
    wide = machine.vector_bytes
    yield from _operation_builders(machine, target)
    yield "l1_load", lambda: memory_kernels.build_read("l1_load", machine.l1_bytes // 2, wide, target)
    yield "l1_store", lambda: memory_kernels.build_write("l1_store", machine.l1_bytes // 2, wide, target)
    yield "l1_scalar_load", lambda: memory_kernels.build_scalar_load(wide, target)
    for suffix, threads in (("", 1), (_ALL_THREADS, machine.cores)):
        yield from _bandwidth_builders(machine, target, suffix, threads)
    yield "stack", lambda: memory_kernels.build_allocation("stack", target, on_heap=False)
    yield "heap", lambda: memory_kernels.build_allocation("heap", target, on_heap=True)
    large = memory_kernels.LARGE_ELEMENTS
    yield (
        "heap_large",
        lambda: memory_kernels.build_allocation("heap_large", target, on_heap=True, storage_elements=large),
    )
    many = machine.cores * _TASKS_PER_THREAD
    yield "launch", lambda: memory_kernels.build_parallel("launch", machine.cores, _LAUNCH_STEPS, target)
    yield "tasks", lambda: memory_kernels.build_parallel("tasks", many, _TASK_STEPS, target)
    yield "short_loop", lambda: memory_kernels.build_loop("short_loop", _SHORT_LOOP, target)
    yield "long_loop", lambda: memory_kernels.build_loop("long_loop", _LONG_LOOP, target)


def _operation_builders(machine: CpuMachine, target: Any) -> Iterator[tuple[str, Callable[[], Probe]]]:
    for step in operation_kernels.OPERATION_PROBES:
        lanes_bytes = machine.float_vector_bytes if step.types[0].startswith("float") else machine.integer_vector_bytes
        yield step.name, partial(operation_kernels.build_operation, step, lanes_bytes, target)
    yield "gather", lambda: operation_kernels.build_gather(machine.integer_vector_bytes, target)
    yield "scalar_op", lambda: operation_kernels.build_scalar(target)


def _bandwidth_builders(
    machine: CpuMachine, target: Any, suffix: str, threads: int
) -> Iterator[tuple[str, Callable[[], Probe]]]:
    wide = machine.vector_bytes
    dram_bytes = _dram_bytes(machine)
    # Half of L2, so that what else is in it does not matter; several times L2 but well within L3.
    reads = {
        "l2_read": machine.l2_bytes // 2 * threads,
        "l3_read": min(machine.l3_bytes // 2, max(machine.l3_bytes // 4, 4 * machine.l2_bytes * threads)),
        "dram_read": dram_bytes,
    }
    for name, size in reads.items():
        label = name + suffix
        yield (
            label,
            partial(memory_kernels.build_read, label, size, wide, target, threads=threads),
        )
    tiled = f"dram_tiled_read{suffix}"
    yield (
        tiled,
        lambda: memory_kernels.build_read(tiled, dram_bytes, wide, target, threads=threads, columns=_TILE_COLUMNS),
    )
    write, fresh = f"dram_write{suffix}", f"fresh{suffix}"
    yield write, lambda: memory_kernels.build_write(write, dram_bytes, wide, target, threads=threads)
    yield fresh, lambda: memory_kernels.build_fresh(fresh, wide, target, threads=threads)


def _dram_bytes(machine: CpuMachine) -> int:
    wanted = min(max(4 * machine.l3_bytes, _DRAM_BYTES_MIN), _DRAM_BYTES_MAX)
    if hasattr(os, "sysconf"):
        wanted = min(wanted, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)
    return int(wanted)


def _time(probe: Probe, repetitions: int) -> float:
    start = time.perf_counter()
    probe.run(repetitions)
    return time.perf_counter() - start


def _first_timing(probe: Probe) -> _Timing:
    """Warm a probe up and find how many repetitions make a sample."""
    repetitions = 1
    _time(probe, repetitions)
    seconds = _time(probe, repetitions)
    while seconds < _SAMPLE_SECONDS:
        repetitions *= 2 if seconds > _SAMPLE_SECONDS / 8 else 8
        seconds = _time(probe, repetitions)
    return _Timing(probe, repetitions, seconds)


def _with_rates(machine: CpuMachine, seconds: Mapping[str, float], notes: tuple[str, ...]) -> CpuMachine:
    clock_hz = 1 / seconds["clock"] if "clock" in seconds else machine.clock_hz
    operations, operation_notes = _plausible(machine.operations, _operations(seconds), _PLAUSIBLE_OPERATION)
    memory, memory_notes = _plausible(machine.memory, _memory(machine, seconds), _PLAUSIBLE_MEMORY)
    overheads, overhead_notes = _plausible(
        machine.overheads, _overheads(machine, seconds, clock_hz), _PLAUSIBLE_OVERHEAD
    )
    memory, order_notes = _ordered(memory)
    return replace(
        machine,
        clock_hz=clock_hz,
        operations=operations,
        memory=memory,
        overheads=overheads,
        notes=notes + operation_notes + memory_notes + overhead_notes + order_notes,
    )


# Rates from probes: a probe that the budget left out is absent, and so is what follows from it.
def _operations(seconds: Mapping[str, float]) -> dict[str, float]:
    rates = {f"{name}_seconds": value for name, value in seconds.items()}
    rates["gather_element_seconds"] = seconds.get("gather", 0.0)
    # These chains take one more simple vector operation a step to feed the one that is measured.
    fed = ("convert_u8_f32", "convert_f32_u8", "widen_u8_u16", "narrow_u16_u8", "i32_div_constant")
    for name in fed:
        if name in seconds and "i32_add" in seconds:
            rates[f"{name}_seconds"] = seconds[name] - seconds["i32_add"]
    names = {item.name for item in fields(OperationRates)}
    return {name: value for name, value in rates.items() if name in names and value != 0}


def _memory(machine: CpuMachine, seconds: Mapping[str, float]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for name in ("l1_load", "l1_store"):
        if name in seconds:
            rates[f"{name}_seconds"] = seconds[name] * machine.vector_bytes
    if "l1_scalar_load" in seconds:
        rates["l1_scalar_load_seconds"] = seconds["l1_scalar_load"]
    for suffix in ("", _ALL_THREADS):
        for name in ("l2_read", "l3_read", "dram_read", "dram_tiled_read", "dram_write"):
            if name + suffix in seconds:
                rates[f"{name}_bytes_per_second{suffix}"] = 1 / seconds[name + suffix]
        fresh, write = f"fresh{suffix}", f"dram_write{suffix}"
        if fresh in seconds and write in seconds:
            rates[f"page_fault_seconds_per_byte{suffix}"] = seconds[fresh] - seconds[write]
    return rates


def _overheads(machine: CpuMachine, seconds: Mapping[str, float], clock_hz: float) -> dict[str, float]:
    rates: dict[str, float] = {}
    step_seconds = CYCLES_PER_STEP / clock_hz
    if "stack" in seconds and "heap" in seconds:
        rates["small_allocation_seconds"] = seconds["heap"] - seconds["stack"]
    if "stack" in seconds and "heap_large" in seconds:
        rates["large_allocation_seconds"] = seconds["heap_large"] - seconds["stack"]
    if "launch" in seconds:
        rates["parallel_launch_seconds"] = seconds["launch"] - _LAUNCH_STEPS * step_seconds
    if "launch" in seconds and "tasks" in seconds:
        further = machine.cores * (_TASKS_PER_THREAD - 1)
        work = _TASKS_PER_THREAD * _TASK_STEPS * step_seconds
        rates["parallel_task_seconds"] = (seconds["tasks"] - work - rates["parallel_launch_seconds"]) / further
    if "short_loop" in seconds and "long_loop" in seconds:
        iteration = (seconds["long_loop"] - seconds["short_loop"]) / (_LONG_LOOP - _SHORT_LOOP)
        rates["loop_iteration_seconds"] = iteration
        rates["loop_entry_seconds"] = seconds["short_loop"] - _SHORT_LOOP * iteration
    return rates


def _plausible(default: _Rates, measured: Mapping[str, float], factor: float) -> tuple[_Rates, tuple[str, ...]]:
    """Clamp each measured rate to within `factor` of its default."""
    values: dict[str, Any] = {}
    notes = []
    for name, value in measured.items():
        typical = getattr(default, name)
        values[name] = min(max(value, typical / factor), typical * factor)
        if values[name] != value:
            notes.append(f"`{name}` measured {value:.3g}, which is implausible: {values[name]:.3g} is used.")
    return replace(default, **values), tuple(notes)


def _ordered(memory: MemoryRates) -> tuple[MemoryRates, tuple[str, ...]]:
    """Make no cache slower than the one behind it, and all threads together no slower than one."""
    values = {item.name: getattr(memory, item.name) for item in fields(memory)}
    notes = []

    def at_least(name: str, other: str) -> None:
        if values[name] < values[other]:
            notes.append(f"`{name}` measured {values[name]:.3g}, below `{other}`: {values[other]:.3g} is used.")
            values[name] = values[other]

    for level in ("dram_tiled_read", "dram_read", "l3_read", "l2_read", "dram_write"):
        at_least(f"{level}_bytes_per_second_all_threads", f"{level}_bytes_per_second")
    for suffix in ("", _ALL_THREADS):
        at_least(f"dram_read_bytes_per_second{suffix}", f"dram_tiled_read_bytes_per_second{suffix}")
        at_least(f"l3_read_bytes_per_second{suffix}", f"dram_read_bytes_per_second{suffix}")
        at_least(f"l2_read_bytes_per_second{suffix}", f"l3_read_bytes_per_second{suffix}")
    return MemoryRates(**values), tuple(notes)
