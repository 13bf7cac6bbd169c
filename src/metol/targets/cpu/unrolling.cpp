#include "targets/cpu/unrolling.hpp"

#include <algorithm>

#include "targets/cpu/fusing.hpp"
#include "targets/cpu/guards.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/steps_in_lanes.hpp"

namespace metol::cpu {

namespace {

// The parts of a loop, as lowering makes them.
struct Parts {
    int outside = 0;  // of the tile
    int in_tile = 0;
    int outermost = 0;  // level
};

Parts parts_of(const PipelineIndex& index, const StageNest& own, int stage_id, size_t loop) {
    const auto tile = static_cast<int>(own.levels.size()) - 1;
    Parts parts{0, 0, tile - 1};
    for (int level = tile - 1; level >= 0; level--) {
        if (own.levels[static_cast<size_t>(level)][loop] > 1) {
            parts.outside++;
            parts.outermost = level;
        }
    }
    parts.outside = std::max(1, parts.outside);
    const int32_t points = own.levels.back()[loop];
    if (points > 1) {
        parts.in_tile = static_cast<int>(loop) == own.vector_loop && points > own.vector_width ? 2 : 1;
    } else {
        parts.in_tile = index.func(index.stage(stage_id).func).joint.empty() ? 0 : 1;
    }
    return parts;
}

// Does a window slide over the turns of a loop of a Stage, each of which is a tile?
bool holds_window(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop) {
    const StageNest& own = nest_of(index, nest, stage_id);
    const Parts parts = parts_of(index, own, stage_id, loop);
    return parts.outside == 1 && parts.in_tile > 0 && own.levels.back()[loop] > 1 &&
           std::ranges::any_of(nest.funcs, [&](const FuncSchedule* guest) {
               return guest->placement == Placement::At && guest->slide_dim >= 0 && guest->compute.stage == stage_id &&
                      guest->compute.level == parts.outermost &&
                      own.levels[static_cast<size_t>(parts.outermost)][loop] > 1;
           });
}

// Does a split of a loop leave a guard, on its iterations or its lanes?
bool has_guarded_split(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop) {
    const Stage& stage = index.stage(stage_id);
    const Func& func = index.func(stage.func);
    const Parts parts = parts_of(index, nest_of(index, nest, stage_id), stage_id, loop);
    const bool is_update = stage.index > 0;
    if (parts.outside + parts.in_tile < 2) {
        return false;
    }
    const LoopDim& dim = stage.loops[loop];
    if (holds_window(index, nest, stage_id, loop) && rounds_tiles_up(index, nest, stage_id, loop)) {
        return is_update && parts.in_tile > 1;
    }
    if (dim.is_rvar || is_update || is_leader(index, nest, stage.func)) {
        return true;
    }
    if (func.is_output && index.has_fixed_sizes) {
        int64_t factor = 1;
        const std::vector<Trips>& levels = nest_of(index, nest, stage_id).levels;
        for (size_t level = static_cast<size_t>(parts.outermost) + 1; level < levels.size(); level++) {
            factor *= levels[level][loop];
        }
        const int64_t extent = func.estimate[static_cast<size_t>(dim.pure_dim)].extent();
        return extent % factor != 0 && extent < factor;
    }
    return is_guarded(index, nest, stage.func, dim.pure_dim);
}

int dense_dim(const PipelineIndex& index, const LoopNest& nest, int func) {
    const Func& own = index.func(func);
    return own.is_input || own.is_output ? own.dense_dim : nest[func].innermost_dim;
}

// Do lanes along a loop of a Stage read neighbours in memory, or one place for all?
bool reads_densely(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop) {
    const auto is_dense = [&](int producer, const Access& access) {
        const Func& func = index.func(producer);
        const bool is_open = !func.is_input && nest[producer].placement == Placement::Unscheduled;
        for (size_t d = 0; d < access.jacobian.size(); d++) {
            const JacobianRow& row = access.jacobian[d];
            if (row.is_known[loop] && row.numerator[loop] == 0) {
                continue;
            }
            if (!row.is_known[loop] || row.numerator[loop] != row.denominator[loop]) {
                return false;
            }
            if (!func.is_input && nest[producer].placement == Placement::Inline) {
                const int definition = func.stages.front();
                const std::vector<LoopDim>& loops = index.stage(definition).loops;
                const auto along = std::ranges::find(loops, static_cast<int32_t>(d), &LoopDim::pure_dim);
                if (!reads_densely(index, nest, definition, static_cast<size_t>(along - loops.begin()))) {
                    return false;
                }
            } else if (!is_open && static_cast<int>(d) != dense_dim(index, nest, producer)) {
                return false;
            }
        }
        return true;
    };
    const Stage& stage = index.stage(stage_id);
    return std::ranges::all_of(stage.self_accesses, [&](const Access& own) { return is_dense(stage.func, own); }) &&
           std::ranges::all_of(stage.edges, [&](const Edge& edge) {
               return std::ranges::all_of(edge.accesses,
                                          [&](const Access& access) { return is_dense(edge.producer, access); });
           });
}

// Does a boundary condition clamp what lanes along a loop read?
bool clamps_lanes(const PipelineIndex& index, const Stage& stage, size_t loop) {
    const auto is_clamped = [](const BoundPair& side) { return !side.min.is_affine() || !side.max.is_affine(); };
    return index.func(stage.func).is_boundary_condition && std::ranges::any_of(stage.edges, [&](const Edge& edge) {
               return std::ranges::any_of(edge.accesses, [&](const Access& access) {
                   for (size_t d = 0; d < access.jacobian.size(); d++) {
                       if (access.jacobian[d].numerator[loop] != 0 && is_clamped(edge.bounds[d])) {
                           return true;
                       }
                   }
                   return false;
               });
           });
}

}  // namespace

bool unrolls_tile(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const StageNest& own = nest_of(index, nest, stage_id);
    const Stage& stage = index.stage(stage_id);
    if (own.vector_loop < 0 || (rounds_vectors_up(index, nest, stage_id) && !indexes_by_value(index, nest, stage_id))) {
        return true;
    }
    const auto lanes = static_cast<size_t>(own.vector_loop);
    bool is_any_guarded = false;
    for (size_t loop = 0; loop < stage.loops.size() && !is_any_guarded; loop++) {
        is_any_guarded = has_guarded_split(index, nest, stage_id, loop);
    }
    if (!is_any_guarded || loop_in_lanes(index, nest, stage_id) >= 0) {
        return true;
    }
    const Func& func = index.func(stage.func);
    const bool stores_densely = !func.is_output || stage.loops[lanes].pure_dim == func.dense_dim;
    return stores_densely && reads_densely(index, nest, stage_id, lanes) &&
           !(clamps_lanes(index, stage, lanes) && has_guarded_split(index, nest, stage_id, lanes));
}

}  // namespace metol::cpu
