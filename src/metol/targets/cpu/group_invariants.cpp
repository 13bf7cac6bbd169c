// Loads that stay the same from one turn of the innermost loop to the next: compilers make them before it.
#include <algorithm>
#include <cmath>

#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

// The innermost loop around what is unrolled of a tile: its turns, and the level that it is of.
GroupFeaturizer::Turns GroupFeaturizer::innermost_turns(const StageContext& context) const {
    const int tile = context.nest.inner_level();
    if (context.tile != context.nest.levels.back()) {  // one of the tile's own: vectors innermost, reductions outermost
        const auto steps = [&](int loop) {
            return context.nest.levels.back()[static_cast<size_t>(loop)] / context.tile[static_cast<size_t>(loop)];
        };
        if (steps(context.nest.vector_loop) > 1) {
            return {context.nest.vector_loop, tile, steps(context.nest.vector_loop)};
        }
        const std::vector<LoopDim>& loops = index_.stage(context.id).loops;
        for (const bool is_reduction : {false, true}) {
            for (int loop = 0; loop < static_cast<int>(loops.size()); loop++) {
                if (loops[static_cast<size_t>(loop)].is_reduction == is_reduction && steps(loop) > 1) {
                    return {loop, tile, steps(loop)};
                }
            }
        }
    }
    const std::vector<int>& order = index_.nest_order(context.id, context.nest.vector_loop);
    const Trips& around = context.nest.levels[static_cast<size_t>(tile - 1)];
    const auto turns =
        std::find_if(order.rbegin(), order.rend(), [&](int loop) { return around[static_cast<size_t>(loop)] > 1; });
    return turns == order.rend() ? Turns{} : Turns{*turns, tile - 1, around[static_cast<size_t>(*turns)]};
}

// Loops inside of that one: each has one turn at the estimated size, which the compiler does not know.
DimSet GroupFeaturizer::loops_inside(const StageContext& context, const Turns& turns, DimSet known) const {
    DimSet inside;
    if (turns.loop < 0 || turns.level == context.nest.inner_level()) {
        return inside;
    }
    const std::vector<int>& order = index_.nest_order(context.id, context.nest.vector_loop);
    for (auto loop = order.rbegin(); loop != order.rend() && *loop != turns.loop; ++loop) {
        const auto i = static_cast<size_t>(*loop);
        inside[i] = !known[i] && !index_.stage(context.id).loops[i].has_constant_extent;
    }
    return inside;
}

// In how many turns of a loop the compiler loads a value once, before the first: in all of them where it stays the
// same.
double GroupFeaturizer::turns_loaded_for(const EffectiveAccess& access, const Turns& turns, int stage) const {
    if (turns.loop < 0) {
        return 1;
    }
    const FuncSchedule& producer = nest_[access.producer];
    const bool is_made_inside = !index_.func(access.producer).is_input && producer.placement == Placement::At &&
                                producer.compute.stage == stage && producer.compute.level >= turns.level;
    // Each lane that data places is guarded by itself, wherever an end may be, and loaded where that lets it.
    const bool is_placed = std::ranges::any_of(access.jacobian, [](const auto& slopes) {
        return std::ranges::any_of(slopes, [](double slope) { return std::isnan(slope); });
    });
    return is_made_inside || is_placed || moves_with(access, static_cast<size_t>(turns.loop)) ? 1 : turns.count;
}

}  // namespace metol::cpu
