// The GPU space: what can be decided in a state, and what a decision does to it.
//
// Every Func is inline or at root. Each Stage at root is one kernel: a block of threads along up to three of its pure
// loops, blocks along all of them, reductions serial inside a thread. The levels of its StageNest are blocks, threads,
// and the points of one thread; `vector_loop` is the loop along which the threads of a warp lie side by side. A Stage
// without pure loops runs in a single thread, and has `vector_loop` -1.
#pragma once

#include "targets/base.hpp"
#include "targets/gpu/gpu_parameters.hpp"

namespace metol::gpu {

enum Level : uint8_t { kBlocks, kThreads, kPoints };

std::vector<DecisionStep> steps(const PipelineIndex& index);
std::vector<DecisionFamily> families(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options);
bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision);
Pruned apply(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
             const Decision& decision, LoopNest& child);

}  // namespace metol::gpu
