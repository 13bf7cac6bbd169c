// The limits of the CPU space, each with its reason (Adams et al. 2019, §3.2 and §3.3, and what Halide compiles).
#pragma once

#include <cstdint>

namespace metol::cpu {

// Candidates that one family of splits, tiles or tasks may hold before its sizes are coarsened.
inline constexpr int64_t kFamilyCap = 48;
// The same for tasks, of which most are too few or too many, and dropped before they cost anything.
inline constexpr int64_t kParallelCap = 128;
// Adams et al. 2019, §3.2: no value is computed more than ten times; 16 tasks a core at most. §3.3: 16 unrolled.
inline constexpr int64_t kMaxRecompute = 10;
inline constexpr int32_t kMaxTasksPerCore = 16;
inline constexpr int32_t kMaxUnroll = 16;
// What a tile of sums may hold of the vector registers, where that is more: the others are for its operands. An
// operand that is loaded once serves a row or a column of such a tile, so that its size says how much it computes for
// each load; 16 are too few where there are 32 registers.
inline constexpr double kSumsShare = 0.75;
// A loop that is unrolled whole: sixteen iterations and what a stencil adds to them on both sides.
inline constexpr int32_t kMaxWholeUnroll = 24;
// A loop that picks among values: unrolled whole, each of them is computed once, and stored at once. The most that are
// usual are the 27 velocities of a lattice Boltzmann method in three dimensions.
inline constexpr int32_t kMaxPicked = 32;
// Steps of reduction loops that are all in a tile: up to five by five, or three by three by three.
inline constexpr int32_t kMaxSteps = 27;
// Reduction loops that are unrolled in part, and blocks of those that run partly outside the pure loops: 16, 64, 256.
inline constexpr int32_t kMaxPartialUnroll = 8;
inline constexpr int32_t kLeastReductionBlock = 16;
inline constexpr int32_t kReductionBlockStep = 4;
// What slides has a size that is known at run time only: every unrolled iteration is guarded, and the code longer.
inline constexpr int32_t kGuardedUnrollShare = 2;
// Operations on native registers that all unrolled tiles of a pipeline may hold together, and the share of one Stage:
// past it the code leaves the cache of decoded instructions, and the compiler's time grows faster than the code.
inline constexpr double kMaxOperations = 8192;
inline constexpr double kLeastTileOperations = 128;
inline constexpr double kMostTileOperations = 512;
// How many times as much a tile may hold that is not unrolled: nothing can make it smaller but not inlining.
inline constexpr double kSingleTileFactor = 4;
// Halide's bounds inference looks at every Func of a sub-nest in every other: past these its time grows out of hand
// (a chain of 32 stencils in one nest of five hosts was not compiled after three minutes).
inline constexpr int kMaxHosts = 3;
inline constexpr int kMaxFuncsInNest = 16;
// What one Func may ask of the stack: a nest of 16 Funcs then stays within the least that threads get, a megabyte.
inline constexpr double kMaxStackBytes = 64 * 1024;

}  // namespace metol::cpu
