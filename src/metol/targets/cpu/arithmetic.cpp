#include "targets/cpu/arithmetic.hpp"

#include <algorithm>
#include <cmath>

#include "targets/cpu/limits.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

bool is_reduction(const Stage& stage) {
    return std::ranges::any_of(stage.loops, &LoopDim::is_reduction);
}

const Stage& definition_of(const PipelineIndex& index, const InlinedUse& use) {
    return index.stage(index.func(use.func).stages.front());
}

// Are all of these loops, or dimensions, among those that are known?
bool are_known(uint32_t picked_by, const DimSet& known) {
    return picked_by != 0 && (picked_by & ~static_cast<uint32_t>(known.to_ulong())) == 0;
}

// Dimensions of an inlined Func along which what reads it asks for places that are numbers.
DimSet known_dimensions(const InlinedUse& use, size_t dimensions, DimSet known) {
    DimSet dims;
    for (size_t d = 0; d < dimensions; d++) {
        dims[d] = std::ranges::all_of(use.places, [&](const EffectiveAccess& access) {
            for (size_t i = 0; i < kMaxLoops; i++) {
                const double slope = access.jacobian[d][i];
                if (std::isnan(slope) || access.phases[d][i] || (slope != 0 && !known[i])) {
                    return false;
                }
            }
            return true;
        });
    }
    return dims;
}

// May an output have a version in which its sides are as estimated?
bool has_estimated_version(const PipelineIndex& index, int func) {
    const Func& own = index.func(func);
    return own.is_output && own.stages.size() == 1 && index.consumers[static_cast<size_t>(func)].empty() &&
           own.joint.empty();
}

}  // namespace

DimSet picking_loops(const PipelineIndex& index, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    DimSet picking;
    if (is_reduction(stage)) {
        return picking;
    }
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int dim = stage.loops[i].pure_dim;
        if (stage.picking_loops[i] && dim >= 0) {
            const int64_t extent = index.func(stage.func).root_region[static_cast<size_t>(dim)].extent();
            picking[i] = extent > 1 && extent <= kMaxPicked;
        }
    }
    return picking;
}

DimSet picking_loops(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    DimSet picking = picking_loops(index, stage_id);
    if (is_reduction(stage)) {
        return picking;
    }
    for (const InlinedUse& use : effective_reads(index, nest, stage_id)->inlined) {
        const Stage& inlined = definition_of(index, use);
        const DimSet picking_there = picking_loops(index, index.func(use.func).stages.front());
        for (size_t own = 0; own < inlined.loops.size(); own++) {
            const auto dim = static_cast<size_t>(inlined.loops[own].pure_dim);
            for (size_t i = 0; picking_there[own] && i < stage.loops.size(); i++) {
                const int64_t extent =
                    index.func(stage.func).root_region[static_cast<size_t>(stage.loops[i].pure_dim)].extent();
                const bool is_moving = std::ranges::any_of(use.places, [&](const EffectiveAccess& access) {
                    return access.jacobian[dim][i] != 0;  // or not known
                });
                picking[i] = picking[i] || (is_moving && extent > 1 && extent <= kMaxPicked);
            }
        }
    }
    return picking;
}

std::vector<std::vector<int>> picking_loops(const PipelineIndex& index, const LoopNest& nest) {
    std::vector<std::vector<int>> loops(static_cast<size_t>(index.stage_count()));
    for (int stage = 0; stage < index.stage_count(); stage++) {
        const DimSet picking = picking_loops(index, nest, stage);
        for (int loop = 0; loop < kMaxLoops; loop++) {
            if (picking[static_cast<size_t>(loop)]) {
                loops[static_cast<size_t>(stage)].push_back(loop);
            }
        }
    }
    return loops;
}

bool is_picked_among(const PipelineIndex& index, int reader, int stage) {
    return !is_reduction(index.stage(reader)) && picking_loops(index, stage).any();
}

DimSet known_loops(const PipelineIndex& index, int stage_id, const TileShape& tile, const Box& loops) {
    DimSet known;
    const Stage& stage = index.stage(stage_id);
    const Func& func = index.func(stage.func);
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const LoopDim& loop = stage.loops[i];
        const int64_t extent = loops[static_cast<int>(i)].extent();
        if (extent > tile.points[i] || static_cast<int>(i) == tile.vector_loop || loop.is_rvar || loop.pure_dim < 0) {
            continue;
        }
        const auto dim = static_cast<size_t>(loop.pure_dim);
        const bool is_fixed = func.is_output ? has_estimated_version(index, stage.func) : func.fixed_dims[dim];
        known[i] = extent == func.root_region[dim].extent() && (index.has_fixed_sizes || is_fixed);
    }
    return known;
}

double own_share(const CpuParameters& machine, int stage, const TileShape& tile, DimSet known, const Repeats& repeats) {
    const std::vector<ArithmeticPart>& parts = machine.arithmetic[static_cast<size_t>(stage)];
    if (parts.empty()) {
        return 1;
    }
    Trips steps = tile.points;
    if (tile.vector_loop >= 0) {
        steps[static_cast<size_t>(tile.vector_loop)] /= std::max(1, tile.vector_width);
    }
    double share = 0;
    double vectors = 1;
    for (size_t i = 0; i < tile.loops; i++) {
        vectors *= steps[i];
    }
    for (const ArithmeticPart& part : parts) {
        double computed = are_known(part.picked_by, known) ? 0 : 1;
        for (size_t i = 0; i < tile.loops; i++) {
            computed *= part.loops >> i & 1U ? steps[i] : 1;
        }
        const bool is_before = repeats.loop >= 0 && !(part.loops >> repeats.loop & 1U) &&
                               (part.loops & static_cast<uint32_t>(repeats.inside.to_ulong())) == 0;
        computed /= is_before ? repeats.turns : 1;
        share += part.share * computed / vectors;
    }
    // Where all of it is picking, there is still something to store.
    return std::clamp(share, 1 / (vectors * repeats.turns), 1.0);
}

double inlined_share(const CpuParameters& machine, const PipelineIndex& index, const TileShape& tile, double vectors,
                     const InlinedUse& use, DimSet known, DimSet untold) {
    const Stage& stage = definition_of(index, use);
    const std::vector<ArithmeticPart>& parts =
        machine.arithmetic[static_cast<size_t>(index.func(use.func).stages.front())];
    // Compilers make (x / y) * z a division of x * z, so that all who multiply by a quotient divide.
    if (parts.empty() || stage.ends_in_quotient) {
        return 1;
    }
    const double asked = std::max(1.0, vectors) * use.calls_per_point;
    double places = 0;
    for (const EffectiveAccess& access : use.places) {
        places += places_in_tile(access, tile, untold);
    }
    const DimSet dims = known_dimensions(use, static_cast<size_t>(index.func(use.func).dimensions()), known);
    double share = 0;
    for (const ArithmeticPart& part : parts) {
        uint32_t picked_by = 0;  // as dimensions
        DimSet moving;
        for (size_t i = 0; i < stage.loops.size(); i++) {
            const auto dim = static_cast<size_t>(stage.loops[i].pure_dim);
            picked_by |= (part.picked_by >> i & 1U) << dim;
            moving[dim] = (part.loops >> i & 1U) != 0;
        }
        double computed = 0;
        for (const EffectiveAccess& access : use.places) {
            computed += are_known(picked_by, dims) ? 0 : places_along(access, tile, untold, moving);
        }
        share += part.share * std::min({1.0, places / asked, computed / asked});
    }
    return std::min(1.0, share);
}

}  // namespace metol::cpu
