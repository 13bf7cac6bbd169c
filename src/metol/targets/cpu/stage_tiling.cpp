#include "targets/cpu/stage_tiling.hpp"

#include <algorithm>

#include "schedule/tilings.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// Iterations of the tile along each loop.
Trips iterations_of(const Stage& stage, const Box& loops, const Trips& tile) {
    Trips count = unit_trips();
    for (size_t i = 0; i < stage.loops.size(); i++) {
        count[i] = divide_up(std::max<int64_t>(1, loops[static_cast<int>(i)].extent()), tile[i]);
    }
    return count;
}

}  // namespace

StageNest make_nest(const Stage& stage, const Box& loops, const StageTiling& tiling, bool is_root) {
    StageNest nest;
    nest.levels.reserve(4);
    nest.vector_loop = static_cast<int8_t>(tiling.vector_loop);
    nest.vector_width = static_cast<int16_t>(tiling.vector_width);
    const Trips iterations = iterations_of(stage, loops, tiling.tile);
    Trips parallel = unit_trips();
    Trips reduction = unit_trips();
    Trips serial = unit_trips();
    const std::vector<size_t> reductions = reduction_loops(stage);
    for (size_t rank = 0; rank < reductions.size(); rank++) {
        const size_t i = reductions[rank];
        const bool is_blocked = static_cast<int>(rank) == tiling.outside && tiling.block > 0;
        const int32_t inside = is_blocked ? std::min(tiling.block, iterations[i]) : iterations[i];
        serial[i] = static_cast<int>(rank) < tiling.outside ? 1 : inside;
        reduction[i] = divide_up(iterations[i], serial[i]);
    }
    bool is_parallel = false;
    bool is_outside = false;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction) {
            is_outside = is_outside || reduction[i] > 1;
            continue;
        }
        serial[i] = is_root ? divide_up(iterations[i], std::max(1, tiling.tasks[i])) : iterations[i];
        parallel[i] = divide_up(iterations[i], serial[i]);
        is_parallel = is_parallel || parallel[i] > 1;
    }
    if (is_root) {
        nest.is_parallel = is_parallel;
        nest.levels.push_back(parallel);
    }
    if (is_outside) {
        nest.levels.push_back(reduction);
    }
    nest.levels.push_back(serial);
    nest.levels.push_back(tiling.tile);
    return nest;
}

StageTiling tiling_of(const Stage& stage, const StageNest& nest) {
    StageTiling tiling;
    tiling.vector_loop = nest.vector_loop;
    tiling.vector_width = nest.vector_width;
    tiling.tile = nest.levels.back();
    if (nest.levels.size() >= 3) {
        const Trips& serial = nest.levels[nest.levels.size() - 2];
        const Trips& outside = nest.levels[nest.levels.size() - 3];
        const std::vector<size_t> reductions = reduction_loops(stage);
        for (size_t rank = 0; rank < reductions.size(); rank++) {
            const size_t i = reductions[rank];
            if (outside[i] > 1 && serial[i] == 1) {
                tiling.outside = static_cast<int>(rank) + 1;
            } else if (outside[i] > 1) {
                tiling.outside = static_cast<int>(rank);
                tiling.block = serial[i];
            }
        }
    }
    if (nest.is_parallel) {
        tiling.tasks = nest.levels.front();
    }
    return tiling;
}

int vector_width_for(const CpuParameters& machine, const PipelineIndex& index, int stage_id, int64_t extent) {
    const Stage& stage = index.stage(stage_id);
    const int native = std::max(1, machine.vector_bytes / std::max(1, stage.narrowest_bytes));
    const int width = std::min(native, power_of_two_at_least(extent));
    // An output of fewer points than a vector has lanes would be computed by its version without vectors.
    const Func& func = index.func(stage.func);
    const bool has_two_versions =
        func.is_output && func.stages.size() == 1 && index.consumers[static_cast<size_t>(stage.func)].empty();
    return has_two_versions && width > extent ? std::max(1, width / 2) : width;
}

std::vector<int> vector_widths(const CpuParameters& machine, const PipelineIndex& index, int stage_id, int64_t extent) {
    const int narrow = std::max(1, machine.vector_bytes / std::max(1, index.stage(stage_id).widest_bytes));
    std::vector<int> widths = {vector_width_for(machine, index, stage_id, extent)};
    while (narrow > 1 && narrow < widths.back()) {
        widths.push_back(std::max(narrow, widths.back() / 2));
    }
    return widths;
}

std::vector<size_t> reduction_loops(const Stage& stage) {
    std::vector<size_t> loops;
    for (size_t i = stage.loops.size(); i-- > 0;) {
        if (stage.loops[i].is_reduction) {
            loops.push_back(i);
        }
    }
    return loops;
}

bool may_unroll_steps(const Stage& stage) {
    return !stage.has_data_dependent_write && !stage.has_loading_condition;
}

namespace {

// Can so many steps of a Stage become lanes? Of values as many as halve into one.
bool may_be_lane_steps(const Stage& stage, int64_t steps) {
    const bool may_be_values = stage.lane_bytes == kValueBytes && (steps == 4 || steps == 8 || steps == 16);
    return may_be_values || may_add_products(stage, steps);
}

}  // namespace

int32_t lane_steps(const Stage& stage, const Trips& tile) {
    const int32_t steps = stage.lane_bytes > 0 ? tile[innermost_reduction(stage)] : 1;
    return may_be_lane_steps(stage, steps) ? steps : 1;
}

int32_t steps_at_once(const PipelineIndex& index, const Stage& stage, const StageTiling& tiling) {
    const int32_t steps = lane_steps(stage, tiling.tile);
    if (steps == 1) {
        return 1;
    }
    if (stage.lane_bytes != kValueBytes) {
        return index.lane_dims[static_cast<size_t>(stage.func)] >= 0 ? steps : 1;
    }
    const size_t loop = innermost_reduction(stage);
    const auto is_along_row = [&](const Access& access) {
        return std::ranges::all_of(access.jacobian, [&](const JacobianRow& row) {
            return slope_of(row, loop) == 0 || slope_of(row, loop) == 1;
        });
    };
    const bool is_row = std::ranges::all_of(
        stage.edges, [&](const Edge& edge) { return std::ranges::all_of(edge.accesses, is_along_row); });
    return tiling.vector_loop < 0 && is_row ? steps : 1;
}

bool has_row_of_steps(const Stage& stage, const Box& loops) {
    if (stage.lane_bytes == 0) {
        return false;
    }
    const size_t loop = innermost_reduction(stage);
    return stage.loops[loop].has_constant_extent && may_be_lane_steps(stage, loops[static_cast<int>(loop)].extent());
}

void unroll_lane_steps(const Stage& stage, const Box& loops, StageTiling& tiling) {
    if (stage.lane_bytes != kValueBytes && has_row_of_steps(stage, loops)) {
        const size_t loop = innermost_reduction(stage);
        tiling.tile[loop] = static_cast<int32_t>(loops[static_cast<int>(loop)].extent());
    }
}

Trips default_tasks(const CpuParameters& machine, const PipelineIndex& index, int stage_id, const Box& loops,
                    const StageTiling& tiling) {
    const Stage& stage = index.stage(stage_id);
    const Trips iterations = iterations_of(stage, loops, tiling.tile);
    Trips tasks = unit_trips();
    int32_t wanted = 8 * machine.cores;
    for (int loop : index.nest_order(stage_id, tiling.vector_loop)) {
        const auto i = static_cast<size_t>(loop);
        if (stage.loops[i].is_reduction || wanted <= 1) {
            break;
        }
        tasks[i] = std::min(iterations[i], wanted);
        wanted = divide_up(wanted, tasks[i]);
    }
    return tasks;
}

StageTiling default_tiling(const CpuParameters& machine, const PipelineIndex& index, int stage_id, const Box& loops,
                           int preferred_dim, const FuncSchedule& schedule) {
    const Stage& stage = index.stage(stage_id);
    StageTiling tiling;
    int64_t longest = 1;
    // An instruction that adds up several narrow products has lanes as wide as their sum.
    const int64_t native = stage.lane_bytes > 0 && stage.lane_bytes < kValueBytes
                               ? machine.vector_bytes / stage.widest_bytes
                               : vector_width_for(machine, index, stage_id, 1 << 20);
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const LoopDim& loop = stage.loops[i];
        const int64_t extent = loops[static_cast<int>(i)].extent();
        if (loop.is_reduction || extent < 2 || loop.pure_dim == schedule.slide_dim ||
            !may_vectorize(index, stage_id, i)) {
            continue;
        }
        const bool is_preferred = loop.pure_dim == preferred_dim && 2 * extent >= native;
        if (is_preferred || extent > longest) {
            tiling.vector_loop = static_cast<int>(i);
            longest = is_preferred ? INT64_MAX : extent;
        }
    }
    if (tiling.vector_loop >= 0) {
        const auto v = static_cast<size_t>(tiling.vector_loop);
        tiling.vector_width = vector_width_for(machine, index, stage_id, loops[tiling.vector_loop].extent());
        tiling.tile[v] = tiling.vector_width;
    }
    unroll_lane_steps(stage, loops, tiling);
    if (schedule.placement == Placement::Root && !stage.is_extern) {
        tiling.tasks = default_tasks(machine, index, stage_id, loops, tiling);
    }
    return tiling;
}

}  // namespace metol::cpu
