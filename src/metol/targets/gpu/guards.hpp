// Which kernels have conditions around the points of a thread: what the rule for tails (lower/tails.py) comes to on a
// GPU.
#pragma once

#include "schedule/nest_queries.hpp"

namespace metol::gpu {

// Do the splits of a Stage at root leave a remainder that is guarded where all sizes are as estimated? Outputs of one
// Stage that nothing reads are shifted inwards; Funcs that are no output compute a little more, unless they read
// inputs.
bool is_guarded(const PipelineIndex& index, const LoopNest& nest, int stage);

// Does a Func read an input at places that move with its loops, and are not clamped?
bool reads_moving_input(const PipelineIndex& index, const LoopNest& nest, int func);

}  // namespace metol::gpu
