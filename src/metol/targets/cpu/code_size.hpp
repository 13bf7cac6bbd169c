// How much code an unrolled tile becomes, and keeping it within what compiles in seconds.
#pragma once

#include "schedule/regions.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// Operations a point of a Stage, by its histogram.
double operations_of(const Stage& stage);

// Loads of inputs, a point of a Stage, at places that the lanes of a vector along this loop take in turn: x % 4. Each
// lane is loaded by itself.
double inputs_read_in_turn(const PipelineIndex& index, const Stage& stage, int vector_loop);

// Operations that the tile of one Stage may hold.
double max_tile_operations(const PipelineIndex& index);

// Keeps the tiles that `func` was inlined into within bounds, by unrolling less.
Pruned limit_code(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, LoopNest& child, int func);

}  // namespace metol::cpu
