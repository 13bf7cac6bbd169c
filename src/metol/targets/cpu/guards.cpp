#include "targets/cpu/guards.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedule/reads.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// Is a Func computed in the loops of another: there, or inlined into what is? `seen` has the inlined Funcs that are
// not.
bool is_within(const PipelineIndex& index, const LoopNest& nest, int func, int host, std::vector<int>& seen) {
    while (func != host && nest[func].placement == Placement::At) {
        func = index.stage(nest[func].compute.stage).func;
    }
    if (func == host || nest[func].placement != Placement::Inline || std::ranges::find(seen, func) != seen.end()) {
        return func == host;
    }
    const bool is_any = std::ranges::any_of(index.consumers[static_cast<size_t>(func)], [&](const Consumer& consumer) {
        return is_within(index, nest, index.stage(consumer.stage).func, host, seen);
    });
    if (!is_any) {
        seen.push_back(func);
    }
    return is_any;
}

// Does anybody read a Func at a fraction of its coordinates, looking through what is computed inside `host`? Halide
// adds a point where it cannot tell even from odd. Along one dimension, or any where that is -1.
bool is_read_by_fractions(const PipelineIndex& index, const LoopNest& nest, int func, int host, int dim) {
    if (!index.is_read_by_fractions[static_cast<size_t>(func)]) {
        return false;
    }
    const auto is_fraction = [](double slope) { return slope != std::floor(slope); };
    const std::vector<int> readers = readers_of(index, nest, func);
    return std::ranges::any_of(readers, [&](int stage_id) {
        const int reader = index.stage(stage_id).func;
        const std::shared_ptr<const StageReads> reads = effective_reads(index, nest, stage_id);
        const bool is_direct = std::ranges::any_of(reads->accesses, [&](const EffectiveAccess& access) {
            for (size_t d = 0; d < access.jacobian.size() && access.producer == func; d++) {
                if ((dim < 0 || static_cast<size_t>(dim) == d) &&
                    std::ranges::any_of(access.jacobian[d], is_fraction)) {
                    return true;
                }
            }
            return false;
        });
        return is_direct || (reader != func && reader != host && is_read_by_fractions(index, nest, reader, host, -1));
    });
}

// Does what is split off a Func's loop first divide what it computes at once, for sure?
bool divides_evenly(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const Site& site, size_t loop) {
    const int func = index.stage(site.stage).func;
    const LoopDim& split = index.stage(site.stage).loops[loop];
    const Site& around = nest[func].compute;
    const int64_t extent = split.is_rvar ? regions.loops(site.stage, around)[static_cast<int>(loop)].extent()
                                         : regions.computed(func, around)[split.pure_dim].extent();
    const std::vector<Trips>& levels = nest_of(index, nest, site.stage).levels;
    auto level = std::ranges::find_if(levels, [&](const Trips& trips) { return trips[loop] > 1; });
    int64_t factor = 1;
    while (level != levels.end() && ++level != levels.end()) {
        factor *= (*level)[loop];
    }
    return extent % factor == 0 && (split.is_rvar ? split.has_constant_extent
                                                  : has_constant_extent(index, nest, regions, func, split.pure_dim));
}

// Does a loop that turns outside a site move places apart at which the host needs a Func, so that it needs more?
bool is_pulled_apart(const PipelineIndex& index, const LoopNest& nest, const Site& site, int func, int dim) {
    const Stage& stage = index.stage(site.stage);
    const auto& all = index.moving_apart[static_cast<size_t>(stage.func)];
    const auto found = std::ranges::find(all, func, &MovingApart::producer);
    if (found == all.end()) {
        return false;
    }
    const std::vector<Trips>& levels = nest_of(index, nest, site.stage).levels;
    for (size_t loop = 0; loop < stage.loops.size(); loop++) {
        const bool turns = std::any_of(levels.begin(), levels.begin() + site.level + 1,
                                       [&](const Trips& trips) { return trips[loop] > 1; });
        if (turns && found->coordinates[static_cast<size_t>(dim)][static_cast<size_t>(coordinate_of(stage, loop))]) {
            return true;
        }
    }
    return false;
}

// Does a loop of a host that ends with a guard move what is needed of `func` along a dimension, from one turn of the
// loops at a site to the next?
bool is_cut_short(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const Site& site, int func,
                  int dim) {
    const int host = index.stage(site.stage).func;
    const Stage& stage = index.stage(site.stage);
    const std::vector<Trips>& levels = nest_of(index, nest, site.stage).levels;
    const Box& turn = regions.loops(site.stage, site);
    for (size_t loop = 0; loop < stage.loops.size(); loop++) {
        const bool is_split = std::any_of(levels.begin(), levels.begin() + site.level + 1,
                                          [&](const Trips& trips) { return trips[loop] > 1; });
        if (!is_split || stage.loops[loop].is_reduction || turn[static_cast<int>(loop)].extent() <= 1) {
            continue;
        }
        const int moved = stage.loops[loop].pure_dim;
        // How far an RVar goes does not tell how far what it needs reaches: it is taken to go along.
        const bool is_cut =
            stage.loops[loop].is_rvar ||
            (index.growth.of(host, moved, func)[static_cast<size_t>(dim)] && is_guarded(index, nest, host, moved));
        if (is_cut && !divides_evenly(index, nest, regions, site, loop)) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool indexes_by_value(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const auto does = [&](const Stage& stage) {
        return stage.has_data_dependent_read || stage.has_data_dependent_write;
    };
    return does(index.stage(stage_id)) ||
           std::ranges::any_of(effective_reads(index, nest, stage_id)->inlined, [&](const InlinedUse& use) {
               return does(index.stage(index.func(use.func).stages.front()));
           });
}

bool has_exact_side(const PipelineIndex& index, const LoopNest& nest, int output, int dim) {
    const int stage_id = index.func(output).stages.front();
    if (indexes_by_value(index, nest, stage_id)) {
        return false;
    }
    const std::vector<Trips>& levels = nest[output].stages.front().levels;
    int outermost = static_cast<int>(levels.size());  // level with a guest
    for (const FuncSchedule* guest : nest.funcs) {
        for (const Site& site : {guest->compute, guest->store}) {
            if (guest->placement == Placement::At && site.stage == stage_id) {
                outermost = std::min<int>(outermost, site.level);
            }
        }
    }
    const auto is_along = [&](const LoopDim& loop) { return !loop.is_rvar && loop.pure_dim == dim; };
    const std::vector<LoopDim>& loops = index.stage(stage_id).loops;
    const auto loop = static_cast<size_t>(std::ranges::find_if(loops, is_along) - loops.begin());
    return outermost < static_cast<int>(levels.size()) &&
           std::all_of(
               levels.begin(), levels.begin() + outermost + 1, [&](const Trips& trips) { return trips[loop] <= 1; });
}

namespace {

// Does Halide know where along the sides of an output a turn of its loops begins that needs more of a Func the further
// it goes?
bool begins_somewhere_known(const PipelineIndex& index, const LoopNest& nest, int func, int dim) {
    int host = func;
    while (nest[host].placement == Placement::At) {
        host = index.stage(nest[host].compute.stage).func;
    }
    if (!index.func(host).is_output || host == func) {
        return false;
    }
    for (int side = 0; side < index.func(host).dimensions(); side++) {
        if (index.growth.of(host, side, func)[static_cast<size_t>(dim)] && !has_exact_side(index, nest, host, side)) {
            return false;
        }
    }
    return true;
}

// Does what a Func, or what is computed inside its loops, reads of an input grow along a dimension?
bool reads_more_input(const PipelineIndex& index, const LoopNest& nest, int func, int dim) {
    std::vector<int> seen;
    return std::ranges::any_of(index.growth.readers(), [&](const Growth::Reader& reader) {
        return (index.growth.of(func, dim, reader.func) & reader.dims).any() &&
               is_within(index, nest, reader.func, func, seen);
    });
}

}  // namespace

bool is_guarded(const PipelineIndex& index, const LoopNest& nest, int func, int dim) {
    const Func& own = index.func(func);
    if (own.stages.size() > 1 || nest[func].slide_dim == dim) {
        return true;
    }
    if (own.is_output) {  // those that others read, or that share loops, have no other version
        return !index.consumers[static_cast<size_t>(func)].empty() || nest[func].leader() >= 0 || !own.joint.empty();
    }
    return indexes_by_value(index, nest, own.stages.front()) || reads_more_input(index, nest, func, dim);
}

bool rounds_tiles_up(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop) {
    const Stage& stage = index.stage(stage_id);
    const Func& func = index.func(stage.func);
    if (func.is_output || func.stages.size() < 2 || stage.has_predicate || nest[stage.func].leader() >= 0 ||
        is_leader(index, nest, stage.func)) {
        return false;
    }
    const LoopDim& dim = stage.loops[loop];
    return !dim.is_rvar && nest[stage.func].slide_dim != dim.pure_dim &&
           !reads_more_input(index, nest, stage.func, dim.pure_dim);
}

bool rounds_vectors_up(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const int vector_loop = nest_of(index, nest, stage_id).vector_loop;
    return vector_loop >= 0 && rounds_tiles_up(index, nest, stage_id, static_cast<size_t>(vector_loop));
}

bool has_constant_extent(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func, int dim) {
    Site site = nest[func].store;
    const bool begins_anywhere = !begins_somewhere_known(index, nest, func, dim);
    int inner = func;
    while (!site.is_root()) {
        const int host = index.stage(site.stage).func;
        if ((begins_anywhere && is_read_by_fractions(index, nest, inner, host, inner == func ? dim : -1)) ||
            is_cut_short(index, nest, regions, site, func, dim) || is_pulled_apart(index, nest, site, func, dim)) {
            return false;
        }
        const Site around = nest[host].placement == Placement::At ? nest[host].store : Site{};
        if (regions.computed(func, site)[dim].extent() < regions.computed(func, around)[dim].extent()) {
            return true;
        }
        inner = host;
        site = around;
    }
    // All there is: known in the version of an output for sides of the estimated size, or where nothing moves it.
    if (index.has_fixed_sizes || (index.func(inner).is_output && inner != func)) {
        return true;
    }
    for (int along = 0; along < index.func(inner).dimensions(); along++) {
        if (index.growth.of(inner, along, func)[static_cast<size_t>(dim)]) {
            return false;
        }
    }
    return true;
}

bool hides_places(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const Func& func = index.func(stage.func);
    const StageNest& own = nest_of(index, nest, stage_id);
    if (func.value_bytes.size() < 2 || stage.self_accesses.empty() || func.is_output || own.vector_loop < 0 ||
        nest[stage.func].placement != Placement::Root || index.has_fixed_sizes) {
        return false;
    }
    const auto v = static_cast<size_t>(own.vector_loop);
    const int dim = stage.loops[v].pure_dim;
    const auto turns =
        std::count_if(own.levels.begin(), own.levels.end() - 1, [&](const Trips& trips) { return trips[v] > 1; });
    return !stage.loops[v].is_rvar && turns > 1 && !func.fixed_dims[static_cast<size_t>(dim)];
}

DimSet unknown_strides(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const bool is_input = index.func(func).is_input;
    const bool is_allocated =
        !is_input && (nest[func].placement == Placement::At || (index.has_fixed_sizes && !index.func(func).is_output));
    const auto innermost = static_cast<size_t>(innermost_dim(index, nest, func));
    const auto dimensions = static_cast<size_t>(index.func(func).dimensions());
    const auto is_known = [&](size_t dim) {
        return is_allocated && has_constant_extent(index, nest, regions, func, static_cast<int>(dim));
    };
    // The channels of interleaved pixels lie side by side, and rows begin after them.
    const Func& own = index.func(func);
    const auto is_inside = [&](size_t dim) { return own.interleaved > 1 && static_cast<int>(dim) == own.dense_dim; };
    DimSet unknown;
    bool is_unknown = false;
    size_t inner = innermost;  // the dimension before, as they lie in memory
    for (size_t dim = 0; dim < dimensions; dim++) {
        if (dim != innermost && !is_inside(dim)) {
            is_unknown = is_unknown || !is_known(inner);
            unknown[dim] = is_unknown;
            inner = dim;
        }
    }
    return unknown;
}

}  // namespace metol::cpu
