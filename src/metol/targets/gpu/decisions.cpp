#include "targets/gpu/decisions.hpp"

#include <algorithm>
#include <optional>

#include "schedule/inlining.hpp"
#include "schedule/regions.hpp"
#include "schedule/tilings.hpp"

namespace metol::gpu {

namespace {

// CUDA and OpenCL number the threads of a block in three dimensions.
constexpr size_t kBlockDimensions = 3;
// Adams et al. 2019, §3.2: no value is computed more than ten times.
constexpr int64_t kMaxRecompute = 10;
// Threads a block is offered along its first, second and third loop; the least along the first is a quarter of a warp.
constexpr std::array<int32_t, kBlockDimensions> kMostThreads = {1024, 32, 8};
constexpr int32_t kLeastWarpShare = 4;
// Threads of a block until the search decides: eight warps.
constexpr int32_t kDefaultThreads = 256;

// The pure loops of a Stage from the innermost outwards, `first` before the others. Empty for code that is not ours.
std::vector<int> pure_loops(const Stage& stage, int first) {
    std::vector<int> loops;
    if (stage.is_extern || stage.is_undef) {
        return loops;
    }
    for (int i = 0; i < static_cast<int>(stage.loops.size()); i++) {
        if (!stage.loops[static_cast<size_t>(i)].is_reduction && i != first) {
            loops.push_back(i);
        }
    }
    if (first >= 0) {
        loops.insert(loops.begin(), first);
    }
    return loops;
}

StageNest make_nest(const Stage& stage, const Box& loops, int thread_loop, const Trips& threads) {
    StageNest nest;
    nest.vector_loop = static_cast<int8_t>(thread_loop);
    nest.is_parallel = thread_loop >= 0;
    nest.levels.assign(3, unit_trips());
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int64_t extent = std::max<int64_t>(1, loops[static_cast<int>(i)].extent());
        if (stage.loops[i].is_reduction || thread_loop < 0) {
            nest.levels[kPoints][i] = static_cast<int32_t>(extent);
            continue;
        }
        nest.levels[kThreads][i] = threads[i];
        nest.levels[kBlocks][i] = divide_up(extent, threads[i]);
    }
    return nest;
}

// Threads along the loop that walks `dim`, and along the others what is left of them.
StageNest default_nest(const GpuParameters& machine, const Stage& stage, const Box& loops, int dim) {
    int thread_loop = -1;
    for (int loop : pure_loops(stage, -1)) {
        const bool is_preferred = stage.loops[static_cast<size_t>(loop)].pure_dim == dim;
        thread_loop = thread_loop < 0 || is_preferred ? loop : thread_loop;
    }
    Trips threads = unit_trips();
    int32_t left = std::min(kDefaultThreads, machine.max_threads_per_block);
    size_t dimension = 0;
    for (int loop : pure_loops(stage, thread_loop)) {
        if (dimension == kBlockDimensions) {
            break;
        }
        const int32_t most = dimension == 0 ? machine.warp_threads : kMostThreads[dimension];
        const int32_t count = std::min({left, most, power_of_two_at_least(loops[loop].extent())});
        threads[static_cast<size_t>(loop)] = count;
        left /= count;
        dimension++;
    }
    return make_nest(stage, loops, thread_loop, threads);
}

// Gives the Stages from number `first` on their default block.
void tile_by_default(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, size_t first,
                     FuncSchedule& schedule) {
    Regions regions(index, nest);
    const Func& func = index.func(schedule.func);
    schedule.stages.resize(func.stages.size());
    for (size_t s = first; s < func.stages.size(); s++) {
        const Box loops = regions.loops(func.stages[s], Site{});
        schedule.stages[s] = default_nest(machine, index.stage(func.stages[s]), loops, schedule.innermost_dim);
    }
}

std::vector<int32_t> powers_of_two(int32_t least, int32_t most) {
    std::vector<int32_t> powers;
    for (int32_t power = least; power <= most; power *= 2) {
        powers.push_back(power);
    }
    return powers;
}

std::vector<DecisionFamily> block_families(const GpuParameters& machine, const PipelineIndex& index,
                                           const LoopNest& nest, const DecisionStep& step) {
    const Stage& stage = index.stage(step.stage);
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, Site{});
    std::vector<DecisionFamily> families;
    const std::vector<int> candidates = pure_loops(stage, -1);
    for (size_t c = 0; c < std::min(candidates.size(), kBlockDimensions); c++) {
        if (c > 0 && loops[candidates[c]].extent() <= 1) {
            continue;
        }
        Decision decision;
        decision.kind = DecisionKind::Inner;
        decision.func = step.func;
        decision.stage = step.stage;
        decision.vector_loop = static_cast<int8_t>(candidates[c]);
        DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
        const std::vector<int> order = pure_loops(stage, candidates[c]);
        for (size_t d = 0; d < std::min(order.size(), kBlockDimensions); d++) {
            const int32_t enough = power_of_two_at_least(std::max<int64_t>(1, loops[order[d]].extent()));
            const int32_t least = d == 0 ? std::min(enough, std::max(1, machine.warp_threads / kLeastWarpShare)) : 1;
            family.choices[static_cast<size_t>(order[d])] =
                powers_of_two(least, std::min({enough, kMostThreads[d], machine.max_threads_per_block}));
        }
        families.push_back(std::move(family));
    }
    return families;
}

Pruned apply_location(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                      LoopNest& child) {
    FuncSchedule schedule;
    schedule.func = decision.func;
    auto& slot = child.funcs[static_cast<size_t>(decision.func)];
    if (decision.kind == DecisionKind::Inline) {
        schedule.placement = Placement::Inline;
        slot = pool.intern(schedule);
        return check_inline(index, child, decision.func, kMaxRecompute);
    }
    schedule.placement = Placement::Root;
    slot = pool.intern(schedule);
    tile_by_default(machine, index, child, 0, schedule);
    slot = pool.intern(std::move(schedule));
    return Pruned::None;
}

// The block that a decision asks for; empty where there is no such block.
std::optional<Trips> block_of(const Stage& stage, const Decision& decision) {
    const std::vector<int> loops = pure_loops(stage, -1);
    if (std::find(loops.begin(), loops.end(), decision.vector_loop) == loops.end()) {
        return std::nullopt;
    }
    Trips threads = unit_trips();
    size_t dimensions = 0;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        threads[i] = decision.trips[i];
        dimensions += threads[i] > 1 && static_cast<int>(i) != decision.vector_loop ? 1 : 0;
        if (threads[i] < 1 || (threads[i] > 1 && stage.loops[i].is_reduction)) {
            return std::nullopt;
        }
    }
    return dimensions < kBlockDimensions ? std::optional(threads) : std::nullopt;
}

Pruned apply_block(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                   LoopNest& child) {
    FuncSchedule schedule = child[decision.func];
    const Func& func = index.func(decision.func);
    const auto own = std::find(func.stages.begin(), func.stages.end(), decision.stage);
    if (!schedule.is_computed() || own == func.stages.end()) {
        return Pruned::InvalidDecision;
    }
    const Stage& stage = index.stage(decision.stage);
    const std::optional<Trips> threads = block_of(stage, decision);
    if (!threads) {
        return Pruned::InvalidDecision;
    }
    int64_t total = 1;
    for (int32_t count : *threads) {
        total *= count;
        if (total > machine.max_threads_per_block) {
            return Pruned::TileTooLarge;
        }
    }
    Regions regions(index, child);
    const auto position = static_cast<size_t>(own - func.stages.begin());
    const Box loops = regions.loops(decision.stage, Site{});
    schedule.stages[position] = make_nest(stage, loops, decision.vector_loop, *threads);
    if (position == 0 && !func.is_output) {
        // Neighbouring threads write to neighbouring places.
        schedule.innermost_dim = static_cast<int8_t>(stage.loops[static_cast<size_t>(decision.vector_loop)].pure_dim);
        tile_by_default(machine, index, child, 1, schedule);
    }
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}

}  // namespace

std::vector<DecisionStep> steps(const PipelineIndex& index) {
    std::vector<DecisionStep> all;
    for (int32_t func : index.order) {
        const auto f = static_cast<int16_t>(func);
        all.push_back({DecisionStep::Kind::Location, f, -1});
        if (index.must_inline[static_cast<size_t>(func)]) {
            continue;
        }
        for (int32_t stage : index.func(func).stages) {
            all.push_back({DecisionStep::Kind::Inner, f, static_cast<int16_t>(stage)});
        }
    }
    return all;
}

std::vector<DecisionFamily> families(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options) {
    Decision decision;
    decision.func = step.func;
    decision.stage = step.stage;
    if (step.kind == DecisionStep::Kind::Inner) {
        const bool has_choice = nest[step.func].is_computed() && !pure_loops(index.stage(step.stage), -1).empty();
        return has_choice ? block_families(machine, index, nest, step) : std::vector<DecisionFamily>{{decision, {}}};
    }
    std::vector<DecisionFamily> families;
    const auto f = static_cast<size_t>(step.func);
    if (options.allow_inline && index.is_inlinable[f]) {
        decision.kind = DecisionKind::Inline;
        families.push_back({decision, {}});
    }
    if (families.empty() || !index.must_inline[f]) {
        decision.kind = DecisionKind::Root;
        families.push_back({decision, {}});
    }
    return families;
}

bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) {
    switch (decision.kind) {
        case DecisionKind::Inner:
            return nest[decision.func].is_computed();
        case DecisionKind::Inline:
            return index.is_inlinable[static_cast<size_t>(decision.func)] != 0;
        case DecisionKind::Keep:
        case DecisionKind::Root:
            return true;
        default:
            return false;
    }
}

Pruned apply(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
             const Decision& decision, LoopNest& child) {
    child = nest;
    child.decisions_made++;
    switch (decision.kind) {
        case DecisionKind::Keep:
            return Pruned::None;
        case DecisionKind::Inline:
        case DecisionKind::Root:
            return apply_location(machine, index, pool, decision, child);
        case DecisionKind::Inner:
            return apply_block(machine, index, pool, decision, child);
        default:
            return Pruned::InvalidDecision;
    }
}

}  // namespace metol::gpu
