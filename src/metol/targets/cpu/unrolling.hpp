// Which tiles lowering unrolls on a CPU (lower/nest_loops.py, lower/tails.py).
#pragma once

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol::cpu {

// Is a tile of several vectors unrolled, in the version for large outputs? Each lane of a guarded gather is a branch of
// its own: where a loop of the Stage ends with a guard, vectors that gather, or clamp their lanes under it, run one
// after the other.
bool unrolls_tile(const PipelineIndex& index, const LoopNest& nest, int stage_id);

}  // namespace metol::cpu
