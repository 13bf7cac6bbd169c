"""From a measured machine and a pipeline to the numbers that the C++ core reckons with.

Enters: a `CpuMachine` and a `PipelineDag`. Leaves: `CpuParameters`, with the arithmetic of one point of each Stage in
seconds, from its histogram of operations. These stand for the coefficients of Adams et al. 2019, appendix B, until
weights are trained.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from metol import _core
from metol.pipeline import PipelineDag, op_classes
from metol.targets.cpu.machine import CpuMachine
from metol.targets.cpu.rates import OperationRates

__all__ = ["cpu_parameters"]

# Operations of a boundary condition that remain once Halide has split off the loop iterations near the border.
_BOUNDARY_SHARE: Final = 0.1
# Part of the last cache that a pipeline can count on: its other users are the code and the system.
_SHARED_CACHE_SHARE: Final = 0.5
# A private cache holds less than its size before streams evict what is to be used again.
_PRIVATE_CACHE_SHARE: Final = 0.75
# Jumping to another run of memory costs about the latency of the last cache, of which the core hides most; less of that
# of a store, which must read the line first, and often its page's address.
_SEGMENT_LOOP_ENTRIES: Final = 2.0
_WRITTEN_SEGMENT_LOOP_ENTRIES: Final = 10.0
# Entering a production: Halide computes the bounds of every loop and buffer in it, and what a window still holds.
_PRODUCTION_SCALAR_OPS: Final = 30.0
# What is read as soon as it is stored, lane by lane where it was a vector, waits until it is in a cache.
_READ_BACK_SCALAR_OPS: Final = 120.0
# An iteration of a loop further out, or the entry of the innermost: guards, base addresses.
_OUTER_ITERATION_SCALAR_OPS: Final = 12.0
# A line that is written comes in first, and goes out later.
_WRITE_ALLOCATE: Final = 2.0
# The part of the time of a byte that a cache or memory has to itself at least.
_LEAST_SHARE_BEYOND: Final = 0.2
# What moves with some loops of a Stage alone is told apart where it is at least so much of its arithmetic.
_LEAST_SHARED: Final = 0.05
# A store to a line that another core may have written to since. In schedules of random programs it cost from nothing to
# 150 ns, by chance, and this in the geometric mean.
_CONTESTED_STORE_SECONDS: Final = 5e-9
# A result is there after so many times what one of many additions takes that wait for nothing, of which a cycle has
# two: float32 after four cycles, integers after one.
_ADDITIONS_A_CYCLE: Final = 2.0
_CHAINED_FLOATS: Final = 4 * _ADDITIONS_A_CYCLE
_CHAINED_INTEGERS: Final = 1 * _ADDITIONS_A_CYCLE
# The same of what is stored and loaded again: eight cycles.
_SPILL: Final = 16.0
# A register of values that are lanes of a reduction: shuffled, and added to half as many, until one is left, as of 16
# rows of 16 numbers that take three cycles a register; and what that is of as many scalar additions, of one point.
_HALVING_ADDITIONS: Final = 6.0
_HALVED_SCALARS: Final = 0.5
_VECTOR_REGISTERS: Final = {64: 32, 32: 16, 16: 16}


def cpu_parameters(machine: CpuMachine, dag: PipelineDag) -> _core.CpuParameters:
    """Fill in what the core needs to know to search for schedules of one pipeline on one machine.

    Args:
        machine: Sizes and rates.
        dag: The pipeline; one entry of `register_seconds`, `arithmetic`, `lane_steps`, `added_seconds_share`,
            `chained_step_seconds` and `scalar_point_seconds` is made a Stage.

    Returns:
        The parameters, all in seconds, bytes and counts.
    """
    parameters = _core.CpuParameters()
    parameters.cores = machine.cores
    parameters.vector_bytes = machine.vector_bytes
    parameters.vector_registers = _VECTOR_REGISTERS[machine.vector_bytes]
    parameters.cache_line_bytes = machine.cache_line_bytes
    parameters.l1_bytes = int(machine.l1_bytes * _PRIVATE_CACHE_SHARE)
    parameters.l2_bytes = int(machine.l2_bytes * _PRIVATE_CACHE_SHARE)
    parameters.l3_bytes = int(machine.l3_bytes * _SHARED_CACHE_SHARE)
    _fill_memory(parameters, machine)
    _fill_overheads(parameters, machine)
    vector_seconds = _seconds_by_class(machine.operations)
    parameters.register_seconds = [_register_seconds(dag, s, vector_seconds) for s in dag.stages]
    parameters.arithmetic = [_arithmetic(s, vector_seconds) for s in dag.stages]
    parameters.lane_steps = [_lane_steps(machine, dag, s, vector_seconds) for s in dag.stages]
    parameters.added_seconds_share = [_added_seconds_share(dag, s, vector_seconds) for s in dag.stages]
    parameters.chained_step_seconds = [_chained_step_seconds(machine, s) for s in dag.stages]
    parameters.scalar_point_seconds = [_scalar_point_seconds(machine, dag, s) for s in dag.stages]
    return parameters


def _beyond(farther: float, nearer: float) -> float:
    """Return what a byte from farther away takes longer: at least a little, whatever was measured."""
    return max(farther - nearer, _LEAST_SHARE_BEYOND * farther)


def _beyond_l3(l3: float, dram: float, tiled: float, written: float) -> tuple[float, float, float]:
    """Return what a byte read from memory adds in seconds, how many times that where tiles are read, and one written.

    Args:
        l3: Bytes a second read from the last cache.
        dram: The same from memory.
        tiled: The same in tiles.
        written: Bytes a second written to memory.
    """
    read = _beyond(1 / dram, 1 / l3)
    return read, 1 + max(0.0, 1 / tiled - 1 / dram) / read, _beyond(1 / written, _WRITE_ALLOCATE / l3)


def _fill_memory(parameters: _core.CpuParameters, machine: CpuMachine) -> None:
    memory = machine.memory
    parameters.seconds_per_vector_load = memory.l1_load_seconds
    parameters.seconds_per_vector_store = memory.l1_store_seconds
    parameters.seconds_per_scalar_load = memory.l1_scalar_load_seconds
    parameters.seconds_per_gathered_element = machine.operations.gather_element_seconds
    # What comes from further away comes through the nearer caches, too, and is counted there: here is what that adds.
    from_l2, from_l3 = 1 / memory.l2_read_bytes_per_second, 1 / memory.l3_read_bytes_per_second
    parameters.seconds_per_byte_into_l1 = from_l2
    parameters.seconds_per_byte_into_l2 = _beyond(from_l3, from_l2)
    parameters.seconds_per_byte_out_of_l2 = _WRITE_ALLOCATE * from_l3
    one = _beyond_l3(
        memory.l3_read_bytes_per_second,
        memory.dram_read_bytes_per_second,
        memory.dram_tiled_read_bytes_per_second,
        memory.dram_write_bytes_per_second,
    )
    all_threads = _beyond_l3(
        memory.l3_read_bytes_per_second_all_threads,
        memory.dram_read_bytes_per_second_all_threads,
        memory.dram_tiled_read_bytes_per_second_all_threads,
        memory.dram_write_bytes_per_second_all_threads,
    )
    parameters.seconds_per_byte_into_l3, parameters.tiled_slowdown, parameters.seconds_per_byte_to_memory = one
    parameters.seconds_per_byte_into_l3_all_cores = all_threads[0]
    parameters.tiled_slowdown_all_cores = all_threads[1]
    parameters.seconds_per_byte_to_memory_all_cores = all_threads[2]
    parameters.seconds_per_fault_byte = memory.page_fault_seconds_per_byte
    parameters.seconds_per_fault_byte_all_cores = memory.page_fault_seconds_per_byte_all_threads
    parameters.fault_threshold_bytes = int(memory.fresh_allocation_bytes)


def _fill_overheads(parameters: _core.CpuParameters, machine: CpuMachine) -> None:
    overheads = machine.overheads
    parameters.seconds_per_loop_iteration = overheads.loop_iteration_seconds
    scalar_op = machine.operations.scalar_op_seconds
    parameters.seconds_per_production = _PRODUCTION_SCALAR_OPS * scalar_op
    parameters.seconds_per_read_back = _READ_BACK_SCALAR_OPS * scalar_op
    parameters.seconds_per_outer_iteration = _OUTER_ITERATION_SCALAR_OPS * scalar_op
    parameters.seconds_per_segment = _SEGMENT_LOOP_ENTRIES * overheads.loop_entry_seconds
    parameters.seconds_per_written_segment = _WRITTEN_SEGMENT_LOOP_ENTRIES * overheads.loop_entry_seconds
    parameters.seconds_per_spill = _SPILL * machine.operations.f32_fma_seconds
    parameters.seconds_per_contested_store = _CONTESTED_STORE_SECONDS
    parameters.seconds_per_parallel_launch = overheads.parallel_launch_seconds
    parameters.seconds_per_task = overheads.parallel_task_seconds
    parameters.seconds_per_allocation = overheads.small_allocation_seconds


def _seconds_by_class(rates: OperationRates) -> Mapping[str, float]:
    """Seconds of one operation of each class on one native vector; classes that cost nothing apart are left out.

    Loads and stores are counted by the features; constants, loop variables and parameters stay in registers.
    """
    add, integer = rates.f32_add_seconds, rates.i32_add_seconds
    return {
        "CastWiden": rates.widen_u8_u16_seconds,
        "CastNarrow": rates.narrow_u16_u8_seconds,
        "CastIntFloat": rates.convert_i32_f32_seconds,
        "CastFloat": rates.convert_i32_f32_seconds,
        "AddInt": integer,
        "AddFloat": add,
        "MulNarrow": rates.i16_mul_seconds,
        "MulInt": rates.i32_mul_seconds,
        "MulFloat": rates.f32_mul_seconds,
        "MulAddFloat": max(0.0, rates.f32_fma_seconds - add),
        "DivConst": rates.i32_div_constant_seconds,
        "DivInt": rates.i32_div_seconds,
        "DivFloat": rates.f32_div_seconds,
        "Mod": rates.i32_div_seconds,
        "MinMaxInt": integer,
        "MinMaxFloat": rates.f32_min_max_seconds,
        "CompareInt": integer,
        "CompareFloat": rates.f32_compare_select_seconds / 2,
        "Logic": integer / 2,
        "SelectInt": integer,
        "SelectFloat": rates.f32_compare_select_seconds / 2,
        "Bitwise": integer,
        "Shift": integer,
        "FixedPoint": rates.i16_mul_seconds + rates.i16_add_seconds,
        "Round": rates.f32_add_seconds,
        "Sqrt": rates.f32_sqrt_seconds,
        "Transcendental": rates.f32_exp_seconds,
        "ExternCall": rates.f32_sin_seconds,
        "Address": integer / 2,
    }


def _op_counts(stage: _core.Stage) -> Iterator[tuple[str, float]]:
    """Operations a point by class; addresses that move by known steps are added to once an iteration, all together.

    What all steps of a reduction have in common is computed before the first of them.
    """
    for op, count, unchanged in zip(op_classes(), stage.op_histogram, stage.unchanged_ops, strict=True):
        yield op.name, count - unchanged - (stage.stepped_addresses if op.name == "Address" else 0.0)


def _register_seconds(dag: PipelineDag, stage: _core.Stage, seconds_by_class: Mapping[str, float]) -> float:
    """Seconds of the arithmetic on one native register of the widest type of a Stage."""
    seconds = sum(count * seconds_by_class.get(name, 0.0) for name, count in _op_counts(stage))
    return seconds * (_BOUNDARY_SHARE if dag.funcs[stage.func].is_boundary_condition else 1.0)


def _arithmetic(stage: _core.Stage, seconds_by_class: Mapping[str, float]) -> list[_core.ArithmeticPart]:
    """Shares of the arithmetic of a Stage that move with the same loops; none where nearly all moves with every one."""
    names = [op.name for op in op_classes()]
    parts = [
        (shared, sum(count * seconds_by_class.get(name, 0.0) for name, count in zip(names, shared.ops, strict=True)))
        for shared in stage.shared_ops
    ]
    whole = sum(seconds for _, seconds in parts)
    every_loop = (1 << len(stage.loops)) - 1
    shared_seconds = sum(seconds for shared, seconds in parts if shared.loops != every_loop)
    if whole <= 0 or shared_seconds < _LEAST_SHARED * whole:
        return []
    return [_core.ArithmeticPart(shared.loops, shared.picked_by, seconds / whole) for shared, seconds in parts]


def _lane_steps(
    machine: CpuMachine, dag: PipelineDag, stage: _core.Stage, seconds_by_class: Mapping[str, float]
) -> _core.LaneSteps:
    """The arithmetic of an update whose steps are lanes, against that of vectors, or scalars, of one step after one.

    Values are reduced by halves; of products an instruction multiplies and adds several.
    """
    seconds = _register_seconds(dag, stage, seconds_by_class)
    if stage.lane_bytes == 0 or seconds <= 0:
        return _core.LaneSteps()
    rates = machine.operations
    steps = machine.dot_steps(stage.lane_bytes)
    if steps < 2 and stage.lane_bytes < _core.VALUE_BYTES:
        return _core.LaneSteps()
    if steps < 2:
        return _core.LaneSteps(1, _HALVING_ADDITIONS * rates.i32_add_seconds / seconds, _HALVED_SCALARS)
    instruction = rates.i16_mul_seconds
    if steps == 2:  # of words, to which bytes are widened, and what comes of them is added by another instruction
        instruction += rates.i32_add_seconds + (rates.widen_u8_u16_seconds if stage.narrowest_bytes == 1 else 0.0)
    return _core.LaneSteps(steps, min(1.0, instruction / seconds))


def _added_seconds_share(dag: PipelineDag, stage: _core.Stage, seconds_by_class: Mapping[str, float]) -> float:
    """Share of the arithmetic of a Stage that is left where an addition that reads it multiplies, too."""
    seconds = _register_seconds(dag, stage, seconds_by_class)
    if not stage.ends_in_product or seconds <= 0:
        return 1.0
    saved = seconds_by_class["MulFloat"] - seconds_by_class["MulAddFloat"]
    return min(1.0, max(0.0, 1 - saved / seconds))


def _chained_step_seconds(machine: CpuMachine, stage: _core.Stage) -> float:
    """Seconds from one step of an update to the next that goes on with its result: one addition at least."""
    adds_floats = any(count > 0 for name, count in _op_counts(stage) if name in ("AddFloat", "MulAddFloat"))
    addition = _CHAINED_FLOATS if adds_floats else _CHAINED_INTEGERS
    return max(addition, _ADDITIONS_A_CYCLE * stage.chained_cycles) * machine.operations.f32_fma_seconds


def _scalar_point_seconds(machine: CpuMachine, dag: PipelineDag, stage: _core.Stage) -> float:
    """Seconds of the arithmetic of one point in scalar code: slow operations take as long as those of a vector."""
    by_class = _seconds_by_class(machine.operations)
    slow = {"DivInt": machine.vector_bytes / 4, "Mod": machine.vector_bytes / 4, "ExternCall": machine.vector_bytes / 4}
    seconds = 0.0
    for name, count in _op_counts(stage):
        if by_class.get(name):
            seconds += count * max(machine.operations.scalar_op_seconds, by_class[name] / slow.get(name, 1.0))
    # A scattered read-modify-write waits for the store before it only where that went to the same place: of the six
    # cycles that this takes one shows.
    scatters = 1 / machine.clock_hz if stage.has_data_dependent_write else 0.0
    return (seconds + scatters) * (_BOUNDARY_SHARE if dag.funcs[stage.func].is_boundary_condition else 1.0)
