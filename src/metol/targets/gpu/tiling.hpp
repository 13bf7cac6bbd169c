// How the loops of one Stage become blocks, threads, and the points of a thread.
#pragma once

#include "targets/gpu/kernels.hpp"

namespace metol::gpu {

// What is chosen of a Stage; all else follows from the extents of its loops.
struct Tile {
    int thread_loop = -1;  // along which the threads of a warp lie; -1: one thread runs everything
    Trips points = unit_trips();
    Trips threads = unit_trips();  // at root alone: elsewhere as many as there are tiles
};

// The pure loops of a Stage from the innermost outwards, `first` before the others. Empty for code that is not ours.
std::vector<int> pure_loops(const Stage& stage, int first);

// The loops of a Stage whose Func has a place; `loops` is what one production covers.
StageNest make_nest(const Stage& stage, const Box& loops, const FuncSchedule& schedule, const Tile& tile);

// The tile that a Stage has.
Tile tile_of(const StageNest& nest);

// Threads along the loop that walks `dim`, and along the others what is left of them; inside a block as many points a
// thread as let its threads be enough.
Tile default_tile(const GpuParameters& machine, const Stage& stage, const Box& loops, const FuncSchedule& schedule,
                  int dim);

}  // namespace metol::gpu
