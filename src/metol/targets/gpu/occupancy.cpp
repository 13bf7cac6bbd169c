#include "targets/gpu/occupancy.hpp"

#include <algorithm>
#include <cmath>

namespace metol::gpu {

namespace {

int64_t round_up(double value, int64_t unit) {
    return static_cast<int64_t>(std::ceil(value / static_cast<double>(unit))) * unit;
}

}  // namespace

int64_t blocks_with_shared(const GpuParameters& machine, double shared_bytes) {
    const int64_t of_block = round_up(shared_bytes + machine.shared_reserved_bytes, machine.shared_unit_bytes);
    const int64_t most = machine.max_blocks_per_multiprocessor;
    return of_block > 0 ? std::min<int64_t>(most, machine.shared_bytes_per_multiprocessor / of_block) : most;
}

int64_t blocks_held(const GpuParameters& machine, int64_t threads, double registers, double shared_bytes) {
    if (threads > machine.max_threads_per_block || registers > machine.max_registers_per_thread ||
        shared_bytes > machine.shared_bytes_per_block) {
        return 0;
    }
    const int64_t warps = (threads + machine.warp_threads - 1) / machine.warp_threads;
    const int64_t of_warp = round_up(std::ceil(registers) * machine.warp_threads, machine.register_unit);
    // A block lies in one file of registers, and each is filled by itself.
    const int64_t warps_of_file = machine.max_registers_per_block / of_warp / machine.warp_unit * machine.warp_unit;
    const int64_t files = machine.registers_per_multiprocessor / machine.max_registers_per_block;
    int64_t held = std::min<int64_t>(machine.max_blocks_per_multiprocessor,
                                     machine.max_threads_per_multiprocessor / machine.warp_threads / warps);
    held = std::min(held, warps_of_file / warps * files);
    return std::min(held, blocks_with_shared(machine, shared_bytes));
}

}  // namespace metol::gpu
