// What the core needs to know of a GPU; targets/gpu/parameters.py fills this in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "targets/base.hpp"

namespace metol {

struct GpuParameters final : MachineParameters {
    std::unique_ptr<const Target> make_target() const override;

    int32_t multiprocessors = 64;
    int32_t warp_threads = 32;  // threads that run in step, and whose accesses to memory are merged
    int32_t sector_bytes = 32;  // the least that an access brings in
    int32_t max_threads_per_block = 1024;
    int32_t max_threads_per_multiprocessor = 1024;
    int32_t max_blocks_per_multiprocessor = 16;
    int32_t max_registers_per_thread = 255;
    int32_t registers_per_multiprocessor = 65536;
    int32_t max_registers_per_block = 65536;
    int32_t register_unit = 256;  // registers are given out to warps in multiples of it
    int32_t warp_unit = 4;        // and to a multiple of so many warps
    int32_t shared_bytes_per_block = 48 * 1024;
    int32_t shared_bytes_per_multiprocessor = 64 * 1024;
    int32_t shared_unit_bytes = 256;    // shared memory is given out to blocks in multiples of it
    int32_t shared_reserved_bytes = 0;  // that each block takes besides
    int32_t l1_bytes = 64 * 1024;       // first cache of a multiprocessor
    bool is_shared_in_l1 = false;       // and shared memory is a part of it
    int32_t sectors_per_turn = 4;       // that it moves at once
    int32_t shared_banks = 32;          // words of shared memory that a warp reaches at once
    double warps_to_hide_latency = 16;  // that a multiprocessor must hold to be busy all the time
    double seconds_per_launch = 0;
    double seconds_per_block = 0;          // of all of a kernel, for they are handed out one after the other
    double seconds_per_atomic = 0;         // of updates of one place, whoever makes them
    double atomics_per_turn = 0;           // of different places in that time, by the second cache
    double seconds_per_turn_in_a_row = 0;  // of a thread, which reads what the turn before it has written
    // With every multiprocessor busy:
    double seconds_per_sector = 0;       // between threads and the first cache
    double seconds_per_loop_turn = 0;    // of one thread: counters, addresses and the place in the grid
    double seconds_per_shared_turn = 0;  // of all banks at once
    double seconds_per_barrier = 0;      // of a block
    double seconds_per_l2_byte = 0;      // into the first cache
    double seconds_per_memory_byte = 0;  // from and to memory
    std::vector<double> point_seconds;   // [Stages] arithmetic of a point alone
    std::vector<int32_t> atomic_lanes;   // [Stages] of a warp, that update one place at once; empty for 1
    std::vector<uint8_t> is_on_host;     // [Funcs] the device cannot run it; empty where it can run all
    bool keeps_on_host(int func) const { return !is_on_host.empty() && is_on_host[static_cast<size_t>(func)]; }
};

}  // namespace metol
