// From a loop nest to the feature rows of features.def (Adams et al. 2019, §4.1 and appendix A).
#pragma once

#include <span>

#include "targets/base.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// Rows of the Stages of `group`: Funcs computed in one sub-nest of the root. Rows of what is inlined into them are
// added to, since several groups can inline the same Func. `rows` is [stages, kFeatureCount].
void featurize(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
               std::span<const int32_t> group, std::span<float> rows);

// Adds `part`, the row of an inlined Func in one place, to its row: counts add up, sizes are the largest. Lanes are
// what counts of vectors stand for, so vectors of different widths are added as lanes.
void add_inlined_row(std::span<const float> part, std::span<float> row);

// Fills working_set_at_root, the same for every Stage, from the rows of a whole state.
void patch_working_set_at_root(const PipelineIndex& index, const LoopNest& nest, std::span<float> rows);

}  // namespace metol::cpu
