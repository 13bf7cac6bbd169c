// How one Stage is tiled: from a vector loop, a tile, a place for the reduction and a number of tasks to a StageNest.
#pragma once

#include "schedule/regions.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// All that the inner and the parallel decision of a Stage fix.
struct StageTiling {
    int vector_loop = -1;
    int vector_width = 1;
    ReductionPlace reduction = ReductionPlace::Inside;
    Trips tile = unit_trips();   // points
    Trips tasks = unit_trips();  // parallel iterations wanted
};

StageNest make_nest(const Stage& stage, const Box& loops, const StageTiling& tiling, bool is_root);

// Reads the tiling back off a nest that make_nest made and that no producer has split yet.
StageTiling tiling_of(const Stage& stage, const StageNest& nest);

// Lanes to use along a loop of `extent`: native for the narrowest type, fewer where the loop is shorter.
int vector_width_for(const CpuParameters& machine, const Stage& stage, int64_t extent);

// A sensible tiling where nothing has been chosen: vectors along `preferred_dim` if it is long enough, no unrolling,
// about eight tasks a core over the outermost loops. The dimension that slides is never vectorized.
StageTiling default_tiling(const CpuParameters& machine, const PipelineIndex& index, int stage, const Box& loops,
                           int preferred_dim, const FuncSchedule& schedule);

// Tasks for the outermost pure loops, about eight a core (in the middle of the range of Adams et al. 2019, §3.2).
Trips default_tasks(const CpuParameters& machine, const PipelineIndex& index, int stage, const Box& loops,
                    const StageTiling& tiling);

}  // namespace metol::cpu
