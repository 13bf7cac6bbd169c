#include "targets/cpu/prefetching.hpp"

#include <algorithm>

#include "schedule/reads.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// The body of one loop of a level, whatever the loops inside it.
Site body_of(const PipelineIndex& index, const LoopNest& nest, int stage_id, int level, int loop) {
    const StageNest& own = nest_of(index, nest, stage_id);
    const std::vector<int>& order = index.nest_order(stage_id, own.vector_loop);
    const Trips& trips = own.levels[static_cast<size_t>(level)];
    Site site{static_cast<int16_t>(stage_id), static_cast<int8_t>(level), Site::kAllLoops};
    const auto place = std::find(order.begin(), order.end(), loop);
    const bool has_inner =
        std::any_of(place + 1, order.end(), [&](int inner) { return trips[static_cast<size_t>(inner)] > 1; });
    if (has_inner) {
        site.loops = static_cast<int8_t>(place - order.begin() + 1);
    }
    return site;
}

// Does the loop take the Stage to other rows of `func`?
bool changes_rows(const StageReads& reads, int func, int innermost_dim, size_t loop) {
    return std::any_of(reads.accesses.begin(), reads.accesses.end(), [&](const EffectiveAccess& access) {
        for (size_t d = 0; d < access.jacobian.size() && access.producer == func; d++) {
            if (static_cast<int>(d) != innermost_dim && access.jacobian[d][loop] != 0) {
                return true;
            }
        }
        return false;
    });
}

// Shared loops get other names from Halide.
bool shares_loops(const LoopNest& nest, const PipelineIndex& index, int stage_id) {
    return std::any_of(nest.funcs.begin(), nest.funcs.end(), [&](const FuncSchedule* schedule) {
        const int leader = schedule->leader();
        return leader >= 0 &&
               (schedule->func == index.stage(stage_id).func || index.stage(leader).func == index.stage(stage_id).func);
    });
}

// Does the second cache hold this twice: what is worked on, and what is asked for?
bool fits_twice(const CpuParameters& machine, const Func& func, const Box& box) {
    return 2 * box.points() * func.bytes_per_point() <= machine.l2_bytes;
}

bool fetches_its_lines(const CpuParameters& machine, const Func& func, const Box& box, int innermost_dim) {
    return func.bytes_per_point() == 1 ||
           box[innermost_dim].extent() * func.bytes_per_point() <= machine.cache_line_bytes;
}

}  // namespace

Site prefetch_site(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const StageNest& own = nest_of(index, nest, stage_id);
    return body_of(index, nest, stage_id, own.prefetch_level, own.prefetch_loop);
}

double prefetched_share(const StageNest& nest) {
    const auto level = static_cast<size_t>(nest.prefetch_level);
    return 1 - 1.0 / nest.levels[level][static_cast<size_t>(nest.prefetch_loop)];
}

std::vector<DecisionFamily> prefetch_families(const CpuParameters& machine, const PipelineIndex& index,
                                              const LoopNest& nest, const DecisionStep& step) {
    Decision decision;
    decision.func = step.func;
    decision.stage = step.stage;
    std::vector<DecisionFamily> families = {{decision, {}}};
    if (machine.seconds_per_segment <= 0 || !nest[step.func].is_computed() ||
        index.is_closed[static_cast<size_t>(step.func)] || shares_loops(nest, index, step.stage)) {
        return families;
    }
    decision.kind = DecisionKind::Prefetch;
    decision.trips.fill(1);
    Regions regions(index, nest);
    const StageNest& own = nest_of(index, nest, step.stage);
    const auto reads = effective_reads(index, nest, step.stage);
    std::vector<ReadBox> boxes;
    for (int level = own.is_parallel ? 1 : 0; level < own.inner_level(); level++) {
        for (size_t loop = 0; loop < index.stage(step.stage).loops.size(); loop++) {
            if (own.levels[static_cast<size_t>(level)][loop] <= 1) {
                continue;
            }
            const Site site = body_of(index, nest, step.stage, level, static_cast<int>(loop));
            read_boxes(index, nest, step.stage, regions.loops(step.stage, site), boxes);
            for (const ReadBox& read : boxes) {
                const Func& func = index.func(read.producer);
                const FuncSchedule& schedule = nest[read.producer];
                // What is fetched is one box, which is none of those that are read where these lie apart.
                if (func.is_input || func.is_output || func.value_bytes.size() > 1 ||
                    index.is_read_crosswise[static_cast<size_t>(read.producer)] ||
                    schedule.placement != Placement::Root || read.box.is_empty ||
                    index.is_closed[static_cast<size_t>(read.producer)]) {
                    continue;
                }
                const bool is_beyond_l2 =
                    regions.computed(read.producer, Site{}).points() * func.bytes_per_point() > machine.l2_bytes;
                if (is_beyond_l2 && fits_twice(machine, func, read.box) &&
                    fetches_its_lines(machine, func, read.box, schedule.innermost_dim) &&
                    changes_rows(*reads, read.producer, schedule.innermost_dim, loop)) {
                    decision.level = static_cast<int8_t>(level);
                    decision.trips[0] = read.producer;
                    decision.trips[1] = static_cast<int32_t>(loop);
                    families.push_back({decision, {}});
                }
            }
        }
    }
    return families;
}

Pruned apply_prefetch(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                      LoopNest& child) {
    const DecisionStep step{DecisionStep::Kind::Prefetch, decision.func, decision.stage};
    const std::vector<DecisionFamily> families = prefetch_families(machine, index, child, step);
    if (std::none_of(families.begin(), families.end(), [&](const auto& family) { return family.base == decision; })) {
        return Pruned::InvalidDecision;
    }
    FuncSchedule schedule = child[decision.func];
    StageNest& own = schedule.stages[static_cast<size_t>(index.stage(decision.stage).index)];
    own.prefetched = static_cast<int16_t>(decision.trips[0]);
    own.prefetch_level = decision.level;
    own.prefetch_loop = static_cast<int8_t>(decision.trips[1]);
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}

}  // namespace metol::cpu
