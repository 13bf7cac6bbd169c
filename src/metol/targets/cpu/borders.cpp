#include "targets/cpu/borders.hpp"

#include <algorithm>
#include <cmath>

#include "targets/cpu/fusing.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/guards.hpp"

namespace metol::cpu {

namespace {

// Turns of a loop that are split off: the first and the last.
constexpr double kTurnsAtBorders = 2;

bool turns_outside_tile(const StageNest& nest, size_t loop, int level) {
    return std::any_of(nest.levels.begin() + level, nest.levels.begin() + nest.inner_level(),
                       [&](const Trips& trips) { return trips[loop] > 1; });
}

// The innermost loop of a Stage that turns outside its tile; level -1 where none does.
struct Innermost {
    int level = -1;
    int loop = -1;
};

Innermost innermost_loop(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const StageNest& own = nest_of(index, nest, stage_id);
    const std::vector<int>& order = index.nest_order(stage_id, own.vector_loop);
    for (int level = own.inner_level() - 1; level >= 0; level--) {
        const Trips& trips = own.levels[static_cast<size_t>(level)];
        const auto turns = [&](int loop) { return trips[static_cast<size_t>(loop)] > 1; };
        if (const auto last = std::find_if(order.rbegin(), order.rend(), turns); last != order.rend()) {
            return {level, *last};
        }
    }
    return {};
}

// Is a Func computed inside the loops of a level of a Stage, or further in?
bool is_inside(const PipelineIndex& index, const LoopNest& nest, int func, int stage_id, int level) {
    while (nest[func].placement == Placement::At) {
        const Site& site = nest[func].compute;
        if (site.stage == stage_id) {
            return site.level >= level;
        }
        func = index.stage(site.stage).func;
    }
    return false;
}

// What clamps the lanes of the vectors of a Stage.
struct Clamps {
    bool any = false;
    bool of_guests = false;  // what is computed in the same loops is read between bounds
};

Clamps clamps_of(const PipelineIndex& index, const LoopNest& nest, int stage_id, int host, int level) {
    Clamps clamps;
    const int lanes = nest_of(index, nest, stage_id).vector_loop;
    if (lanes < 0) {
        return clamps;
    }
    for (const EffectiveAccess& access : effective_reads(index, nest, stage_id)->accesses) {
        if (is_clamped_along(access, lanes)) {
            clamps.any = true;
            clamps.of_guests = clamps.of_guests || is_inside(index, nest, access.producer, host, level);
        }
    }
    return clamps;
}

bool is_alone(const PipelineIndex& index, const LoopNest& nest, int func) {
    return nest[func].placement == Placement::Root && index.func(func).joint.empty() && nest[func].leader() < 0 &&
           !is_leader(index, nest, func);
}

}  // namespace

bool is_clamped_along(const EffectiveAccess& access, int vector_loop) {
    bool is_clamped = false;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const double slope = access.jacobian[d][static_cast<size_t>(vector_loop)];
        if (std::isnan(slope)) {
            return false;
        }
        is_clamped = is_clamped || (access.clamped[d] && slope != 0);
    }
    return is_clamped;
}

bool keeps_lanes_whole(const PipelineIndex& index, const LoopNest& nest, int stage_id, int level) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    if (own.vector_loop < 0 || !is_alone(index, nest, stage.func)) {
        return false;
    }
    const auto lanes = static_cast<size_t>(own.vector_loop);
    const LoopDim& loop = stage.loops[lanes];
    if (loop.is_rvar || is_guarded(index, nest, stage.func, loop.pure_dim)) {
        return false;
    }
    const Clamps here = clamps_of(index, nest, stage_id, stage_id, level);
    if (here.of_guests || (here.any && !turns_outside_tile(own, lanes, level + 1))) {
        return false;
    }
    bool is_worth_it = false;
    for (const FuncSchedule* guest : nest.funcs) {
        if (guest->placement != Placement::At || !is_inside(index, nest, guest->func, stage_id, level)) {
            continue;
        }
        for (int32_t inner : index.func(guest->func).stages) {
            const Clamps clamps = clamps_of(index, nest, inner, stage_id, level);
            const bool has_the_borders =
                innermost_loop(index, nest, inner).loop == nest_of(index, nest, inner).vector_loop;
            if (clamps.of_guests || (clamps.any && !has_the_borders)) {
                return false;
            }
            is_worth_it = is_worth_it || clamps.any;
        }
    }
    return is_worth_it;
}

bool may_split(const PipelineIndex& index, const LoopNest& nest, const Site& site, size_t loop) {
    const StageNest& own = nest_of(index, nest, site.stage);
    const int func = index.stage(site.stage).func;
    if (nest[func].placement != Placement::Root || !index.func(func).joint.empty()) {
        const Innermost innermost = innermost_loop(index, nest, site.stage);
        return innermost.level == site.level && innermost.loop == static_cast<int>(loop);
    }
    // Where the turns of several loops are those of one, Halide cannot tell which are at a border.
    if (site.level == 0 && own.is_parallel && loops_that_turn(own.levels.front()) > 1) {
        return false;
    }
    const auto lanes = static_cast<size_t>(own.vector_loop);
    if (own.vector_loop < 0 || loop == lanes || !turns_outside_tile(own, lanes, 0) || !is_alone(index, nest, func)) {
        return true;
    }
    // What is clamped along other loops is a scalar or two a row; so is a guard, where there is little else.
    return !index.func(func).is_boundary_condition &&
           is_guarded(index, nest, func, index.stage(site.stage).loops[loop].pure_dim);
}

std::vector<std::vector<int>> whole_lane_levels(const PipelineIndex& index, const LoopNest& nest) {
    std::vector<std::vector<int>> levels(index.dag->stages.size());
    for (const FuncSchedule* schedule : nest.funcs) {
        if (schedule->placement != Placement::Root) {
            continue;
        }
        for (int32_t stage : index.func(schedule->func).stages) {
            if (index.stage(stage).is_extern || index.stage(stage).is_undef) {
                continue;
            }
            const StageNest& own = nest_of(index, nest, stage);
            for (int level = 0; level < own.inner_level() && own.vector_loop >= 0; level++) {
                const bool turns = own.levels[static_cast<size_t>(level)][static_cast<size_t>(own.vector_loop)] > 1;
                if (turns && keeps_lanes_whole(index, nest, stage, level)) {
                    levels[static_cast<size_t>(stage)].push_back(level);
                }
            }
        }
    }
    return levels;
}

double GroupFeaturizer::border_share(const StageContext& context, size_t own_loop) {
    const Stage& stage = index_.stage(context.id);
    const int dim = stage.loops[own_loop].pure_dim;
    // Does a loop move what the Stage computes along `own_loop`?
    const auto moves = [&](const Site& site, size_t loop) {
        if (site.stage == context.id) {
            return loop == own_loop;
        }
        const Stage& host = index_.stage(site.stage);
        const int side = host.loops[loop].pure_dim;
        return dim >= 0 && side >= 0 && index_.growth.of(host.func, side, stage.func)[static_cast<size_t>(dim)];
    };
    const auto is_whole = [&](const Site& site, size_t loop) {
        if (static_cast<int>(loop) != nest_of(index_, nest_, site.stage).vector_loop) {
            return false;
        }
        const uint64_t key = site_key(4, site.stage, site);
        if (const double* found = storage_->find(key)) {
            return *found != 0;
        }
        return (storage_->add(key) = keeps_lanes_whole(index_, nest_, site.stage, site.level)) != 0;
    };
    double turns = 1;
    for (const Site& site : context.chain) {
        if (site.is_root() || site.loops != Site::kAllLoops) {
            continue;
        }
        const StageNest& host = nest_of(index_, nest_, site.stage);
        const Trips& trips = host.levels[static_cast<size_t>(site.level)];
        for (int loop : index_.nest_order(site.stage, host.vector_loop)) {
            const auto i = static_cast<size_t>(loop);
            if (trips[i] <= 1 || !moves(site, i)) {
                continue;
            }
            turns *= trips[i];
            if (may_split(index_, nest_, site, i) && !is_whole(site, i)) {
                return std::min(1.0, kTurnsAtBorders / turns);
            }
        }
    }
    return static_cast<int>(own_loop) == context.nest.vector_loop ? 1 : 0;
}

double GroupFeaturizer::clamped_share(const StageContext& context) {
    const int lanes = context.nest.vector_loop;
    std::bitset<kMaxLoops> clamped;  // loops that move a coordinate with bounds, of a read whose lanes have some
    for (const EffectiveAccess& access : context.reads.accesses) {
        for (size_t d = 0; lanes >= 0 && d < access.jacobian.size() && is_clamped_along(access, lanes); d++) {
            for (size_t i = 0; i < index_.stage(context.id).loops.size(); i++) {
                clamped[i] = clamped[i] || (access.clamped[d] && access.jacobian[d][i] != 0);
            }
        }
    }
    double inside = 1;  // the share that is at no border
    for (size_t i = 0; i < clamped.size(); i++) {
        inside *= clamped[i] ? 1 - border_share(context, i) : 1;
    }
    return 1 - inside;
}

}  // namespace metol::cpu
