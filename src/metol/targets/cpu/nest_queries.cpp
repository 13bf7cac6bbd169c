#include "targets/cpu/nest_queries.hpp"

#include <algorithm>

namespace metol::cpu {

std::vector<Site> bodies(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const FuncSchedule& schedule = nest[index.stage(stage_id).func];
    std::vector<Site> sites;
    if (index.stage(stage_id).is_extern) {
        return sites;  // its loops run inside of the function that it calls
    }
    if (schedule.placement == Placement::At) {
        for (const Site& site : bodies(index, nest, schedule.compute.stage)) {
            if (site.stage == schedule.compute.stage && site.level > schedule.compute.level) {
                break;
            }
            sites.push_back(site);
        }
    }
    const StageNest& own = nest_of(index, nest, stage_id);
    const bool is_closed = index.is_closed[static_cast<size_t>(index.stage(stage_id).func)];
    for (int level = 0; level < own.inner_level() && !is_closed; level++) {
        if (loops_that_turn(own.levels[static_cast<size_t>(level)]) > 0) {
            sites.push_back({static_cast<int16_t>(stage_id), static_cast<int8_t>(level), Site::kAllLoops});
        }
    }
    return sites;
}

int innermost_dim(const PipelineIndex& index, const LoopNest& nest, int func) {
    return index.func(func).is_input ? index.func(func).row_dim : nest[func].innermost_dim;
}

namespace {

// Do the turns of a loop write side by side along its dimension, wherever values send them along the others?
bool writes_side_by_side(const Stage& stage, size_t loop) {
    const auto is_side_by_side = [&](const Access& store) {
        for (size_t dim = 0; dim < store.jacobian.size(); dim++) {
            const JacobianRow& row = store.jacobian[dim];
            const int wanted = static_cast<int>(dim) == stage.loops[loop].pure_dim ? 1 : 0;
            if (row.is_known[loop] == 0 || row.numerator[loop] != wanted * row.denominator[loop]) {
                return false;
            }
        }
        return true;
    };
    return !stage.loops[loop].is_reduction && std::ranges::all_of(stage.stores, is_side_by_side);
}

}  // namespace

bool may_vectorize(const PipelineIndex& index, int stage_id, size_t loop) {
    const Stage& stage = index.stage(stage_id);
    // The lanes of a scatter may meet in one place, and its predicated form is scalar code all the same.
    const bool is_scatter = stage.has_data_dependent_write && !writes_side_by_side(stage, loop);
    return !stage.is_extern && !is_scatter && stage.bare_loops[loop] == 0 &&
           !index.reads_as_aligned[static_cast<size_t>(stage_id)];
}

bool is_parallel_level(const PipelineIndex& index, const LoopNest& nest, const Site& site) {
    return site.level == 0 && nest_of(index, nest, site.stage).is_parallel;
}

bool is_in_tile(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule) {
    return schedule.placement == Placement::At &&
           schedule.compute.level == nest_of(index, nest, schedule.compute.stage).inner_level() - 1;
}

Site parallel_body_around(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule) {
    const FuncSchedule* inner = &schedule;
    while (inner->placement == Placement::At) {
        const int stage = inner->compute.stage;
        if (nest_of(index, nest, stage).is_parallel) {
            return {static_cast<int16_t>(stage), 0, Site::kAllLoops};
        }
        inner = &nest[index.stage(stage).func];
    }
    return Site{};
}

bool can_be_parallel(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule) {
    return schedule.is_computed() && parallel_body_around(index, nest, schedule).is_root();
}

std::vector<Site> common_sites(const PipelineIndex& index, const LoopNest& nest, int func) {
    return common_places(index, nest, func, [&](int stage) { return bodies(index, nest, stage); });
}
}  // namespace metol::cpu
