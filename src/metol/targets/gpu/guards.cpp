#include "targets/gpu/guards.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/reads.hpp"
#include "targets/gpu/kernels.hpp"

namespace metol::gpu {

namespace {

// Does a Stage use a loaded value as a coordinate, or a coordinate that nobody knows how it moves?
bool reads_anywhere(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const auto is_unknown = [](const auto& row) {
        return std::any_of(row.begin(), row.end(), [](double slope) { return std::isnan(slope); });
    };
    const std::vector<EffectiveAccess>& reads = effective_reads(index, nest, stage_id)->accesses;
    return stage.has_data_dependent_read || std::any_of(reads.begin(), reads.end(), [&](const EffectiveAccess& access) {
               return std::any_of(access.jacobian.begin(), access.jacobian.end(), is_unknown);
           });
}

// Is it promised of a loop over points, not told by a clamp, that nothing is read beyond where it ends?
bool has_promised_loop(const Stage& stage) {
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (!stage.loops[i].is_rvar && stage.promised_loops[i]) {
            return true;
        }
    }
    return false;
}

// Is a loop of an output shorter than a block?
bool has_short_loop(const Func& func, const Stage& stage, const StageNest& nest) {
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int64_t block = static_cast<int64_t>(nest.levels[kThreads][i]) * nest.levels[kPoint][i];
        if (!stage.loops[i].is_rvar && func.estimate[static_cast<size_t>(stage.loops[i].pure_dim)].extent() < block) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool is_guarded(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const Func& func = index.func(stage.func);
    if (reads_anywhere(index, nest, stage_id) || stage.has_data_dependent_write || stage.has_predicate) {
        return true;
    }
    if (!func.is_output) {
        return has_promised_loop(stage) || reads_moving_input(index, nest, stage.func);
    }
    if (func.stages.size() > 1) {
        return true;
    }
    const bool is_read = !index.consumers[static_cast<size_t>(stage.func)].empty();
    return is_read || has_short_loop(func, stage, nest_of(index, nest, stage_id));
}

bool reads_moving_input(const PipelineIndex& index, const LoopNest& nest, int func) {
    const auto is_moving = [](const auto& row) {
        return std::any_of(row.begin(), row.end(), [](double slope) { return slope != 0; });
    };
    for (int stage : index.func(func).stages) {
        for (const EffectiveAccess& access : effective_reads(index, nest, stage)->accesses) {
            if (index.func(access.producer).is_input && !access.is_clamped &&
                std::any_of(access.jacobian.begin(), access.jacobian.end(), is_moving)) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace metol::gpu
