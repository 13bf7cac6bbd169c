"""From the description of a GPU and a pipeline to the numbers that the C++ core reckons with."""

from typing import Final

from metol import _core
from metol.pipeline import PipelineDag, op_classes
from metol.targets.gpu.host_funcs import host_funcs
from metol.targets.gpu.machine import GpuMachine

__all__ = ["gpu_parameters", "lane_cycles"]

# Lanes that one operation of a class takes for a cycle, by the throughput table of the CUDA C programming guide
# (compute capability 7.5 and 8.0) for what is one instruction; by the length of the usual sequence for what is several.
# Loads and stores are counted by the features; constants, loop variables and parameters stay in registers.
_LANE_CYCLES: Final = {
    "CastWiden": 1.0,
    "CastNarrow": 1.0,
    "CastIntFloat": 4.0,
    "CastFloat": 4.0,
    "AddInt": 1.0,
    "AddFloat": 1.0,
    "MulNarrow": 1.0,
    "MulInt": 1.0,
    "MulFloat": 1.0,
    "DivConst": 4.0,
    "DivInt": 20.0,
    "DivFloat": 10.0,
    "Mod": 20.0,
    "MinMaxInt": 1.0,
    "MinMaxFloat": 1.0,
    "CompareInt": 1.0,
    "CompareFloat": 1.0,
    "Logic": 1.0,
    "SelectInt": 1.0,
    "SelectFloat": 1.0,
    "Bitwise": 1.0,
    "Shift": 1.0,
    "FixedPoint": 2.0,
    "Round": 1.0,
    "Sqrt": 8.0,
    "Transcendental": 16.0,
    "ExternCall": 32.0,
    "Address": 1.0,
}
# What every turn of a thread's loops costs besides: its place in the grid, a counter, the addresses of what it reads.
_TURN_LANE_CYCLES: Final = 4.0
# What it takes to hand a block to a multiprocessor, one after the other for the whole GPU: 0.62 ns at 1.98 GHz on an
# H100, by kernels of 34 000 to 123 000 blocks of one warp each that did next to nothing else.
_BLOCK_CYCLES: Final = 1.25
# What a turn takes that reads what the one before it wrote, out of the first cache, and what it reads beside: the
# scatter of a histogram on an H200, by NVIDIA's profiler.
_TURN_IN_A_ROW_CYCLES: Final = 280.0
# NVIDIA's assembler has a warp add up integers before it updates a place that all of its lanes agree on: ten million
# updates of one place took no more than 0.4 ms on an H100, where each by itself would have taken 5.
_ATOMIC_LANES: Final = 12
# While the second cache and memory are busy with some warps, others compute: of what they would take alone, one after
# the other, so much shows. By 216 schedules of nine programs on an H100, where 0.5 to 0.7 do as well.
_TRAFFIC_SHARE: Final = 0.6
# What a multiprocessor is idle at a barrier, until the first warp goes on.
_BARRIER_CYCLES: Final = 32.0


def gpu_parameters(machine: GpuMachine, dag: PipelineDag) -> _core.GpuParameters:
    """Fill in what the core needs to know to search for schedules of one pipeline on one GPU.

    Args:
        machine: Sizes and rates.
        dag: The pipeline; one entry of `point_seconds` is made a Stage.

    Returns:
        The parameters, all in seconds, bytes and counts.
    """
    parameters = _core.GpuParameters()
    parameters.multiprocessors = machine.multiprocessors
    parameters.warp_threads = machine.warp_threads
    parameters.sector_bytes = machine.sector_bytes
    parameters.max_threads_per_block = machine.max_threads_per_block
    parameters.max_threads_per_multiprocessor = machine.max_threads_per_multiprocessor
    parameters.max_blocks_per_multiprocessor = machine.max_blocks_per_multiprocessor
    parameters.max_registers_per_thread = machine.max_registers_per_thread
    parameters.registers_per_multiprocessor = machine.registers_per_multiprocessor
    parameters.max_registers_per_block = machine.max_registers_per_block
    parameters.register_unit = machine.capability.register_unit
    parameters.warp_unit = machine.capability.warp_unit
    parameters.shared_bytes_per_block = machine.shared_bytes_per_block
    parameters.shared_bytes_per_multiprocessor = machine.shared_bytes_per_multiprocessor
    parameters.shared_unit_bytes = machine.capability.shared_unit_bytes
    parameters.shared_reserved_bytes = machine.capability.reserved_shared_bytes
    parameters.l1_bytes = machine.capability.l1_bytes
    parameters.is_shared_in_l1 = machine.capability.is_shared_in_l1
    parameters.sectors_per_turn = max(1, machine.l1_bytes_per_cycle // machine.sector_bytes)
    parameters.warps_to_hide_latency = machine.warps_to_hide_latency
    cycles_per_second = machine.multiprocessors * machine.clock_hz
    parameters.seconds_per_launch = machine.launch_seconds
    parameters.seconds_per_block = _BLOCK_CYCLES / machine.clock_hz
    parameters.seconds_per_turn_in_a_row = _TURN_IN_A_ROW_CYCLES / machine.clock_hz
    parameters.seconds_per_atomic = 1 / machine.clock_hz
    # The second cache makes as many as it moves sectors.
    parameters.atomics_per_turn = machine.l2_bytes_per_second / machine.sector_bytes / machine.clock_hz
    parameters.seconds_per_sector = machine.sector_bytes / (machine.l1_bytes_per_cycle * cycles_per_second)
    parameters.seconds_per_shared_turn = 1 / cycles_per_second
    parameters.seconds_per_barrier = _BARRIER_CYCLES / cycles_per_second
    parameters.seconds_per_l2_byte = _TRAFFIC_SHARE / machine.l2_bytes_per_second
    parameters.seconds_per_memory_byte = _TRAFFIC_SHARE / machine.memory_bytes_per_second
    lane_seconds = 1 / (machine.lanes * cycles_per_second)
    parameters.seconds_per_loop_turn = lane_seconds * _TURN_LANE_CYCLES
    parameters.point_seconds = [lane_seconds * cycles for cycles in map(_arithmetic, dag.stages)]
    parameters.atomic_lanes = [_atomic_lanes(machine, stage) for stage in dag.stages]
    on_host = host_funcs(machine, dag)
    parameters.is_on_host = [int(func in on_host) for func in range(len(dag.funcs))]
    return parameters


def lane_cycles(dag: PipelineDag) -> list[float]:
    """Return the cycles of one lane for one point that is computed by itself, in a turn of its own, [stages]."""
    return [_TURN_LANE_CYCLES + _arithmetic(stage) for stage in dag.stages]


def _atomic_lanes(machine: GpuMachine, stage: _core.Stage) -> int:
    """Lanes of a warp whose updates of one place take as long as one."""
    operations = {op.name for op, count in zip(op_classes(), stage.op_histogram, strict=True) if count}
    return 1 if any(name.endswith("Float") for name in operations) else min(_ATOMIC_LANES, machine.warp_threads)


def _arithmetic(stage: _core.Stage) -> float:
    """Cycles of one lane for the arithmetic of one point."""
    counts = zip(op_classes(), stage.op_histogram, strict=True)
    return sum(count * _LANE_CYCLES.get(op.name, 0.0) for op, count in counts)
