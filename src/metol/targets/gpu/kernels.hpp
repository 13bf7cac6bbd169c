// Kernels: a Stage of a Func at root with all that is computed inside its blocks and threads.
#pragma once

#include <array>
#include <span>

#include "schedule/nest_queries.hpp"
#include "targets/gpu/gpu_parameters.hpp"
#include "targets/gpu/limits.hpp"

namespace metol::gpu {

// The levels of the loops of a Stage (decisions.hpp).
enum Level : int8_t { kBlocks, kThreads, kPoint };

using ThreadCounts = std::array<int32_t, kBlockDimensions>;

struct Kernel {
    int stage = -1;           // of a Func at root
    ThreadCounts threads{};   // of a block, by dimension: the most that any Stage in it takes
    double blocks = 1;        // of a launch
    double shared_bytes = 0;  // of a block: all that is stored in it
    double thread_bytes = 0;  // of a thread: all that it computes for itself
    double registers = 0;     // of a thread, about
    int members = 0;          // Funcs computed inside
    bool is_guarded = false;  // a condition cuts points off its tiles at the estimated sizes
    int64_t threads_per_block() const;
};

// The loops along which the threads of a Stage lie, by dimension of the block, -1 for none: first the loop along which
// the threads of a warp lie side by side, then all others with several threads.
std::array<int8_t, kBlockDimensions> thread_loops(const Stage& stage, const StageNest& nest);

ThreadCounts thread_counts(const Stage& stage, const StageNest& nest);

// Does each thread run a loop of a Stage by itself, from its begin to its end? Others are spread over threads: the pure
// ones, at root those reduction loops whose turns Halide proves not to meet, and of an atomic update all.
bool is_serial(const Stage& stage, const StageNest& nest, size_t loop);

// Are reduction loops spread over threads?
bool spreads_reductions(const Stage& stage, const StageNest& nest);

// Is a Func computed by each thread for itself?
bool is_in_thread(const FuncSchedule& schedule);

// The Stage whose threads run a Stage: itself, or the one inside the threads of which it is.
int host_of_threads(const PipelineIndex& index, const LoopNest& nest, int stage);

// How often a block runs the threads of a Stage: once, or once for each chunk of reduction loops around it
// (copies.hpp).
double turns_of_block(const PipelineIndex& index, const LoopNest& nest, int stage);

// The Stage at root in whose kernel a Stage runs.
int kernel_of(const PipelineIndex& index, const LoopNest& nest, int stage);

// The places inside which a Func can be computed, outermost first: the blocks of a kernel, the threads of a Stage.
std::vector<Site> kernel_sites(const PipelineIndex& index, const LoopNest& nest, int func);

// Does what is needed of a Func inside a block have a size that no size of an output or input changes?
bool has_constant_region(const PipelineIndex& index, const LoopNest& nest, int func);

// Does one thread need the same number of points of a Func wherever it is? Where a guard cuts off some of them, Halide
// 21 allocates global memory of too small a size for what it would else keep in registers, unless it is told this
// number (lower/gpu.py): what has none is not computed in threads. Nor is what ends where a load says, which would be
// reckoned out for the points that are cut off as well.
bool has_constant_share(const PipelineIndex& index, const LoopNest& nest, int func);

// May a Func lie in shared memory beside others, of wider types? Halide 21 places each of them at a word of the widest,
// and allocates what all take together, rounded up to such words once. So what is narrower is padded (lower/gpu.py),
// and what has no dimension cannot be.
bool can_be_padded(const PipelineIndex& index, int func);

// The kernel of a Stage at root; `funcs` are those that may be inside it, in any order, others among them or not.
Kernel kernel(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int stage,
              std::span<const int32_t> funcs);

// The same kernel where its output is at least as large as a block: with all the threads, and the shared memory, that a
// block then has. Of a shorter one, too, Halide may compute all that a whole block needs. `regions` are the estimated.
Kernel with_whole_blocks(const PipelineIndex& index, const LoopNest& nest, Regions& regions, Kernel kernel,
                         std::span<const int32_t> funcs);

}  // namespace metol::gpu
