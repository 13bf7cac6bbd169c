// Steps of a reduction that are lanes of its vectors, next to each other, where all that they load lies side by side in
// memory. Halide adds such lanes up: values by halves, and narrow products by an instruction that multiplies and adds
// several for each lane of the sum.
#pragma once

#include "schedule/reads.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// The reduction loop of which the steps in a tile become lanes; -1 where none do. `reads` are those of the Stage, if
// they are known.
int loop_in_lanes(const PipelineIndex& index, const LoopNest& nest, int stage, const StageReads* reads = nullptr);

// [Stages] The same of each.
std::vector<int> loops_in_lanes(const PipelineIndex& index, const LoopNest& nest);

// What is left of the arithmetic of a step where so many are lanes, of vectors of points or of one point.
double share_in_lanes(const CpuParameters& machine, int stage, int32_t steps, bool has_vectors);

}  // namespace metol::cpu
