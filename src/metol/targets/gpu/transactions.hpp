// What one access of a warp asks of memory: sectors of the caches, or turns of the banks of shared memory.
#pragma once

#include "targets/gpu/kernels.hpp"

namespace metol::gpu {

// How many bytes neighbours along each dimension of the block are apart; NaN where that is not known.
using LaneStrides = std::array<double, kBlockDimensions>;

// The threads of a block that an access is made by, and the block that they are in.
struct Lanes {
    ThreadCounts block;
    ThreadCounts active;
    int32_t warp_threads;
};

// Warps in which at least one thread is active.
int64_t active_warps(const Lanes& lanes);

// Sectors that the first warp of a block touches: lanes that go to one sector share it.
double sectors_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int sector_bytes);

// Turns that its banks take: lanes that go to different words of one bank wait for each other.
double bank_turns_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int banks);

}  // namespace metol::gpu
