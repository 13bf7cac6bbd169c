// What the core needs to know of a CPU; targets/cpu/machine.py measures it and fills this in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "targets/base.hpp"

namespace metol {

// The cache line of every CPU that Halide compiles vectors for.
inline constexpr int64_t kLineBytes = 64;

// Operations of a Stage that move with the same loops: bits as in `SharedOps`.
struct ArithmeticPart {
    uint32_t loops = 0;
    uint32_t picked_by = 0;
    double share = 0;  // of the arithmetic of a point
};

// The arithmetic of a Stage whose steps are lanes.
struct LaneSteps {
    int32_t steps = 1;        // that an instruction takes at once
    double share = 1;         // of the arithmetic of a step, what they take together
    double scalar_share = 1;  // the same of a step, where one point has all the lanes
};

struct CpuParameters final : MachineParameters {
    std::unique_ptr<const Target> make_target() const override;

    int32_t cores = 2;
    int32_t vector_bytes = 32;
    int64_t cache_line_bytes = kLineBytes;
    // Capacity of what a core can keep to itself at each level, and the seconds that a byte takes to come into it.
    int64_t l1_bytes = 32 * 1024;
    int64_t l2_bytes = 1024 * 1024;
    int64_t l3_bytes = 16 * 1024 * 1024;
    // Of bytes that come through nearer caches, too: what each cache, and memory, adds.
    double seconds_per_byte_into_l1 = 0;
    double seconds_per_byte_into_l2 = 0;
    double seconds_per_byte_out_of_l2 = 0;            // written, with the read that it causes
    double seconds_per_byte_into_l3 = 0;              // one thread
    double seconds_per_byte_into_l3_all_cores = 0;    // all threads together, wall-clock
    double seconds_per_byte_to_memory = 0;            // written, with the read that it causes; one thread
    double seconds_per_byte_to_memory_all_cores = 0;  // all threads together, wall-clock
    double seconds_per_vector_load = 0;
    double seconds_per_vector_store = 0;
    double seconds_per_scalar_load = 0;
    double seconds_per_gathered_element = 0;
    double seconds_per_loop_iteration = 0;
    double seconds_per_outer_iteration = 0;
    double seconds_per_production = 0;
    double seconds_per_read_back = 0;  // of a production of few points: who reads it waits until it is stored
    double seconds_per_parallel_launch = 0;
    double seconds_per_task = 0;
    double seconds_per_allocation = 0;
    double seconds_per_fault_byte = 0;            // one thread
    double seconds_per_fault_byte_all_cores = 0;  // all threads together, wall-clock
    double seconds_per_segment = 0;               // a jump to another line that the prefetcher does not follow
    double seconds_per_written_segment = 0;       // the same where something is written
    double seconds_per_contested_store = 0;       // to a line that another core has written to since
    double seconds_per_spill = 0;                 // from a store to its value in a register again
    double tiled_slowdown = 1;                    // of memory traffic in runs that do not follow each other
    double tiled_slowdown_all_cores = 1;
    int64_t fault_threshold_bytes = 0;  // blocks of at least this size come fresh from the system at every run
    int32_t vector_registers = 16;
    std::vector<double> register_seconds;  // [Stages] arithmetic on one native register of its widest type
    // [Stages] all of that, by the loops that it moves with; empty where nearly all of it moves with every loop.
    std::vector<std::vector<ArithmeticPart>> arithmetic;
    std::vector<LaneSteps> lane_steps;        // [Stages]
    std::vector<double> added_seconds_share;  // [Stages] of that, what is left where its product is part of an addition
    std::vector<double> chained_step_seconds;  // [Stages] from one step of a sum or a scan to the next
    std::vector<double> scalar_point_seconds;  // [Stages] arithmetic of a point in scalar code
};

}  // namespace metol
