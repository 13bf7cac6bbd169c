// How the loops of one Stage become blocks, threads, and the points of a thread.
#pragma once

#include "targets/gpu/kernels.hpp"

namespace metol::gpu {

// Which loops of a Stage are spread over threads.
enum class Spread : int8_t {
    Pure,    // the pure ones
    Free,    // and at root those reduction loops whose turns Halide proves not to meet
    Atomic,  // and there all others, which update atomically
};

// What is chosen of a Stage; all else follows from the extents of its loops.
struct Tile {
    int thread_loop = -1;  // along which the threads of a warp lie; -1: one thread runs everything
    Spread spread = Spread::Pure;
    Trips points = unit_trips();
    Trips threads = unit_trips();  // at root alone: elsewhere as many as there are tiles
};

// The loops of a Stage that are spread over threads, from the innermost outwards, `first` before the others. Empty for
// code that is not ours.
std::vector<int> parallel_loops(const Stage& stage, int first, Spread spread);

// How a Stage is spread, and how without atomic updates.
Spread spread_of(const StageNest& nest);
Spread plain_spread(const FuncSchedule& schedule);

// Threads that are offered along each loop of a Stage at root, in ascending order: 1 alone beyond those of a block.
std::vector<std::vector<int32_t>> thread_choices(const GpuParameters& machine, const Stage& stage, const Box& loops,
                                                 const StageNest& nest);

// May a Stage be spread over threads that update one place after the other, whoever comes first, and may that pay?
bool may_be_atomic(const GpuParameters& machine, const PipelineIndex& index, const Stage& stage, const Box& loops,
                   const FuncSchedule& schedule);

// The loops of a Stage whose Func has a place; `loops` is what one production covers.
StageNest make_nest(const Stage& stage, const Box& loops, const FuncSchedule& schedule, const Tile& tile);

// Iterations that one turn of a thread's loops unrolls: points, and reduction loops from the innermost on as long as
// all of it stays short (lower/gpu.py unrolls the same).
int64_t unrolled_iterations(const Stage& stage, const FuncSchedule& schedule, const StageNest& nest);

// The tile that a Stage has.
Tile tile_of(const StageNest& nest);

// Threads along the loop that walks `dim`, and along the others what is left of them; inside a block as many points a
// thread as let its threads be enough.
Tile default_tile(const GpuParameters& machine, const PipelineIndex& index, const Stage& stage, const Box& loops,
                  const FuncSchedule& schedule, int dim);

// The same at root, with threads along a given loop.
Tile default_root_tile(const GpuParameters& machine, const Stage& stage, const Box& loops, int thread_loop,
                       Spread spread);

// The dimension that most loads run along: those that the threads of its readers make of a Func, and its own. What it
// reads that is no input is taken to lie in memory as Halide stores it.
int dimension_of_most_loads(const PipelineIndex& index, const LoopNest& nest, int func);

}  // namespace metol::gpu
