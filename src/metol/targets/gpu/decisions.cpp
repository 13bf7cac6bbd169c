#include "targets/gpu/decisions.hpp"

#include <algorithm>
#include <optional>

#include "schedule/inlining.hpp"
#include "schedule/tilings.hpp"
#include "targets/gpu/copies.hpp"
#include "targets/gpu/tiling.hpp"

namespace metol::gpu {

namespace {

// Gives the Stages from number `first` on their default tile.
void tile_by_default(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, size_t first,
                     FuncSchedule& schedule) {
    Regions regions(index, nest);
    std::optional<Regions> of_whole_blocks;
    if (schedule.placement == Placement::At && !is_in_thread(schedule) && !index.has_fixed_sizes) {
        of_whole_blocks.emplace(index, nest, kWholeTile);
    }
    const Func& func = index.func(schedule.func);
    schedule.stages.resize(func.stages.size());
    for (size_t s = first; s < func.stages.size(); s++) {
        const Stage& stage = index.stage(func.stages[s]);
        const Box loops = regions.loops(func.stages[s], schedule.compute);
        Tile tile;
        if (func.is_wrapper && !is_in_thread(schedule)) {
            tile = default_copy_tile(index, nest, stage, loops, schedule.compute);
        } else if (!machine.keeps_on_host(schedule.func)) {
            // As many points a thread as it takes where the block has all its threads.
            const Box whole = of_whole_blocks ? of_whole_blocks->loops(func.stages[s], schedule.compute) : loops;
            tile = default_tile(machine, index, stage, whole, schedule, schedule.innermost_dim);
        }
        schedule.stages[s] = make_nest(stage, loops, schedule, tile);
    }
}

// May the kernel that runs a Func be launched, and does it keep in its registers what each thread has?
Pruned check_kernel(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, int func) {
    Regions regions(index, nest);
    for (int32_t stage : index.func(func).stages) {
        const int root = kernel_of(index, nest, stage);
        if (nest_of(index, nest, root).vector_loop < 0) {
            continue;
        }
        const Kernel estimated = kernel(index, nest, regions, root, index.order);
        const Kernel made =
            index.has_fixed_sizes ? estimated : with_whole_blocks(index, nest, regions, estimated, index.order);
        if (made.threads_per_block() > machine.max_threads_per_block) {
            return Pruned::TooManyThreads;
        }
        if (made.shared_bytes > machine.shared_bytes_per_block) {
            return Pruned::TooMuchSharedMemory;
        }
        if (made.registers > machine.max_registers_per_thread ||
            made.registers * static_cast<double>(made.threads_per_block()) > machine.registers_per_multiprocessor) {
            return Pruned::TooManyRegisters;
        }
        if (made.members > kMaxFuncsInKernel) {
            return Pruned::NestTooDeep;
        }
        if (nest[func].placement == Placement::Root) {
            continue;
        }
        return Pruned::None;  // all Stages of a Func inside a kernel are in the same
    }
    return Pruned::None;
}

// A Func inside a kernel is computed anew where blocks, or threads, overlap.
Pruned check_recompute(const PipelineIndex& index, const LoopNest& nest, int func) {
    Regions regions(index, nest);
    const Site& site = nest[func].compute;
    const int64_t computed = regions.production(func).points() * regions.iterations(site);
    const int64_t needed = std::max<int64_t>(1, regions.computed(func, Site{}).points());
    return computed > kMaxRecompute * needed ? Pruned::RecomputesTooMuch : Pruned::None;
}

Pruned check_thread_values(const PipelineIndex& index, const LoopNest& nest, int func) {
    Regions regions(index, nest);
    const double words = index.func(func).bytes_per_point() / 4.0;
    const bool fits = static_cast<double>(regions.production(func).points()) * words <= kMaxThreadValues;
    return fits ? Pruned::None : Pruned::TooManyRegisters;
}

// The dimension along which the threads of a Func lie, and its neighbours in memory, until its tile is decided about.
// At root its own loads go to the same memory as those of its readers; inside a block both are tried (families.cpp).
int dense_dimension(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) {
    if (index.func(decision.func).is_output) {
        return index.func(decision.func).row_dim;
    }
    if (decision.vector_loop >= 0) {
        return decision.vector_loop;
    }
    return decision.kind == DecisionKind::Root ? dimension_of_most_loads(index, nest, decision.func)
                                               : dimension_read_densely(index, nest, decision.func);
}

Pruned apply_location(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                      LoopNest& child) {
    FuncSchedule schedule;
    schedule.func = decision.func;
    auto& slot = child.funcs[static_cast<size_t>(decision.func)];
    if (decision.kind == DecisionKind::Inline) {
        schedule.placement = Placement::Inline;
        slot = pool.intern(schedule);
        if (index.must_inline[static_cast<size_t>(decision.func)]) {
            return Pruned::None;
        }
        // A reader that computes more than is needed, to fill its tiles, asks as much of a Func at root.
        const bool is_free = index.func(decision.func).is_inlinable && is_read_pointwise(index, child, decision.func);
        const Pruned reason = is_free ? Pruned::None : check_inline(index, child, decision.func, kMaxRecompute);
        return reason == Pruned::None ? check_expression(index, child, decision.func, kMaxLoads) : reason;
    }
    schedule.placement = Placement::Root;
    if (decision.kind == DecisionKind::At) {
        schedule.placement = Placement::At;
        schedule.compute = schedule.store = {decision.stage, decision.level, Site::kAllLoops};
        if (!is_offered(index, child, decision)) {
            return Pruned::InvalidDecision;
        }
    }
    if (decision.is_split) {
        cut_into_chunks(index, pool, decision, child);
        // Chunks may be clamped where the whole loop is not.
        if (!has_constant_region(index, child, decision.func)) {
            return Pruned::InvalidDecision;
        }
    }
    schedule.innermost_dim = static_cast<int8_t>(dense_dimension(index, child, decision));
    slot = pool.intern(schedule);
    if (schedule.placement == Placement::At) {
        // What is copied again is not computed again.
        const bool is_copy = index.func(decision.func).is_wrapper;
        const Pruned reason =
            is_copy ? check_copy(index, child, decision.func) : check_recompute(index, child, decision.func);
        if (reason != Pruned::None) {
            return reason;
        }
    }
    tile_by_default(machine, index, child, 0, schedule);
    slot = pool.intern(schedule);
    if (schedule.placement != Placement::At) {
        return Pruned::None;
    }
    if (is_in_thread(schedule)) {
        if (const Pruned reason = check_thread_values(index, child, decision.func); reason != Pruned::None) {
            return reason;
        }
    }
    return check_kernel(machine, index, child, decision.func);
}

// The points or threads that a decision asks for, in place of those in `tile`.
Pruned read_tile(const Stage& stage, const Decision& decision, Spread spread, Tile& tile) {
    const bool is_points = decision.kind == DecisionKind::Inner;
    if (is_points) {
        tile.spread = spread;
        const std::vector<int> loops = parallel_loops(stage, -1, spread);
        if (std::find(loops.begin(), loops.end(), decision.vector_loop) == loops.end()) {
            return Pruned::InvalidDecision;
        }
        tile.thread_loop = decision.vector_loop;
    }
    const std::vector<int> open = parallel_loops(stage, -1, tile.spread);
    Trips& trips = is_points ? tile.points : tile.threads;
    int64_t points = 1;
    size_t dimensions = 0;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        trips[i] = decision.trips[i];
        if (trips[i] < 1 || (trips[i] > 1 && std::ranges::count(open, static_cast<int>(i)) == 0)) {
            return Pruned::InvalidDecision;
        }
        points *= is_points ? trips[i] : 1;
        dimensions += !is_points && trips[i] > 1 && static_cast<int>(i) != tile.thread_loop ? 1 : 0;
    }
    if (dimensions >= kBlockDimensions) {
        return Pruned::InvalidDecision;
    }
    return points > kMaxPoints ? Pruned::TileTooLarge : Pruned::None;
}

// Are the multiprocessors and the lanes of warps busy, as far as the loops have iterations enough?
Pruned check_occupied(const GpuParameters& machine, const Stage& stage, const Box& loops, const StageNest& nest) {
    int64_t tiles = 1;
    int64_t blocks = 1;
    int64_t threads = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (!is_serial(stage, nest, i)) {
            tiles *= divide_up(std::max<int64_t>(1, loops[static_cast<int>(i)].extent()), nest.levels[kPoint][i]);
        }
        blocks *= nest.levels[kBlocks][i];
        threads *= nest.levels[kThreads][i];
    }
    const int64_t warp = machine.warp_threads;
    // A block of one warp cannot be made smaller to any use.
    if (threads > warp && blocks < machine.multiprocessors &&
        tiles >= kBlocksPerMultiprocessor * warp * machine.multiprocessors) {
        return Pruned::TooFewTasks;
    }
    const int64_t lanes = (threads + warp - 1) / warp * warp;
    const bool is_idle = static_cast<double>(threads) < kLeastLaneShare * static_cast<double>(lanes);
    if (!is_idle || tiles < warp) {
        return Pruned::None;
    }
    // A block numbers its threads along three loops: where these are short, no choice keeps the lanes busy.
    int64_t most = 1;
    for (const std::vector<int32_t>& choices : thread_choices(machine, stage, loops, nest)) {
        most *= choices.back();
    }
    return most >= warp ? Pruned::IdleLanes : Pruned::None;
}

Pruned apply_tile(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                  LoopNest& child) {
    FuncSchedule schedule = child[decision.func];
    const Func& func = index.func(decision.func);
    const auto own = std::find(func.stages.begin(), func.stages.end(), decision.stage);
    if (!schedule.is_computed() || own == func.stages.end()) {
        return Pruned::InvalidDecision;
    }
    const Stage& stage = index.stage(decision.stage);
    const auto position = static_cast<size_t>(own - func.stages.begin());
    Regions regions(index, child);
    const Box loops = regions.loops(decision.stage, schedule.compute);
    Tile tile = tile_of(schedule.stages[position]);
    if (tile.thread_loop < 0) {
        return Pruned::InvalidDecision;
    }
    const bool is_root = schedule.placement == Placement::Root;
    const Spread plain = plain_spread(schedule);
    // Paths of before pure loops had atomic updates say it by the loop alone.
    const bool is_plain =
        decision.outside == 0 && std::ranges::count(parallel_loops(stage, -1, plain), int{decision.vector_loop}) > 0;
    const bool wants_atomic = decision.kind == DecisionKind::Inner && !is_plain;
    if (wants_atomic && !may_be_atomic(machine, index, stage, loops, schedule)) {
        return Pruned::InvalidDecision;
    }
    const Spread spread = wants_atomic ? Spread::Atomic : plain;
    if (const Pruned reason = read_tile(stage, decision, spread, tile); reason != Pruned::None) {
        return reason;
    }
    if (decision.kind == DecisionKind::Inner && is_root) {
        tile.threads = default_root_tile(machine, stage, loops, tile.thread_loop, spread).threads;
    }
    schedule.stages[position] = make_nest(stage, loops, schedule, tile);
    if (decision.kind == DecisionKind::Parallel) {
        const Pruned reason = check_occupied(machine, stage, loops, schedule.stages[position]);
        if (reason != Pruned::None) {
            return reason;
        }
    }
    if (decision.kind == DecisionKind::Inner && position == 0 && !func.is_output) {
        // Neighbouring threads write to neighbouring places.
        schedule.innermost_dim = static_cast<int8_t>(stage.loops[static_cast<size_t>(tile.thread_loop)].pure_dim);
        child.funcs[static_cast<size_t>(decision.func)] = pool.intern(schedule);
        tile_by_default(machine, index, child, 1, schedule);
    }
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return check_kernel(machine, index, child, decision.func);
}

}  // namespace

Pruned apply(const GpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
             const Decision& decision, LoopNest& child) {
    child = nest;
    child.decisions_made++;
    switch (decision.kind) {
        case DecisionKind::Keep:
            return Pruned::None;
        case DecisionKind::Inline:
        case DecisionKind::Root:
        case DecisionKind::At:
            return apply_location(machine, index, pool, decision, child);
        case DecisionKind::Inner:
        case DecisionKind::Parallel:
            return apply_tile(machine, index, pool, decision, child);
        default:
            return Pruned::InvalidDecision;
    }
}

}  // namespace metol::gpu
