// What one access of a block asks of memory: sectors of the caches, or turns of the banks of shared memory.
#pragma once

#include "targets/gpu/kernels.hpp"

namespace metol::gpu {

// How one coordinate of what is accessed moves from one thread to its neighbour along each dimension of the block, NaN
// where that is not known, and how many bytes its neighbours are apart. Where it is not known, so many threads in a row
// have the same.
struct LaneStride {
    std::array<double, kBlockDimensions> steps{};
    double bytes = 0;
    int32_t alike_lanes = 1;
};
using LaneStrides = std::vector<LaneStride>;  // [dimensions of what is accessed]

// The threads of a block that an access is made by, and the block that they are in.
struct Lanes {
    ThreadCounts block;
    ThreadCounts active;
    int32_t warp_threads;
};

// The warps of a block in which at least one thread is active. All but the last are taken to be like the first
// (Anderson et al. 2021, §5.1: a regular warp and a tail warp).
struct ActiveWarps {
    int64_t count = 0;
    int64_t last = 0;  // its number in the block
};

ActiveWarps active_warps(const Lanes& lanes);

struct Transactions {
    double count = 0;  // sectors, or turns
    double bytes = 0;  // distinct bytes among them that were asked for
    double waits = 0;  // of sectors: those that the cache could have moved besides
};

// Sectors that the warps of a block touch: lanes of a warp that go to one sector share it.
Transactions sectors_of_access(const GpuParameters& machine, const Lanes& lanes, const LaneStrides& strides,
                               int element_bytes);

// Turns that the banks take: lanes of a warp that go to different words of one bank wait for each other.
Transactions bank_turns_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int banks);

}  // namespace metol::gpu
