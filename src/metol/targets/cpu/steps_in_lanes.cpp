#include "targets/cpu/steps_in_lanes.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/reads.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/guards.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/stage_tiling.hpp"

namespace metol::cpu {

namespace {

// The steps in a tile, and the loops that are lanes.
struct Steps {
    int vector_loop;
    size_t loop;
    int32_t count;
};

// How a coordinate moves with the steps, and with the lanes around them; NaN where that is not constant.
struct Slopes {
    double step;
    double lane;
};

Slopes slopes_of(const EffectiveAccess& access, size_t dim, const Steps& steps) {
    const auto along = [&](size_t loop) {
        const bool is_known = !access.phases[dim][loop] && !access.floats[dim][loop];
        return is_known ? access.jacobian[dim][loop] : std::nan("");
    };
    return {along(steps.loop), steps.vector_loop < 0 ? 0 : along(static_cast<size_t>(steps.vector_loop))};
}

// Does a row of a Func have as many points as there are steps, and the next row follow it, along dimension `next`?
bool has_rows_of(const PipelineIndex& index, const LoopNest& nest, int func, int rows, int next, int32_t steps) {
    const Func& own = index.func(func);
    const FuncSchedule& schedule = nest[func];
    return !own.is_input && !own.is_output && own.fixed_dims[static_cast<size_t>(rows)] &&
           own.root_region[static_cast<size_t>(rows)].extent() == steps && next == (rows == 0 ? 1 : 0) &&
           schedule.row_alignment <= 1 && schedule.slide_dim < 0;
}

// Do the steps load what lies side by side, in each lane what follows that of the lane before, or the same?
bool loads_side_by_side(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const Steps& steps) {
    const Func& producer = index.func(access.producer);
    const bool is_open = !producer.is_input && nest[access.producer].placement == Placement::Unscheduled;
    int rows = is_open ? -1 : innermost_dim(index, nest, access.producer);
    int next = -1;
    bool moves = false;
    bool follows = true;  // one lane the other
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const Slopes slopes = slopes_of(access, d, steps);
        if (std::isnan(slopes.step) || std::isnan(slopes.lane)) {
            return false;
        }
        if (slopes.step != 0) {
            rows = rows < 0 ? static_cast<int>(d) : rows;
            if (moves || slopes.step != 1 || rows != static_cast<int>(d)) {
                return false;
            }
            follows = slopes.lane == 0 || slopes.lane == steps.count;
        } else if (slopes.lane != 0) {
            if (next >= 0 || slopes.lane != 1) {
                return false;
            }
            next = static_cast<int>(d);
        }
        moves = moves || slopes.step != 0;
    }
    if (!moves) {
        return next < 0;
    }
    const bool is_in_rows = producer.interleaved == 1 && (!producer.is_input || producer.dense_dim >= 0) &&
                            !index.is_closed[static_cast<size_t>(access.producer)];
    return is_in_rows && !access.is_clamped && follows &&
           (next < 0 || has_rows_of(index, nest, access.producer, rows, next, steps.count));
}

// Do the lanes of a vector end where those of the last one do, at every size of the outputs?
bool has_whole_vectors(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    if (own.vector_loop < 0 || rounds_vectors_up(index, nest, stage_id)) {
        return true;
    }
    const auto lanes = static_cast<size_t>(own.vector_loop);
    const LoopDim& loop = stage.loops[lanes];
    const Func& func = index.func(stage.func);
    if (loop.is_rvar || loop.pure_dim < 0 || !func.fixed_dims[static_cast<size_t>(loop.pure_dim)]) {
        return false;
    }
    int64_t points = 1;
    for (const Trips& level : own.levels) {
        points *= level[lanes];
    }
    return points == func.root_region[static_cast<size_t>(loop.pure_dim)].extent();
}

// Are there as many steps in each tile, at every size? The first split of a loop is guarded where it leaves a rest.
bool has_whole_steps(const Stage& stage, const StageNest& own, size_t loop) {
    int64_t inside = own.levels.back()[loop];
    int64_t part = inside;  // of the first split
    for (size_t level = own.levels.size() - 1; level-- > 0;) {
        if (own.levels[level][loop] > 1) {
            part = inside;
            inside *= own.levels[level][loop];
        }
    }
    const int64_t extent = stage.loops[loop].constant_extent();
    return extent > 0 && extent % part == 0;
}

// May the steps be lanes, whatever is read? Not under a condition, of which Halide makes scalars, nor where each writes
// to another place; nor where vectors are wrong, or read too far (`may_vectorize`). Of what several threads add to,
// each addition would be one by itself.
bool may_be_lanes(const PipelineIndex& index, const LoopNest& nest, int stage_id, const Steps& steps) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    return steps.count > 1 && !own.is_parallel && own.leader < 0 &&
           (own.vector_loop >= 0 || stage.lane_bytes == kValueBytes) && has_whole_steps(stage, own, steps.loop) &&
           may_vectorize(index, stage_id, steps.loop) &&
           std::ranges::none_of(
               stage.stores, [&](const Access& store) { return moves_with(store, steps.loop); }) &&
           has_whole_vectors(index, nest, stage_id) && !is_leader(index, nest, stage.func);
}

Steps steps_of(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    return {own.vector_loop, innermost_reduction(stage), lane_steps(stage, own.levels.back())};
}

int loop_of(const PipelineIndex& index, const LoopNest& nest, int stage_id, const Steps& steps,
            const StageReads& reads) {
    const Stage& stage = index.stage(stage_id);
    // What is inlined is no value that is there, and may be a difference of bytes, of which Halide makes wrong sums.
    if (stage.lane_bytes == kValueBytes && !reads.inlined.empty()) {
        return -1;
    }
    const bool is_so = std::ranges::all_of(reads.accesses, [&](const EffectiveAccess& access) {
        return access.producer == stage.func || loads_side_by_side(index, nest, access, steps);
    });
    return is_so ? static_cast<int>(steps.loop) : -1;
}

}  // namespace

int loop_in_lanes(const PipelineIndex& index, const LoopNest& nest, int stage_id, const StageReads* reads) {
    if (index.stage(stage_id).lane_bytes == 0 || !nest[index.stage(stage_id).func].is_computed()) {
        return -1;
    }
    const Steps steps = steps_of(index, nest, stage_id);
    if (!may_be_lanes(index, nest, stage_id, steps)) {
        return -1;
    }
    return reads != nullptr ? loop_of(index, nest, stage_id, steps, *reads)
                            : loop_of(index, nest, stage_id, steps, *effective_reads(index, nest, stage_id));
}

std::vector<int> loops_in_lanes(const PipelineIndex& index, const LoopNest& nest) {
    std::vector<int> loops;
    for (int stage = 0; stage < index.stage_count(); stage++) {
        loops.push_back(loop_in_lanes(index, nest, stage));
    }
    return loops;
}

double share_in_lanes(const CpuParameters& machine, int stage, int32_t steps, bool has_vectors) {
    const LaneSteps& lanes = machine.lane_steps[static_cast<size_t>(stage)];
    return has_vectors ? lanes.share / std::min(lanes.steps, steps) : lanes.scalar_share;
}

}  // namespace metol::cpu
