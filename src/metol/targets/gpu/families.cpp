// What can be decided next: the candidates of each step of the GPU space.
#include <algorithm>

#include "schedule/inlining.hpp"
#include "schedule/nest_queries.hpp"
#include "schedule/tilings.hpp"
#include "targets/gpu/copies.hpp"
#include "targets/gpu/decisions.hpp"
#include "targets/gpu/tiling.hpp"
#include "targets/locations.hpp"

namespace metol::gpu {

namespace {

// Does Halide lower the only Stage that reads a Func with it inlined?
bool fits_inline(const PipelineIndex& index, const LoopNest& nest, int func) {
    FuncSchedule schedule;
    schedule.func = static_cast<int16_t>(func);
    schedule.placement = Placement::Inline;
    LoopNest child = nest;
    child.funcs[static_cast<size_t>(func)] = &schedule;
    return check_expression(index, child, func, kMaxLoads) == Pruned::None;
}

// May a Func with a constant region be computed inside this level of a kernel?
bool fits_level(const PipelineIndex& index, const LoopNest& nest, int func, int level) {
    return level == kThreads ? has_constant_share(index, nest, func) : can_be_padded(index, func);
}

std::vector<DecisionFamily> location_families(const GpuParameters& machine, const PipelineIndex& index,
                                              const LoopNest& nest, int func, const SpaceOptions& options) {
    std::vector<DecisionFamily> families = inline_and_root(index, func, options);
    if (machine.keeps_on_host(func) && families.size() > 1) {
        families.erase(families.begin());
    }
    // Nothing is computed twice, and nothing stored (Anderson et al. 2021, §4).
    const bool is_copy = index.func(func).is_wrapper;
    const bool is_free =
        families.size() > 1 && !is_copy && is_read_pointwise(index, nest, func) && fits_inline(index, nest, func);
    if (is_free) {
        families.resize(1);
    }
    const bool is_inline = families.back().base.kind == DecisionKind::Inline;
    const bool is_ours = !is_inline && may_be_computed_inside(index, func) && !machine.keeps_on_host(func);
    // A kernel that does nothing but copy brings nothing; a copy that is inlined is not there.
    if (is_copy) {
        families.resize(1);
        families.front().base.kind = DecisionKind::Inline;
    }
    if (!options.allow_compute_at || !is_ours || !has_constant_region(index, nest, func)) {
        return families;
    }
    Decision decision;
    decision.kind = DecisionKind::At;
    decision.func = static_cast<int16_t>(func);
    decision.trips.fill(1);
    const int of_loads = dimension_of_most_loads(index, nest, func);
    const bool has_other = of_loads != dimension_read_densely(index, nest, func);
    for (const Site& site : kernel_sites(index, nest, func)) {
        if (!fits_level(index, nest, func, site.level)) {
            continue;
        }
        decision.stage = site.stage;
        decision.level = site.level;
        families.push_back({decision, {}});
        if (has_other && site.level == kBlocks) {
            families.push_back({decision, {}});
            families.back().base.vector_loop = static_cast<int8_t>(of_loads);
        }
    }
    if (fits_level(index, nest, func, kBlocks)) {
        std::ranges::move(chunk_families(index, nest, func), std::back_inserter(families));
    }
    if (is_copy && !options.allow_inline && families.size() > 1) {
        families.erase(families.begin());
    }
    return families;
}

// Points of a thread along a loop: small powers of two, all of a short loop, and what leaves whole warps.
std::vector<int32_t> point_choices(const GpuParameters& machine, int64_t extent) {
    std::vector<int32_t> choices;
    for (int32_t points : kPoints) {
        if (points <= extent) {
            choices.push_back(points);
        }
    }
    for (int32_t points : kOddPoints) {
        if (points == extent || extent % (static_cast<int64_t>(points) * machine.warp_threads) == 0) {
            choices.push_back(points);
        }
    }
    return choices;
}

// The same for threads that are spread in one way, added to `families`.
void add_point_families(const GpuParameters& machine, const Stage& stage, const Box& loops, const DecisionStep& step,
                        Spread spread, const SpaceOptions& options, std::vector<DecisionFamily>& families) {
    const std::vector<int> candidates = parallel_loops(stage, -1, spread);
    for (size_t c = 0; c < std::min(candidates.size(), kBlockDimensions); c++) {
        if (c > 0 && loops[candidates[c]].extent() <= 1) {
            continue;
        }
        Decision decision;
        decision.kind = DecisionKind::Inner;
        decision.func = step.func;
        decision.stage = step.stage;
        decision.vector_loop = static_cast<int8_t>(candidates[c]);
        decision.outside = spread == Spread::Atomic ? 1 : 0;
        DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
        const std::vector<int> order = parallel_loops(stage, candidates[c], spread);
        for (size_t d = 0; d < std::min(order.size(), kBlockDimensions) && options.allow_unroll; d++) {
            family.choices[static_cast<size_t>(order[d])] = point_choices(machine, loops[order[d]].extent());
        }
        families.push_back(std::move(family));
    }
}

std::vector<DecisionFamily> point_families(const GpuParameters& machine, const PipelineIndex& index,
                                           const LoopNest& nest, const DecisionStep& step,
                                           const SpaceOptions& options) {
    const Stage& stage = index.stage(step.stage);
    const FuncSchedule& schedule = nest[step.func];
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, schedule.compute);
    std::vector<DecisionFamily> families;
    add_point_families(machine, stage, loops, step, plain_spread(schedule), options, families);
    if (may_be_atomic(machine, index, stage, loops, schedule)) {
        add_point_families(machine, stage, loops, step, Spread::Atomic, options, families);
    }
    return families;
}

std::vector<DecisionFamily> thread_families(const GpuParameters& machine, const PipelineIndex& index,
                                            const LoopNest& nest, const DecisionStep& step) {
    const Stage& stage = index.stage(step.stage);
    const StageNest& own = nest_of(index, nest, step.stage);
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, Site{});
    Decision decision;
    decision.kind = DecisionKind::Parallel;
    decision.func = step.func;
    decision.stage = step.stage;
    DecisionFamily family{decision, thread_choices(machine, stage, loops, own)};
    return {family};
}

bool has_threads(const PipelineIndex& index, const LoopNest& nest, const DecisionStep& step) {
    return nest[step.func].is_computed() && nest_of(index, nest, step.stage).vector_loop >= 0;
}

}  // namespace

std::vector<DecisionStep> steps(const PipelineIndex& index) {
    std::vector<DecisionStep> all;
    for (int32_t func : index.order) {
        const auto f = static_cast<int16_t>(func);
        all.push_back({DecisionStep::Kind::Location, f, -1});
        if (index.must_inline[static_cast<size_t>(func)] || index.func(func).is_extern) {
            continue;
        }
        for (int32_t stage : index.func(func).stages) {
            all.push_back({DecisionStep::Kind::Inner, f, static_cast<int16_t>(stage)});
            all.push_back({DecisionStep::Kind::Parallel, f, static_cast<int16_t>(stage)});
        }
    }
    return all;
}

std::vector<DecisionFamily> families(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options) {
    if (step.kind == DecisionStep::Kind::Location) {
        return without_what_is_denied(location_families(machine, index, nest, step.func, options), step.func, options);
    }
    if (step.kind == DecisionStep::Kind::Inner && has_threads(index, nest, step)) {
        return point_families(machine, index, nest, step, options);
    }
    const bool is_root = nest[step.func].placement == Placement::Root;
    if (step.kind == DecisionStep::Kind::Parallel && is_root && has_threads(index, nest, step)) {
        return thread_families(machine, index, nest, step);
    }
    Decision keep;
    keep.func = step.func;
    keep.stage = step.stage;
    return {{keep, {}}};
}

bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) {
    switch (decision.kind) {
        case DecisionKind::Inner:
            return nest[decision.func].is_computed();
        case DecisionKind::Parallel:
            return nest[decision.func].placement == Placement::Root;
        case DecisionKind::Inline:
            return may_be_inline(index, decision.func);
        case DecisionKind::At: {
            const int level = decision.is_split ? int{kBlocks} : int{decision.level};
            if (!has_constant_region(index, nest, decision.func) || !fits_level(index, nest, decision.func, level)) {
                return false;
            }
            if (decision.is_split) {
                return is_chunk_offered(index, nest, decision);
            }
            const std::vector<Site> sites = kernel_sites(index, nest, decision.func);
            const Site wanted{decision.stage, decision.level, Site::kAllLoops};
            return std::find(sites.begin(), sites.end(), wanted) != sites.end();
        }
        case DecisionKind::Root:
            return !index.func(decision.func).is_wrapper;
        case DecisionKind::Keep:
            return true;
        default:
            return false;
    }
}

}  // namespace metol::gpu
