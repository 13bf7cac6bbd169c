#include "targets/cpu/decisions.hpp"

#include <algorithm>

#include "schedule/tilings.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/stage_tiling.hpp"

namespace metol::cpu {

namespace {

// Candidates that one family of splits, tiles or tasks may hold before its sizes are coarsened.
constexpr int64_t kFamilyCap = 48;
// Adams et al. 2019, §3.2: no value is computed more than ten times; 16 tasks a core at most. §3.3: 16 unrolled.
constexpr int64_t kMaxRecompute = 10;
constexpr int32_t kMaxTasksPerCore = 16;
constexpr int32_t kMaxUnroll = 16;
// What slides has a size that is known at run time only: every unrolled iteration is guarded, and the code longer.
constexpr int32_t kGuardedUnrollShare = 2;
// Operations on native registers that all unrolled tiles of a pipeline may hold together, and the share of one Stage:
// past it the code leaves the cache of decoded instructions, and the compiler's time grows faster than the code.
constexpr double kMaxOperations = 16384;
constexpr double kLeastTileOperations = 256;
constexpr double kMostTileOperations = 1024;
// How many times as much a tile may hold that is not unrolled: nothing can make it smaller but not inlining.
constexpr double kSingleTileFactor = 4;
// Halide's bounds inference looks at every Func of a sub-nest in every other: past these its time grows out of hand
// (a chain of 32 stencils in one nest of five hosts was not compiled after three minutes).
constexpr int kMaxHosts = 3;
constexpr int kMaxFuncsInNest = 16;

const StageNest &nest_of(const PipelineIndex &index, const LoopNest &nest, int stage_id) {
    const int func = index.stage(stage_id).func;
    const auto &stages = index.func(func).stages;
    const auto position = std::find(stages.begin(), stages.end(), stage_id) - stages.begin();
    return nest[func].stages[static_cast<size_t>(position)];
}

int loops_that_turn(const Trips &trips) {
    return static_cast<int>(std::count_if(trips.begin(), trips.end(), [](int32_t count) { return count > 1; }));
}

// The bodies of the levels that enclose `stage`, its own included, outermost first.
std::vector<Site> bodies(const PipelineIndex &index, const LoopNest &nest, int stage_id) {
    const FuncSchedule &schedule = nest[index.stage(stage_id).func];
    std::vector<Site> sites;
    if (schedule.placement == Placement::At) {
        for (const Site &site : bodies(index, nest, schedule.compute.stage)) {
            if (site.stage == schedule.compute.stage && site.level > schedule.compute.level) {
                break;
            }
            sites.push_back(site);
        }
    }
    const StageNest &own = nest_of(index, nest, stage_id);
    for (int level = 0; level < own.inner_level(); level++) {
        if (loops_that_turn(own.levels[static_cast<size_t>(level)]) > 0) {
            sites.push_back({static_cast<int16_t>(stage_id), static_cast<int8_t>(level), Site::kAllLoops});
        }
    }
    return sites;
}

// The Stages that read `func`, looking through what is inlined.
void collect_readers(const PipelineIndex &index, const LoopNest &nest, int func, std::vector<int> &readers) {
    for (const Consumer &consumer : index.consumers[static_cast<size_t>(func)]) {
        const int consuming = index.stage(consumer.stage).func;
        if (nest[consuming].placement == Placement::Inline) {
            collect_readers(index, nest, consuming, readers);
        } else if (std::find(readers.begin(), readers.end(), consumer.stage) == readers.end()) {
            readers.push_back(consumer.stage);
        }
    }
}

const Trips &level_of(const PipelineIndex &index, const LoopNest &nest, const Site &site) {
    return nest_of(index, nest, site.stage).levels[static_cast<size_t>(site.level)];
}

bool is_parallel_level(const PipelineIndex &index, const LoopNest &nest, const Site &site) {
    return site.level == 0 && nest_of(index, nest, site.stage).is_parallel;
}

Decision at(int func, const Site &site) {
    Decision decision;
    decision.kind = DecisionKind::At;
    decision.func = static_cast<int16_t>(func);
    decision.stage = site.stage;
    decision.level = site.level;
    decision.trips.fill(1);
    return decision;
}

void add_site(const SpaceOptions &options, const PipelineIndex &index, const LoopNest &nest, Decision decision,
              const Site &site, std::vector<DecisionFamily> &families) {
    families.push_back({decision, {}});
    const bool can_slide = options.allow_sliding && !is_parallel_level(index, nest, site) &&
                           loops_that_turn(level_of(index, nest, site)) == 1;
    if (can_slide) {
        decision.is_sliding = 1;
        families.push_back({decision, {}});
    }
}

// Splits of the level at `site`: reductions stay whole, in the inner part.
void add_splits(const SpaceOptions &options, const PipelineIndex &index, const LoopNest &nest, int func, const Site &site,
                std::vector<DecisionFamily> &families) {
    const Stage &host = index.stage(site.stage);
    const Trips &trips = level_of(index, nest, site);
    std::vector<int32_t> splittable(host.loops.size(), 1);
    for (size_t i = 0; i < host.loops.size(); i++) {
        splittable[i] = host.loops[i].is_reduction ? 1 : trips[i];
    }
    DecisionFamily family{at(func, site), tilings(splittable, kFamilyCap)};
    for (size_t i = 0; i < host.loops.size(); i++) {
        if (host.loops[i].is_reduction) {
            family.choices[i] = {trips[i]};
        }
    }
    family.base.is_split = 1;
    families.push_back(family);
    if (options.allow_sliding) {
        family.base.is_sliding = 1;
        // The outer part may turn along one loop only: every other loop stays whole inside.
        for (size_t slid = 0; slid < host.loops.size(); slid++) {
            if (splittable[slid] <= 1 || loops_that_turn(trips) < 2) {
                continue;
            }
            DecisionFamily line = family;
            for (size_t i = 0; i < host.loops.size(); i++) {
                if (i != slid) {
                    line.choices[i] = {trips[i]};
                }
            }
            families.push_back(line);
        }
    }
}

std::vector<DecisionFamily> location_families(const PipelineIndex &index, const LoopNest &nest, int func,
                                              const SpaceOptions &options) {
    std::vector<DecisionFamily> families;
    Decision decision;
    decision.func = static_cast<int16_t>(func);
    const auto f = static_cast<size_t>(func);
    if (options.allow_inline && index.is_inlinable[f]) {
        decision.kind = DecisionKind::Inline;
        families.push_back({decision, {}});
        if (index.must_inline[f]) {
            return families;
        }
    }
    decision.kind = DecisionKind::Root;
    families.push_back({decision, {}});
    if (!options.allow_compute_at || index.func(func).is_output || index.func(func).is_extern) {
        return families;
    }
    const std::vector<Site> sites = common_sites(index, nest, func);
    for (const Site &site : sites) {
        add_site(options, index, nest, at(func, site), site, families);
    }
    const bool can_split = options.allow_split && !sites.empty() && !is_parallel_level(index, nest, sites.back());
    if (can_split) {
        add_splits(options, index, nest, func, sites.back(), families);
    }
    return families;
}

// Points of the tile along one loop: powers of two of its unit, and all of a short loop.
std::vector<int32_t> tile_sizes(int64_t extent, int32_t unit) {
    std::vector<int32_t> sizes;
    for (int32_t size = unit; size <= kMaxUnroll * unit && (size == unit || size <= extent); size *= 2) {
        sizes.push_back(size);
    }
    const bool is_short = unit == 1 && extent <= kMaxUnroll && std::find(sizes.begin(), sizes.end(), extent) == sizes.end();
    if (is_short) {
        sizes.push_back(static_cast<int32_t>(extent));
    }
    return sizes;
}

// Loops, innermost first, that a tile may unroll: the vector loop and the two pure loops around it.
std::vector<int> unrollable_loops(const PipelineIndex &index, int stage_id, int vector_loop) {
    std::vector<int> loops;
    const std::vector<int> order = index.nest_order(stage_id, vector_loop);
    for (auto it = order.rbegin(); it != order.rend() && loops.size() < 3; ++it) {
        if (!index.stage(stage_id).loops[static_cast<size_t>(*it)].is_reduction) {
            loops.push_back(*it);
        }
    }
    return loops;
}

std::vector<ReductionPlace> reduction_places(const Stage &stage, const Box &loops) {
    int64_t reduced = 1;
    int64_t pure = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        (stage.loops[i].is_reduction ? reduced : pure) *= loops[static_cast<int>(i)].extent();
    }
    std::vector<ReductionPlace> places = {ReductionPlace::Inside};
    if (reduced > 1 && reduced <= kMaxUnroll && !stage.has_data_dependent_write) {
        places.push_back(ReductionPlace::Unrolled);
    }
    if (reduced > 1 && pure > 1) {
        places.push_back(ReductionPlace::Outside);
    }
    return places;
}

std::vector<DecisionFamily> inner_families(const CpuParameters &machine, const PipelineIndex &index,
                                           const LoopNest &nest, const DecisionStep &step, const SpaceOptions &options) {
    const Stage &stage = index.stage(step.stage);
    const FuncSchedule &schedule = nest[step.func];
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, schedule.compute);
    std::vector<int> vector_loops;
    // A scatter stays serial: its lanes may meet in one place, and its predicated form is scalar code all the same.
    for (size_t i = 0; i < stage.loops.size() && !stage.has_data_dependent_write; i++) {
        const LoopDim &loop = stage.loops[i];
        const bool is_layout_fixed = index.func(step.func).is_output && loop.pure_dim != 0 && loops[0].extent() >= 4;
        if (!loop.is_reduction && loops[static_cast<int>(i)].extent() > 1 && loop.pure_dim != schedule.slide_dim &&
            !is_layout_fixed) {
            vector_loops.push_back(static_cast<int>(i));
        }
    }
    if (vector_loops.empty()) {
        vector_loops.push_back(-1);
    }
    std::vector<DecisionFamily> families;
    for (int vector_loop : vector_loops) {
        for (ReductionPlace place : reduction_places(stage, loops)) {
            Decision decision;
            decision.kind = DecisionKind::Inner;
            decision.func = step.func;
            decision.stage = step.stage;
            decision.vector_loop = static_cast<int8_t>(vector_loop);
            decision.reduction = static_cast<int8_t>(place);
            if (vector_loop >= 0) {
                decision.vector_width = static_cast<int16_t>(vector_width_for(machine, stage, loops[vector_loop].extent()));
            }
            DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
            for (int loop : unrollable_loops(index, step.stage, vector_loop)) {
                const int32_t unit = loop == vector_loop ? decision.vector_width : 1;
                auto &sizes = family.choices[static_cast<size_t>(loop)];
                sizes = options.allow_unroll ? tile_sizes(loops[loop].extent(), unit) : std::vector<int32_t>{unit};
            }
            for (size_t i = 0; i < stage.loops.size() && place == ReductionPlace::Unrolled; i++) {
                if (stage.loops[i].is_reduction) {
                    family.choices[i] = {static_cast<int32_t>(loops[static_cast<int>(i)].extent())};
                }
            }
            families.push_back(std::move(family));
        }
    }
    return families;
}

std::vector<DecisionFamily> parallel_families(const CpuParameters &machine, const PipelineIndex &index,
                                              const LoopNest &nest, const DecisionStep &step) {
    const Stage &stage = index.stage(step.stage);
    const StageTiling tiling = tiling_of(stage, nest_of(index, nest, step.stage));
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, nest[step.func].compute);
    Decision decision;
    decision.kind = DecisionKind::Parallel;
    decision.func = step.func;
    decision.stage = step.stage;
    decision.trips.fill(1);
    DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
    std::vector<int32_t> trips(stage.loops.size(), 1);
    int64_t offered = 1;
    // Outermost loops first, until they alone can occupy the machine; three at most.
    int taken = 0;
    for (int loop : index.nest_order(step.stage, tiling.vector_loop)) {
        const auto i = static_cast<size_t>(loop);
        const bool is_enough = taken >= 3 || (loop == tiling.vector_loop && offered >= kMaxTasksPerCore * machine.cores);
        if (stage.loops[i].is_reduction || is_enough) {
            break;
        }
        const int32_t count = divide_up(loops[loop].extent(), tiling.tile[i]);
        trips[i] = std::min(count, kMaxTasksPerCore * machine.cores);
        offered *= trips[i];
        taken++;
    }
    family.choices = tilings(trips, kFamilyCap);
    return {family};
}

// Moves every site in `stage` at or below `level` one level inward, because that level was split in two.
Site shifted(Site site, int stage, int level) {
    if (site.stage == stage && site.level >= level) {
        site.level++;
    }
    return site;
}

Pruned split_level(const PipelineIndex &index, Pool &pool, const Decision &decision, LoopNest &child) {
    const int host_func = index.stage(decision.stage).func;
    FuncSchedule host = child[host_func];
    const auto &stages = index.func(host_func).stages;
    const auto position =
        static_cast<size_t>(std::find(stages.begin(), stages.end(), decision.stage) - stages.begin());
    auto &levels = host.stages[position].levels;
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
    for (const FuncSchedule *&schedule : child.funcs) {
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

// Finds the dimension along which the region moves from one iteration of the compute site to the next.
Pruned find_slide(const PipelineIndex &index, const LoopNest &nest, FuncSchedule &schedule) {
    const std::vector<Site> sites = common_sites(index, nest, schedule.func);
    const auto own = std::find(sites.begin(), sites.end(), schedule.compute);
    const Trips &trips = level_of(index, nest, schedule.compute);
    if (is_parallel_level(index, nest, schedule.compute)) {
        return Pruned::StorageOutsideParallel;
    }
    // Inside a Func that slides itself, a window would start anew at each of its productions.
    const bool is_host_sliding = nest[index.stage(schedule.compute.stage).func].slide_dim >= 0;
    if (own == sites.end() || loops_that_turn(trips) != 1 || is_host_sliding) {
        return Pruned::SlidesOverManyLoops;
    }
    schedule.store = own == sites.begin() ? Site{} : *(own - 1);
    Regions regions(index, nest);
    const Box whole = regions.required(schedule.func, schedule.store);
    const Box part = regions.required(schedule.func, schedule.compute);
    const int64_t turns = *std::max_element(trips.begin(), trips.end());
    for (int d = 0; d < whole.dimensions; d++) {
        const int64_t moved = whole[d].extent() - part[d].extent();
        if (moved <= 0) {
            continue;
        }
        if (schedule.slide_dim >= 0) {
            return Pruned::NothingToSlide;
        }
        schedule.slide_dim = static_cast<int8_t>(d);
        schedule.slide_step = divide_up(moved, turns - 1);
        if (schedule.slide_step >= part[d].extent()) {
            return Pruned::NothingToSlide;
        }
    }
    return schedule.slide_dim >= 0 ? Pruned::None : Pruned::NothingToSlide;
}

// The dimension along which the vectors of the consumers run, if they do; otherwise the first.
int dimension_read_densely(const PipelineIndex &index, const LoopNest &nest, int func) {
    std::array<int, kMaxLoops> votes{};
    for (const Consumer &consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage &stage = index.stage(consumer.stage);
        if (!nest[stage.func].is_computed()) {
            continue;
        }
        const int v = nest_of(index, nest, consumer.stage).vector_loop;
        for (const Access &access : stage.edges[static_cast<size_t>(consumer.edge)].accesses) {
            for (size_t d = 0; d < access.jacobian.size() && v >= 0; d++) {
                const JacobianRow &row = access.jacobian[d];
                const auto loop = static_cast<size_t>(v);
                votes[d] += row.is_known[loop] && row.numerator[loop] != 0 ? access.count : 0;
            }
        }
    }
    return static_cast<int>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

Pruned check_recompute(const PipelineIndex &index, const LoopNest &child, int func) {
    const int stage_id = index.func(func).stages.front();
    if (index.stage(stage_id).is_identity) {
        return Pruned::None;
    }
    Regions regions(index, child);
    const FuncSchedule &schedule = child[func];
    const int64_t computed = regions.production(func).points() * regions.iterations(schedule.compute);
    const int64_t needed = std::max<int64_t>(1, regions.computed(func, Site{}).points());
    return computed > kMaxRecompute * needed ? Pruned::RecomputesTooMuch : Pruned::None;
}

// How often a value of `func` is evaluated, computed or inlined; stops counting past `limit`.
int64_t evaluations(const PipelineIndex &index, Regions &regions, const LoopNest &nest, int func, int64_t limit) {
    const FuncSchedule &schedule = nest[func];
    if (schedule.is_computed()) {
        return regions.production(func).points() * regions.iterations(schedule.compute);
    }
    int64_t total = 0;
    for (const Consumer &consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage &stage = index.stage(consumer.stage);
        int64_t uses = 0;
        for (const Access &access : stage.edges[static_cast<size_t>(consumer.edge)].accesses) {
            uses += access.count;
        }
        int64_t runs = evaluations(index, regions, nest, stage.func, limit);
        if (stage.index > 0 && nest[stage.func].is_computed()) {
            runs = regions.loops(consumer.stage, nest[stage.func].compute).points() *
                   regions.iterations(nest[stage.func].compute);
        }
        total += uses * runs;
        if (total > limit) {
            break;
        }
    }
    return total;
}

double operations_of(const Stage &stage) {
    double total = 0;
    for (float count : stage.op_histogram) {
        total += static_cast<double>(count);
    }
    return total;
}

// Operations on native registers in the tile of a Stage, with all that is inlined into it so far.
double tile_operations(const CpuParameters &machine, const PipelineIndex &index, const LoopNest &nest, int stage_id) {
    const Stage &stage = index.stage(stage_id);
    const StageNest &own = nest_of(index, nest, stage_id);
    double points = 1;
    for (int32_t count : own.levels.back()) {
        points *= count;
    }
    double operations = operations_of(stage);
    for (const InlinedUse &use : effective_reads(index, nest, stage_id).inlined) {
        operations += use.calls_per_point * operations_of(index.stage(index.func(use.func).stages.front()));
    }
    const double registers = std::max(1.0, static_cast<double>(own.vector_width) * stage.widest_bytes / machine.vector_bytes);
    return points / own.vector_width * registers * operations;
}

double max_tile_operations(const PipelineIndex &index) {
    return std::clamp(kMaxOperations / std::max(1, index.stage_count()), kLeastTileOperations, kMostTileOperations);
}

// The same tiling with nothing unrolled: what the tile held beyond one vector turns in the loops around it.
void roll_up(StageNest &nest) {
    Trips &tile = nest.levels.back();
    Trips &around = nest.levels[nest.levels.size() - 2];
    for (size_t i = 0; i < kMaxLoops; i++) {
        const int32_t unit = static_cast<int>(i) == nest.vector_loop ? nest.vector_width : 1;
        around[i] *= tile[i] / unit;
        tile[i] = unit;
    }
}

// Keeps tiles that something was inlined into within bounds, by unrolling less.
Pruned limit_code(const CpuParameters &machine, const PipelineIndex &index, Pool &pool, LoopNest &child, int func) {
    std::vector<int> readers;
    collect_readers(index, child, func, readers);
    const double limit = max_tile_operations(index);
    for (int stage : readers) {
        const int reader = index.stage(stage).func;
        if (!child[reader].is_computed() || tile_operations(machine, index, child, stage) <= limit) {
            continue;
        }
        const int around = nest_of(index, child, stage).inner_level() - 1;
        for (const FuncSchedule *other : child.funcs) {
            if (other->placement == Placement::At && other->compute.stage == stage && other->compute.level == around) {
                return Pruned::TileTooLarge;
            }
        }
        FuncSchedule rolled = child[reader];
        const auto &stages = index.func(reader).stages;
        roll_up(rolled.stages[static_cast<size_t>(std::find(stages.begin(), stages.end(), stage) - stages.begin())]);
        child.funcs[static_cast<size_t>(reader)] = pool.intern(std::move(rolled));
        if (tile_operations(machine, index, child, stage) > kSingleTileFactor * limit) {
            return Pruned::TileTooLarge;
        }
    }
    return Pruned::None;
}

Pruned check_inline(const PipelineIndex &index, const LoopNest &child, int func) {
    if (!index.is_inlinable[static_cast<size_t>(func)]) {
        return Pruned::NotInlinable;
    }
    if (index.must_inline[static_cast<size_t>(func)] || index.func(func).is_boundary_condition) {
        return Pruned::None;
    }
    Regions regions(index, child);
    const int64_t needed = std::max<int64_t>(1, index.minimum_points[static_cast<size_t>(index.func(func).stages[0])]);
    const int64_t limit = kMaxRecompute * needed;
    return evaluations(index, regions, child, func, limit) > limit ? Pruned::RecomputesTooMuch : Pruned::None;
}

// Gives every Stage of a newly placed Func its default tiling.
void tile_by_default(const CpuParameters &machine, const PipelineIndex &index, LoopNest &child, FuncSchedule &schedule,
                     int preferred_dim) {
    Regions regions(index, child);
    const Func &func = index.func(schedule.func);
    schedule.stages.clear();
    for (size_t s = 0; s < func.stages.size(); s++) {
        const int stage_id = func.stages[s];
        const Box loops = regions.loops(stage_id, schedule.compute);
        const bool is_root = schedule.placement == Placement::Root;
        const StageTiling tiling = default_tiling(machine, index, stage_id, loops, preferred_dim, schedule);
        schedule.stages.push_back(make_nest(index.stage(stage_id), loops, tiling, is_root));
        const bool sets_layout = s == 0 && !func.is_output && tiling.vector_loop >= 0;
        if (sets_layout) {
            preferred_dim = index.stage(stage_id).loops[static_cast<size_t>(tiling.vector_loop)].pure_dim;
        }
    }
    schedule.innermost_dim = static_cast<int8_t>(func.is_output ? 0 : preferred_dim);
}

// Is there a level of that number, not the innermost, in a Stage that is computed?
bool has_level(const PipelineIndex &index, const LoopNest &nest, int stage_id, int level) {
    if (stage_id < 0 || stage_id >= index.stage_count() || !nest[index.stage(stage_id).func].is_computed()) {
        return false;
    }
    return level >= 0 && level < nest_of(index, nest, stage_id).inner_level();
}

int root_of(const PipelineIndex &index, const LoopNest &nest, int func, int &hosts) {
    for (hosts = 0; nest[func].placement == Placement::At; hosts++) {
        func = index.stage(nest[func].compute.stage).func;
    }
    return func;
}

// Hosts around `func`, and Funcs that share its sub-nest.
bool is_nest_too_deep(const PipelineIndex &index, const LoopNest &child, int func) {
    int hosts = 0;
    const int root = root_of(index, child, func, hosts);
    int members = 0;
    for (int other = 0; other < index.func_count(); other++) {
        int unused = 0;
        members += child[other].is_computed() && root_of(index, child, other, unused) == root ? 1 : 0;
    }
    return hosts > kMaxHosts || members > kMaxFuncsInNest;
}

Pruned apply_location(const CpuParameters &machine, const PipelineIndex &index, Pool &pool, const Decision &decision,
                      LoopNest &child) {
    FuncSchedule schedule;
    schedule.func = decision.func;
    auto &slot = child.funcs[static_cast<size_t>(decision.func)];
    if (decision.kind == DecisionKind::Inline) {
        schedule.placement = Placement::Inline;
        slot = pool.intern(schedule);
        const Pruned reason = check_inline(index, child, decision.func);
        return reason != Pruned::None ? reason : limit_code(machine, index, pool, child, decision.func);
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
    if (const Pruned reason = check_recompute(index, child, decision.func); reason != Pruned::None) {
        return reason;
    }
    const bool is_output = index.func(decision.func).is_output;
    tile_by_default(machine, index, child, schedule, is_output ? 0 : dimension_read_densely(index, child, decision.func));
    slot = pool.intern(std::move(schedule));
    return Pruned::None;
}

Pruned apply_tiling(const CpuParameters &machine, const PipelineIndex &index, Pool &pool, const Decision &decision,
                    LoopNest &child) {
    FuncSchedule schedule = child[decision.func];
    const Func &func = index.func(decision.func);
    const auto position = static_cast<size_t>(std::find(func.stages.begin(), func.stages.end(), decision.stage) -
                                              func.stages.begin());
    if (!schedule.is_computed() || position >= schedule.stages.size()) {
        return Pruned::InvalidDecision;
    }
    const Stage &stage = index.stage(decision.stage);
    const bool is_root = schedule.placement == Placement::Root;
    if (decision.vector_loop >= static_cast<int>(stage.loops.size()) || decision.vector_width < 1) {
        return Pruned::InvalidDecision;
    }
    Regions regions(index, child);
    const Box loops = regions.loops(decision.stage, schedule.compute);
    StageTiling tiling = tiling_of(stage, schedule.stages[position]);
    if (decision.kind == DecisionKind::Inner) {
        int64_t unrolled = 1;
        for (size_t i = 0; i < stage.loops.size(); i++) {
            const bool is_vector = static_cast<int>(i) == decision.vector_loop;
            tiling.tile[i] = std::max(1, decision.trips[i]);
            if (is_vector && stage.loops[i].pure_dim == schedule.slide_dim) {
                return Pruned::InvalidDecision;
            }
            unrolled *= is_vector ? tiling.tile[i] / decision.vector_width : tiling.tile[i];
        }
        const double registers = std::max(1.0, static_cast<double>(decision.vector_width) * stage.widest_bytes / machine.vector_bytes);
        const double code = static_cast<double>(unrolled) * registers * operations_of(stage);
        const int32_t limit = schedule.slide_dim >= 0 ? kMaxUnroll / kGuardedUnrollShare : kMaxUnroll;
        if (unrolled > 1 && (static_cast<double>(unrolled) * registers > limit || code > max_tile_operations(index))) {
            return Pruned::TileTooLarge;
        }
        tiling.vector_loop = decision.vector_loop;
        tiling.vector_width = decision.vector_width;
        tiling.reduction = static_cast<ReductionPlace>(decision.reduction);
        tiling.tasks = is_root ? default_tasks(machine, index, decision.stage, loops, tiling) : unit_trips();
    } else {
        tiling.tasks = decision.trips;
    }
    schedule.stages[position] = make_nest(stage, loops, tiling, is_root);
    if (decision.kind == DecisionKind::Parallel) {
        int64_t tasks = 1;
        int64_t possible = 1;
        for (size_t i = 0; i < stage.loops.size(); i++) {
            tasks *= schedule.stages[position].levels.front()[i];
            possible *= stage.loops[i].is_reduction ? 1 : divide_up(loops[static_cast<int>(i)].extent(), tiling.tile[i]);
        }
        // Serial code is always a candidate: the cost model knows what launching a loop costs.
        if (tasks > kMaxTasksPerCore * machine.cores) {
            return Pruned::TooManyTasks;
        }
        if (tasks > 1 && tasks < std::min<int64_t>(machine.cores, possible)) {
            return Pruned::TooFewTasks;
        }
    }
    const bool sets_layout = decision.kind == DecisionKind::Inner && position == 0 && !func.is_output &&
                             decision.vector_loop >= 0;
    if (sets_layout) {
        schedule.innermost_dim = static_cast<int8_t>(stage.loops[static_cast<size_t>(decision.vector_loop)].pure_dim);
        for (size_t s = 1; s < func.stages.size(); s++) {
            const Box update_loops = regions.loops(func.stages[s], schedule.compute);
            const StageTiling update =
                default_tiling(machine, index, func.stages[s], update_loops, schedule.innermost_dim, schedule);
            schedule.stages[s] = make_nest(index.stage(func.stages[s]), update_loops, update, is_root);
        }
    }
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}

DecisionFamily keep(const DecisionStep &step) {
    Decision decision;
    decision.kind = DecisionKind::Keep;
    decision.func = step.func;
    decision.stage = step.stage;
    return {decision, {}};
}

}  // namespace

std::vector<Site> common_sites(const PipelineIndex &index, const LoopNest &nest, int func) {
    std::vector<int> readers;
    collect_readers(index, nest, func, readers);
    std::vector<Site> common;
    for (size_t i = 0; i < readers.size(); i++) {
        const std::vector<Site> sites = bodies(index, nest, readers[i]);
        if (i == 0) {
            common = sites;
            continue;
        }
        const auto [end, unused] = std::mismatch(common.begin(), common.end(), sites.begin(), sites.end());
        common.erase(end, common.end());
    }
    return common;
}

std::vector<DecisionStep> steps(const PipelineIndex &index) {
    std::vector<DecisionStep> all;
    for (int32_t func : index.order) {
        const auto f = static_cast<int16_t>(func);
        all.push_back({DecisionStep::Kind::Location, f, -1});
        if (index.must_inline[static_cast<size_t>(func)]) {
            continue;
        }
        for (int32_t stage : index.func(func).stages) {
            all.push_back({DecisionStep::Kind::Inner, f, static_cast<int16_t>(stage)});
            all.push_back({DecisionStep::Kind::Parallel, f, static_cast<int16_t>(stage)});
        }
    }
    return all;
}

std::vector<DecisionFamily> families(const CpuParameters &machine, const PipelineIndex &index, const LoopNest &nest,
                                     const DecisionStep &step, const SpaceOptions &options) {
    const FuncSchedule &schedule = nest[step.func];
    switch (step.kind) {
        case DecisionStep::Kind::Location: return location_families(index, nest, step.func, options);
        case DecisionStep::Kind::Inner:
            if (schedule.is_computed()) {
                return inner_families(machine, index, nest, step, options);
            }
            break;
        case DecisionStep::Kind::Parallel:
            if (schedule.placement == Placement::Root) {
                return parallel_families(machine, index, nest, step);
            }
            break;
    }
    return {keep(step)};
}

bool is_offered(const PipelineIndex &index, const LoopNest &nest, const Decision &decision) {
    if (decision.kind != DecisionKind::At) {
        return true;
    }
    const Site site{decision.stage, decision.level, Site::kAllLoops};
    const std::vector<Site> sites = common_sites(index, nest, decision.func);
    const bool is_there = std::find(sites.begin(), sites.end(), site) != sites.end();
    const bool may_stay = !index.func(decision.func).is_output && !index.func(decision.func).is_extern;
    return is_there && may_stay && !(decision.is_split && is_parallel_level(index, nest, site));
}

Pruned apply(const CpuParameters &machine, const PipelineIndex &index, Pool &pool, const LoopNest &nest,
             const Decision &decision, LoopNest &child) {
    child = nest;
    child.decisions_made++;
    switch (decision.kind) {
        case DecisionKind::Keep: return Pruned::None;
        case DecisionKind::Inline:
        case DecisionKind::Root:
        case DecisionKind::At: return apply_location(machine, index, pool, decision, child);
        case DecisionKind::Inner:
        case DecisionKind::Parallel: return apply_tiling(machine, index, pool, decision, child);
    }
    return Pruned::InvalidDecision;
}

}  // namespace metol::cpu
