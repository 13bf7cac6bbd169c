// The decisions of the CPU space and what they do to a loop nest (Adams et al. 2019, §3.1, §3.2).
#pragma once

#include "schedule/regions.hpp"
#include "targets/base.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

std::vector<DecisionStep> steps(const PipelineIndex& index, const SpaceOptions& options);

std::vector<DecisionFamily> families(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options);

// Is the place of a location decision one that encloses every use, and may its level be split?
bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision);

Pruned apply(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
             const Decision& decision, LoopNest& child);

}  // namespace metol::cpu
