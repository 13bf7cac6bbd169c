// The GPU space: what can be decided in a state, and what a decision does to it (Anderson et al. 2021, §4).
//
// A Func is inline; at root, where each of its Stages is one kernel; in the blocks of a kernel, which keep it in shared
// memory; or in the threads of a Stage, which keep it in registers. The levels of a StageNest are blocks, threads, and
// the points of one thread, which hold all reduction loops, too; `vector_loop` is the loop along which the threads of a
// warp lie side by side. A Stage without pure loops runs in a single thread, and one inside threads has none of its
// own: both have `vector_loop` -1. For each Stage the points of a thread are chosen first, then at root its threads;
// inside a block there are as many threads as tiles.
#pragma once

#include "targets/base.hpp"
#include "targets/gpu/gpu_parameters.hpp"

namespace metol::gpu {

std::vector<DecisionStep> steps(const PipelineIndex& index);
std::vector<DecisionFamily> families(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options);
bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision);
Pruned apply(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
             const Decision& decision, LoopNest& child);

}  // namespace metol::gpu
