// The limits of the GPU space, each with its reason (Anderson et al. 2021, §4.1, §4.2 and §4.6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace metol::gpu {

// CUDA and OpenCL number the threads of a block in three dimensions.
inline constexpr size_t kBlockDimensions = 3;
// No value is computed more than ten times (Adams et al. 2019, §3.2).
inline constexpr int64_t kMaxRecompute = 10;
// Loads of one point, with all that is inlined written out: Halide lowers five times as many in ten seconds, and a
// hundred times as many not in a minute; the schedules of the suite that are lowered at once have at most 341.
inline constexpr int64_t kMaxLoads = 1024;
// Points of one thread along a loop, and together: what is unrolled, so that what is loaded is used again.
inline constexpr std::array<int32_t, 4> kPoints = {1, 2, 4, 8};
inline constexpr std::array<int32_t, 3> kOddPoints = {3, 5, 7};
inline constexpr int32_t kMaxPoints = 16;
// Iterations of loops that a thread has no turns of: its points, with the reduction loops whose ends are constants
// (Anderson et al. 2021, §4.7, has 16; a window of 5 by 5 is unrolled whole).
inline constexpr int32_t kMostUnrolled = 32;
// Threads offered along the first loop of a block, a warp or close to it, and along the others.
inline constexpr std::array<int32_t, 4> kFirstThreads = {16, 32, 64, 128};
inline constexpr std::array<int32_t, 5> kOtherThreads = {1, 2, 4, 8, 16};
// Threads of a block until the search decides: eight warps.
inline constexpr int32_t kDefaultThreads = 256;
// The words that CUDA and OpenCL update atomically without further features.
inline constexpr int32_t kAtomicBytes = 4;
// Blocks a multiprocessor that keep all busy and even.
inline constexpr int64_t kBlocksPerMultiprocessor = 2;
// Of the threads of its warps, how many must work; below it a warp is mostly idle.
inline constexpr double kLeastLaneShare = 0.5;
// 32-bit values that one thread may hold in registers for the Funcs computed in it: past a quarter of the 255 that
// there are, compilers spill.
inline constexpr double kMaxThreadValues = 64;
// A copy is loaded from memory once, stored and loaded again: each value of it must be loaded twice at least.
inline constexpr double kLeastReuse = 2;
// Iterations of a reduction loop between two loads of what a block shares: fewer spend their time at barriers, more
// leave no shared memory for other blocks.
inline constexpr std::array<int32_t, 4> kChunks = {8, 16, 32, 64};
// Funcs in one kernel: Halide looks at every one of them in every other, and its time grows out of hand.
inline constexpr int kMaxFuncsInKernel = 24;

}  // namespace metol::gpu
