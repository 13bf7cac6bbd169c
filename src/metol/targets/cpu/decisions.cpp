// What a decision does to a loop nest.
#include "targets/cpu/decisions.hpp"

#include <algorithm>

#include "schedule/inlining.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/code_size.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/limits.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/prefetching.hpp"
#include "targets/cpu/rows.hpp"
#include "targets/cpu/sliding.hpp"
#include "targets/cpu/stage_tiling.hpp"
#include "targets/cpu/storage.hpp"

namespace metol::cpu {

namespace {

// Moves every site in `stage` at or below `level` one level inward, because that level was split in two.
Site shifted(Site site, int stage, int level) {
    if (site.stage == stage && site.level >= level) {
        site.level++;
    }
    return site;
}

Pruned split_level(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child) {
    const int host_func = index.stage(decision.stage).func;
    FuncSchedule host = child[host_func];
    const auto& stages = index.func(host_func).stages;
    const auto position = static_cast<size_t>(std::find(stages.begin(), stages.end(), decision.stage) - stages.begin());
    auto& levels = host.stages[position].levels;
    const auto level = static_cast<size_t>(decision.level);
    Trips outer = unit_trips();
    Trips inner = levels[level];
    for (size_t i = 0; i < kMaxLoops; i++) {
        inner[i] = std::clamp(decision.trips[i], 1, levels[level][i]);
        outer[i] = divide_up(levels[level][i], inner[i]);
        inner[i] = divide_up(levels[level][i], outer[i]);
    }
    if (loops_that_turn(outer) == 0 || loops_that_turn(inner) == 0) {
        return Pruned::DegenerateSplit;
    }
    levels[level] = inner;
    levels.insert(levels.begin() + decision.level, outer);
    for (const FuncSchedule*& schedule : child.funcs) {
        const bool is_hosted = schedule->compute.stage == decision.stage && schedule->compute.level >= decision.level;
        if (schedule->placement != Placement::At || (!is_hosted && schedule->store.stage != decision.stage)) {
            continue;
        }
        FuncSchedule moved = *schedule;
        if (moved.slide_dim >= 0 && moved.compute.stage == decision.stage && moved.compute.level == decision.level) {
            return Pruned::SplitsSlidingLoop;
        }
        moved.compute = shifted(moved.compute, decision.stage, decision.level);
        moved.store = shifted(moved.store, decision.stage, decision.level);
        schedule = pool.intern(std::move(moved));
    }
    child.funcs[static_cast<size_t>(host_func)] = pool.intern(std::move(host));
    return Pruned::None;
}

Pruned check_recompute(const PipelineIndex& index, const LoopNest& child, Regions& regions, int func) {
    const int stage_id = index.func(func).stages.front();
    if (index.stage(stage_id).is_identity) {
        return Pruned::None;
    }
    const FuncSchedule& schedule = child[func];
    const int64_t computed = regions.production(func).points() * regions.iterations(schedule.compute);
    const int64_t needed = std::max<int64_t>(1, regions.computed(func, Site{}).points());
    return computed > kMaxRecompute * needed ? Pruned::RecomputesTooMuch : Pruned::None;
}

// Does the unrolled tile fit into registers and the cache of decoded instructions? `loops` is what it is a tile of.
Pruned check_tile(const CpuParameters& machine, const PipelineIndex& index, const Stage& stage,
                  const StageTiling& tiling, const Box& loops, bool is_sliding) {
    const int stage_id = index.func(stage.func).stages[static_cast<size_t>(stage.index)];
    const DimSet picking = picking_loops(index, stage_id);
    int64_t unrolled = 1;
    int64_t steps = 1;  // of these, those of reductions
    int64_t picked = 1;
    bool has_rows = false;
    bool is_whole = true;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const bool is_vector = static_cast<int>(i) == tiling.vector_loop;
        unrolled *= is_vector ? tiling.tile[i] / tiling.vector_width : tiling.tile[i];
        const bool is_in_tile = loops[static_cast<int>(i)].extent() <= tiling.tile[i];
        steps *= stage.loops[i].is_reduction ? tiling.tile[i] : 1;
        picked *= picking[i] && !is_vector ? tiling.tile[i] : 1;
        has_rows = has_rows || !(picking[i] || is_vector || is_in_tile || tiling.tile[i] == 1);
        is_whole = is_whole && is_in_tile;
    }
    const int32_t added = steps_at_once(index, stage, tiling);
    unrolled /= added;
    steps /= added;
    const double registers =
        std::max(1.0, static_cast<double>(tiling.vector_width) * stage.widest_bytes / machine.vector_bytes);
    const double lanes = inputs_read_in_turn(index, stage, tiling.vector_loop) * tiling.vector_width;
    const TileShape shape{
        tiling.vector_loop, tiling.vector_width, machine.vector_bytes, stage.loops.size(), tiling.tile, false, 0};
    const double share =
        picking.any() ? own_share(machine, stage_id, shape, known_loops(index, stage_id, shape, loops)) : 1;
    const double code = static_cast<double>(unrolled) * (registers * share * operations_of(stage) + lanes);
    const auto sums = static_cast<int32_t>(kSumsShare * machine.vector_registers);
    const int32_t plain = reduction_loops(stage).empty() ? kMaxUnroll : std::max(kMaxUnroll, sums);
    const int32_t whole = is_whole ? kMaxWholeUnroll : plain;
    const int32_t most = picked > 1 && picked == unrolled ? kMaxPicked : whole;
    const int32_t limit = is_sliding ? kMaxUnroll / kGuardedUnrollShare : most;
    // In a tile that is all of the Stage, sums take a register for all of their steps.
    const int64_t held = is_whole ? unrolled / steps : unrolled;
    const bool is_large = static_cast<double>(held) * registers > limit || code > max_tile_operations(index);
    // All that an output picks among goes to memory at once, each value to another place: rows would multiply these
    // places, which takes up to 1.6 times as long (lattice Boltzmann, planes of luminance and colour differences).
    if (picked > 1 && has_rows && index.func(stage.func).is_output) {
        return Pruned::TileTooLarge;
    }
    return unrolled > 1 && is_large ? Pruned::TileTooLarge : Pruned::None;
}

// May all turns of all reduction loops be unrolled, whatever size the output has?
bool has_short_reductions(const Stage& stage, const Box& loops) {
    int64_t points = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction) {
            points *= stage.loops[i].has_constant_extent ? loops[static_cast<int>(i)].extent() : kMaxSteps + 1;
        }
    }
    return points == 1 || (points <= kMaxSteps && may_unroll_steps(stage) && !stage.ends_by_point);
}

// The tiling of a Stage computed in the body of another's tile, which is short and unrolled: as one tile, if that fits.
// The values of such code need not go through memory. Reduction loops are in it with all of their turns or with one.
StageTiling flattened(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, int stage_id,
                      const Box& loops, const FuncSchedule& schedule, const StageTiling& tiling) {
    const Stage& stage = index.stage(stage_id);
    if (schedule.slide_dim >= 0 || !is_in_tile(index, nest, schedule) || !has_short_reductions(stage, loops)) {
        return tiling;
    }
    StageTiling whole = tiling;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int32_t unit = static_cast<int>(i) == tiling.vector_loop ? tiling.vector_width : 1;
        const int64_t extent = loops[static_cast<int>(i)].extent();
        if (extent > kMaxWholeUnroll * unit) {
            return tiling;
        }
        whole.tile[i] = divide_up(std::max<int64_t>(1, extent), unit) * unit;
    }
    const bool fits = check_tile(machine, index, stage, whole, loops, false) == Pruned::None;
    return fits ? whole : tiling;
}

// `whole`, if it has more turns of reduction loops than `tiling` and nothing else; else `tiling`.
StageTiling with_reductions(const Stage& stage, const StageTiling& tiling, const StageTiling& whole) {
    bool is_same = true;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        is_same = is_same && (stage.loops[i].is_reduction || whole.tile[i] == tiling.tile[i]);
    }
    return is_same ? whole : tiling;
}

// Gives every Stage of a newly placed Func its default tiling.
void tile_by_default(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& child, Regions& regions,
                     FuncSchedule& schedule, int preferred_dim) {
    const Func& func = index.func(schedule.func);
    schedule.stages.clear();
    for (size_t s = 0; s < func.stages.size(); s++) {
        const int stage_id = func.stages[s];
        const Box loops = regions.loops(stage_id, schedule.compute);
        const bool is_root = schedule.placement == Placement::Root;
        const StageTiling rolled = default_tiling(machine, index, stage_id, loops, preferred_dim, schedule);
        const StageTiling tiling = flattened(machine, index, child, stage_id, loops, schedule, rolled);
        schedule.stages.push_back(make_nest(index.stage(stage_id), loops, tiling, is_root));
        const bool sets_layout = s == 0 && !func.is_output && tiling.vector_loop >= 0;
        if (sets_layout) {
            preferred_dim = index.stage(stage_id).loops[static_cast<size_t>(tiling.vector_loop)].pure_dim;
        }
    }
    schedule.innermost_dim = static_cast<int8_t>(func.is_output ? func.row_dim : preferred_dim);
}

// Is there a level of that number, not the innermost, in a Stage that is computed?
bool has_level(const PipelineIndex& index, const LoopNest& nest, int stage_id, int level) {
    if (stage_id < 0 || stage_id >= index.stage_count() || !nest[index.stage(stage_id).func].is_computed()) {
        return false;
    }
    return level >= 0 && level < nest_of(index, nest, stage_id).inner_level();
}

int root_of(const PipelineIndex& index, const LoopNest& nest, int func, int& hosts) {
    for (hosts = 0; nest[func].placement == Placement::At; hosts++) {
        func = index.stage(nest[func].compute.stage).func;
    }
    return func;
}

// Hosts around `func`, and Funcs that share its sub-nest.
bool is_nest_too_deep(const PipelineIndex& index, const LoopNest& child, int func) {
    int hosts = 0;
    const int root = root_of(index, child, func, hosts);
    int members = 0;
    for (int other = 0; other < index.func_count(); other++) {
        int unused = 0;
        members += child[other].is_computed() && root_of(index, child, other, unused) == root ? 1 : 0;
    }
    return hosts > kMaxHosts || members > kMaxFuncsInNest;
}

Pruned apply_location(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                      LoopNest& child) {
    FuncSchedule schedule;
    schedule.func = decision.func;
    auto& slot = child.funcs[static_cast<size_t>(decision.func)];
    if (decision.kind == DecisionKind::Inline) {
        schedule.placement = Placement::Inline;
        slot = pool.intern(schedule);
        if (const Pruned reason = check_inline(index, child, decision.func, kMaxRecompute); reason != Pruned::None) {
            return reason;
        }
        Pruned reason = limit_code(machine, index, pool, child, decision.func);
        if (reason == Pruned::None) {
            Regions regions(index, child);
            reason = warms_up_outside_inputs(index, child, regions) ? Pruned::WarmsUpOutside : Pruned::None;
        }
        return index.must_inline[static_cast<size_t>(decision.func)] ? Pruned::None : reason;
    }
    schedule.placement = Placement::Root;
    if (decision.kind == DecisionKind::At) {
        if (!has_level(index, child, decision.stage, decision.level)) {
            return Pruned::InvalidDecision;
        }
        if (decision.is_split) {
            if (const Pruned reason = split_level(index, pool, decision, child); reason != Pruned::None) {
                return reason;
            }
        }
        schedule.placement = Placement::At;
        schedule.compute = {decision.stage, decision.level, Site::kAllLoops};
        schedule.store = schedule.compute;
        if (decision.is_sliding) {
            if (const Pruned reason = find_slide(index, child, schedule); reason != Pruned::None) {
                return reason;
            }
        }
    }
    slot = pool.intern(schedule);
    if (schedule.placement == Placement::At && is_nest_too_deep(index, child, decision.func)) {
        return Pruned::NestTooDeep;
    }
    if (asks_for_more_in_joint(index, child, decision.func)) {
        return Pruned::AsksForMore;
    }
    Regions regions(index, child);
    if (schedule.placement == Placement::At && warms_up_outside_inputs(index, child, regions)) {
        return Pruned::WarmsUpOutside;
    }
    // A level that is split is rounded up, and moves what is in it.
    const int host = decision.is_split ? -1 : decision.stage;
    if (schedule.slide_dim >= 0 && overflows_stack(index, child, regions, host)) {
        return Pruned::StackOverflows;
    }
    if (const Pruned reason = check_recompute(index, child, regions, decision.func); reason != Pruned::None) {
        return reason;
    }
    const Func& func = index.func(decision.func);
    const int lane_dim = index.lane_dims[static_cast<size_t>(decision.func)];
    const int inner_dim = lane_dim >= 0 ? lane_dim : dimension_read_densely(index, child, decision.func);
    tile_by_default(machine, index, child, regions, schedule, func.is_output ? func.row_dim : inner_dim);
    slot = pool.intern(std::move(schedule));
    return Pruned::None;
}

Pruned check_tasks(const CpuParameters& machine, const Stage& stage, const Box& loops, const Trips& tile,
                   const Trips& made) {
    int64_t tasks = 1;
    int64_t possible = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        tasks *= made[i];
        possible *= stage.loops[i].is_reduction ? 1 : divide_up(loops[static_cast<int>(i)].extent(), tile[i]);
    }
    if (tasks > kMaxTasksPerCore * machine.cores) {
        return Pruned::TooManyTasks;
    }
    // Serial code is always a candidate: the cost model knows what launching a loop costs.
    return tasks > 1 && tasks < std::min<int64_t>(machine.cores, possible) ? Pruned::TooFewTasks : Pruned::None;
}

// Reads the decision into the tiling; the other parts of the tiling stay as they are.
Pruned read_tiling(const Stage& stage, const FuncSchedule& schedule, const Decision& decision, StageTiling& tiling) {
    if (decision.kind == DecisionKind::Parallel) {
        tiling.tasks = decision.trips;
        return Pruned::None;
    }
    const bool is_inner = decision.kind == DecisionKind::Inner;
    const int vector_loop = decision.vector_loop;
    if (is_inner) {
        const bool is_inside = vector_loop < static_cast<int>(stage.loops.size()) && decision.vector_width >= 1;
        if (!is_inside || (vector_loop >= 0 && stage.loops[static_cast<size_t>(vector_loop)].is_reduction) ||
            (vector_loop >= 0 && stage.loops[static_cast<size_t>(vector_loop)].pure_dim == schedule.slide_dim)) {
            return Pruned::InvalidDecision;
        }
        tiling.vector_loop = vector_loop;
        tiling.vector_width = decision.vector_width;
    }
    tiling.outside = is_inner ? 0 : decision.outside;
    tiling.block = is_inner ? 0 : decision.block;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (!stage.loops[i].is_reduction && !is_inner && decision.trips[i] > 1) {
            return Pruned::InvalidDecision;  // of a search for which it was one
        }
        if (stage.loops[i].is_reduction != is_inner) {
            tiling.tile[i] = std::max(1, decision.trips[i]);
        } else if (is_inner) {
            tiling.tile[i] = 1;
        }
    }
    return Pruned::None;
}

// The pure definition sets the order of the storage; the updates follow it.
void set_layout(const CpuParameters& machine, const PipelineIndex& index, Regions& regions, FuncSchedule& schedule) {
    const Func& func = index.func(schedule.func);
    const Stage& pure = index.stage(func.stages.front());
    const auto vector_loop = static_cast<size_t>(schedule.stages.front().vector_loop);
    schedule.innermost_dim = static_cast<int8_t>(pure.loops[vector_loop].pure_dim);
    for (size_t s = 1; s < func.stages.size(); s++) {
        const Box loops = regions.loops(func.stages[s], schedule.compute);
        const StageTiling update =
            default_tiling(machine, index, func.stages[s], loops, schedule.innermost_dim, schedule);
        schedule.stages[s] =
            make_nest(index.stage(func.stages[s]), loops, update, schedule.placement == Placement::Root);
    }
}

Pruned apply_tiling(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                    LoopNest& child) {
    FuncSchedule schedule = child[decision.func];
    const Func& func = index.func(decision.func);
    const auto position =
        static_cast<size_t>(std::find(func.stages.begin(), func.stages.end(), decision.stage) - func.stages.begin());
    if (!schedule.is_computed() || position >= schedule.stages.size()) {
        return Pruned::InvalidDecision;
    }
    const Stage& stage = index.stage(decision.stage);
    const bool is_root = schedule.placement == Placement::Root;
    const bool is_fused_below_root = !is_root && loops_that_turn(decision.trips) > 1;
    if (decision.kind == DecisionKind::Parallel && (is_fused_below_root || !can_be_parallel(index, child, schedule))) {
        return Pruned::InvalidDecision;
    }
    Regions regions(index, child);
    const Box loops = regions.loops(decision.stage, schedule.compute);
    StageTiling tiling = tiling_of(stage, schedule.stages[position]);
    if (const Pruned reason = read_tiling(stage, schedule, decision, tiling); reason != Pruned::None) {
        return reason;
    }
    if (decision.kind != DecisionKind::Parallel) {
        const Pruned reason = check_tile(machine, index, stage, tiling, loops, schedule.slide_dim >= 0);
        if (reason != Pruned::None) {
            return reason;
        }
    }
    if (decision.kind == DecisionKind::Inner) {
        if (std::ranges::any_of(stage.loops, &LoopDim::is_reduction)) {
            unroll_lane_steps(stage, loops, tiling);
            const StageTiling whole = flattened(machine, index, child, decision.stage, loops, schedule, tiling);
            tiling = with_reductions(stage, tiling, whole);
        }
        tiling.tasks = is_root ? default_tasks(machine, index, decision.stage, loops, tiling) : unit_trips();
    }
    schedule.stages[position] = make_nest(stage, loops, tiling, is_root || loops_that_turn(tiling.tasks) > 0);
    if (decision.kind == DecisionKind::Parallel) {
        const StageNest& nest = schedule.stages[position];
        const Trips made = nest.is_parallel ? nest.levels.front() : unit_trips();
        if (const Pruned reason = check_tasks(machine, stage, loops, tiling.tile, made); reason != Pruned::None) {
            return reason;
        }
    }
    const bool sets_layout =
        decision.kind == DecisionKind::Inner && position == 0 && !func.is_output && decision.vector_loop >= 0;
    if (sets_layout) {
        set_layout(machine, index, regions, schedule);
    }
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}
}  // namespace

Pruned apply(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const LoopNest& nest,
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
        case DecisionKind::Reduction:
        case DecisionKind::Parallel:
            return apply_tiling(machine, index, pool, decision, child);
        case DecisionKind::Storage:
            return apply_storage(index, pool, decision, child);
        case DecisionKind::Fuse:
            return apply_fuse(index, pool, decision, child);
        case DecisionKind::Align:
            return apply_align(machine, index, pool, decision, child);
        case DecisionKind::Prefetch:
            return apply_prefetch(machine, index, pool, decision, child);
    }
    return Pruned::InvalidDecision;
}
}  // namespace metol::cpu
