#include "targets/gpu/analytical.hpp"

#include <algorithm>

#include "targets/gpu/feature_table.hpp"

namespace metol::gpu {

// The rates are those of a machine whose multiprocessors are all busy; the terms hold what keeps them from it.
void analytical_coefficients(const GpuParameters& machine, int stage, std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    out[t_compute] = out[t_inlined_compute] = machine.point_seconds[static_cast<size_t>(stage)];
    out[t_loop_turns] = machine.seconds_per_loop_turn;
    out[t_sectors] = machine.seconds_per_sector;
    out[t_shared_turns] = machine.seconds_per_shared_turn;
    out[t_atomics] = machine.seconds_per_atomic;
    out[t_barriers] = machine.seconds_per_barrier;
    out[t_l2_bytes] = machine.seconds_per_l2_byte;
    out[t_memory_bytes] = machine.seconds_per_memory_byte;
    out[t_l1_waits] = machine.seconds_per_sector;
    out[t_fetched_again] = machine.seconds_per_l2_byte;
    out[t_launches] = machine.seconds_per_launch;
    out[t_written_through] = machine.seconds_per_l2_byte * machine.sector_bytes;
    out[t_blocks_waited_for] = machine.seconds_per_block;
    out[t_turns_in_a_row] = machine.seconds_per_turn_in_a_row;
}

}  // namespace metol::gpu
