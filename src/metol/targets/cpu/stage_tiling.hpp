// How one Stage is tiled: from a vector loop, a tile, places for the reductions and a number of tasks to a StageNest.
#pragma once

#include "schedule/regions.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// All that the inner, the reduction and the parallel decision of a Stage fix.
struct StageTiling {
    int vector_loop = -1;
    int vector_width = 1;
    int outside = 0;             // reduction loops, from the outermost, that run outside all serial pure loops
    int32_t block = 0;           // tiles of the next reduction loop that run inside them; 0 for all
    Trips tile = unit_trips();   // points; of reduction loops, those unrolled
    Trips tasks = unit_trips();  // parallel iterations wanted
};

StageNest make_nest(const Stage& stage, const Box& loops, const StageTiling& tiling, bool is_root);

// Reads the tiling back off a nest that make_nest made and that no producer has split yet.
StageTiling tiling_of(const Stage& stage, const StageNest& nest);

// Lanes to use along a loop of `extent`: native for the narrowest type, fewer where the loop is shorter; no more than
// it has points in an output whose version for fewer has none.
int vector_width_for(const CpuParameters& machine, const PipelineIndex& index, int stage_id, int64_t extent);

// Widths worth a try: native for the narrowest type computed with, for the widest, and for all between.
std::vector<int> vector_widths(const CpuParameters& machine, const PipelineIndex& index, int stage_id, int64_t extent);

// The reduction loops of a Stage, outermost first. Nothing ever changes their order among each other, but that tiles
// of associative updates unroll any of them.
std::vector<size_t> reduction_loops(const Stage& stage);

// May a tile have several steps of a reduction? Unrolled, a condition is reckoned out together with the guards of loops
// further out, which may be all that keeps what it reads inside.
bool may_unroll_steps(const Stage& stage);

// A sensible tiling where nothing has been chosen: vectors along `preferred_dim` if it is long enough, no unrolling,
// about eight tasks a core over the outermost loops. The dimension that slides is never vectorized.
StageTiling default_tiling(const CpuParameters& machine, const PipelineIndex& index, int stage, const Box& loops,
                           int preferred_dim, const FuncSchedule& schedule);

// Of the steps in a tile of a Stage, those that can be lanes, which an instruction multiplies and adds; 1 where none
// can (steps_in_lanes.hpp).
int32_t lane_steps(const Stage& stage, const Trips& tile);

// Of the steps in a tile, those that are one operation: products that an instruction adds up, and those of one point.
int32_t steps_at_once(const PipelineIndex& index, const Stage& stage, const StageTiling& tiling);

// Does the innermost reduction loop have so many steps?
bool has_row_of_steps(const Stage& stage, const Box& loops);

// Unrolls the innermost reduction loop where it has so many: without that, no vectors along rows are worth a look.
void unroll_lane_steps(const Stage& stage, const Box& loops, StageTiling& tiling);

// Tasks for the outermost pure loops, about eight a core (in the middle of the range of Adams et al. 2019, §3.2).
Trips default_tasks(const CpuParameters& machine, const PipelineIndex& index, int stage, const Box& loops,
                    const StageTiling& tiling);

}  // namespace metol::cpu
