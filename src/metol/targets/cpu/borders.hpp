// Which vectors load lane by lane because their coordinates may reach over a border.
//
// Halide splits the turns near a border off a loop, and in the others nothing is clamped. It splits no loop within
// those turns: there every vector clamps each of its lanes, and loads them one by one, whether it is at the border or
// not. So the outermost loop that is split tells how many do; and where the loops further in would do by themselves,
// lowering keeps those outside of them whole.
#pragma once

#include "schedule/nest_queries.hpp"

namespace metol::cpu {

// Does a coordinate that the lanes move have bounds? Not of lanes that are loaded one by one anyway, for nobody knows
// how they move.
bool is_clamped_along(const EffectiveAccess& access, int vector_loop);

// Does lowering keep the loop of a level of a Stage at root, along its vectors, whole? It does where all that clamps
// its lanes inside is a Func computed there whose innermost loop goes along them: that loop is split, and has the
// borders for itself. Not where what is computed inside is itself read between bounds, for its size would then be known
// at run time only.
bool keeps_lanes_whole(const PipelineIndex& index, const LoopNest& nest, int stage_id, int level);

// May Halide split a loop that turns, at a level of a Stage?
bool may_split(const PipelineIndex& index, const LoopNest& nest, const Site& site, size_t loop);

// [Stages] The levels of `keeps_lanes_whole`.
std::vector<std::vector<int>> whole_lane_levels(const PipelineIndex& index, const LoopNest& nest);

}  // namespace metol::cpu
