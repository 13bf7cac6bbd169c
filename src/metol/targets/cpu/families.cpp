// What can be decided next: the candidates of each step of the CPU space.
#include <algorithm>

#include "schedule/tilings.hpp"
#include "targets/cpu/decisions.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/limits.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/prefetching.hpp"
#include "targets/cpu/rows.hpp"
#include "targets/cpu/stage_tiling.hpp"
#include "targets/cpu/storage.hpp"
#include "targets/locations.hpp"

namespace metol::cpu {

namespace {

Decision at(int func, const Site& site) {
    Decision decision;
    decision.kind = DecisionKind::At;
    decision.func = static_cast<int16_t>(func);
    decision.stage = site.stage;
    decision.level = site.level;
    decision.trips.fill(1);
    return decision;
}

void add_site(const SpaceOptions& options, const PipelineIndex& index, const LoopNest& nest, Decision decision,
              const Site& site, std::vector<DecisionFamily>& families) {
    families.push_back({decision, {}});
    const bool can_slide = options.allow_sliding && !is_parallel_level(index, nest, site) &&
                           loops_that_turn(level_of(index, nest, site)) == 1;
    if (can_slide) {
        decision.is_sliding = 1;
        families.push_back({decision, {}});
    }
}

// Splits of the level at `site`: reductions stay whole, in the inner part.
void add_splits(const SpaceOptions& options, const PipelineIndex& index, const LoopNest& nest, int func,
                const Site& site, std::vector<DecisionFamily>& families) {
    const Stage& host = index.stage(site.stage);
    const Trips& trips = level_of(index, nest, site);
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

std::vector<DecisionFamily> location_families(const PipelineIndex& index, const LoopNest& nest, int func,
                                              const SpaceOptions& options) {
    std::vector<DecisionFamily> families = inline_and_root(index, func, options);
    const bool is_inline = families.back().base.kind == DecisionKind::Inline;
    if (is_inline || !options.allow_compute_at || !may_be_computed_inside(index, func)) {
        return families;
    }
    const std::vector<Site> sites = common_sites(index, nest, func);
    for (const Site& site : sites) {
        add_site(options, index, nest, at(func, site), site, families);
    }
    const bool can_split = options.allow_split && !sites.empty() && !is_parallel_level(index, nest, sites.back());
    if (can_split) {
        add_splits(options, index, nest, func, sites.back(), families);
    }
    return families;
}

// Points of the tile along one loop: powers of two of its unit, all of a short loop, and for tiles of sums three times
// powers of two, which fill the registers better, where they leave no rest: each of them would need a guard.
std::vector<int32_t> tile_sizes(int64_t extent, int32_t unit, bool in_threes, int32_t most_whole) {
    std::vector<int32_t> sizes;
    for (int32_t size = unit; size <= kMaxUnroll * unit && (size == unit || size <= extent); size *= 2) {
        sizes.push_back(size);
        const int32_t three = size / 2 * 3;
        if (in_threes && size > 1 && three <= kMaxUnroll && extent % three == 0) {
            sizes.push_back(three);
        }
    }
    const bool is_short =
        unit == 1 && extent <= most_whole && std::find(sizes.begin(), sizes.end(), extent) == sizes.end();
    if (is_short) {
        sizes.push_back(static_cast<int32_t>(extent));
    }
    return sizes;
}

// Loops of which a tile may unroll a part: the vector loop and the two pure loops around it.
constexpr size_t kUnrolledInPart = 3;

// Loops, innermost first, that a tile may unroll: those, and whole any that picks among values.
std::vector<int> unrollable_loops(const PipelineIndex& index, int stage_id, int vector_loop, DimSet picking) {
    std::vector<int> loops;
    const std::vector<int> order = index.nest_order(stage_id, vector_loop);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        const auto loop = static_cast<size_t>(*it);
        if (!index.stage(stage_id).loops[loop].is_reduction && (loops.size() < kUnrolledInPart || picking[loop])) {
            loops.push_back(*it);
        }
    }
    return loops;
}

// Of scans along rows, those whose steps take so many cycles at most are as fast in scalars as in vectors across rows:
// an integral image takes 1.15 ms for 1.97, and a recursive filter of floats 18 ms for 14.
constexpr float kShortChain = 3;

// May vectors of these loops be no better than scalars? Those of a scan along rows load and store lane by lane, and so
// do those of an update whose steps make an index of what they have so far.
bool load_lane_by_lane(const Stage& stage, const std::vector<int>& vector_loops, int innermost_dim) {
    const auto is_scan = [&](const Access& store) { return moves_while_reducing(stage, store); };
    const auto is_along_rows = [&](int loop) {
        return stage.loops[static_cast<size_t>(loop)].pure_dim == innermost_dim;
    };
    const bool is_short = !stage.has_data_dependent_write && stage.chained_cycles <= kShortChain;
    return stage.has_chained_read || (is_short && std::ranges::any_of(stage.stores, is_scan) &&
                                      std::ranges::none_of(vector_loops, is_along_rows));
}

std::vector<DecisionFamily> inner_families(const CpuParameters& machine, const PipelineIndex& index,
                                           const LoopNest& nest, const DecisionStep& step,
                                           const SpaceOptions& options) {
    const Stage& stage = index.stage(step.stage);
    const FuncSchedule& schedule = nest[step.func];
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, schedule.compute);
    const int dense = index.func(step.func).row_dim;
    const auto along = std::ranges::find(stage.loops, dense, &LoopDim::pure_dim);
    const auto first = static_cast<int>(along == stage.loops.end() ? 0 : along - stage.loops.begin());
    const bool is_layout_fixed = index.func(step.func).is_output && !stage.loops.empty() && loops[first].extent() >= 4;
    std::vector<int> vector_loops;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const LoopDim& loop = stage.loops[i];
        if (!loop.is_reduction && loops[static_cast<int>(i)].extent() > 1 && loop.pure_dim != schedule.slide_dim &&
            !(is_layout_fixed && loop.pure_dim != dense) && may_vectorize(index, step.stage, i)) {
            vector_loops.push_back(static_cast<int>(i));
        }
    }
    // Scalars skip what a condition leaves out; vectors of which it takes some lanes alone do not.
    const bool has_lanes_apart = std::ranges::any_of(
        vector_loops, [&](int loop) { return stage.condition_loops[static_cast<size_t>(loop)] != 0; });
    // So they do where a point has as many steps as make a vector.
    const bool is_of_rows = stage.lane_bytes == kValueBytes && has_row_of_steps(stage, loops);
    if (vector_loops.empty() || has_lanes_apart || is_of_rows ||
        load_lane_by_lane(stage, vector_loops, schedule.innermost_dim)) {
        vector_loops.push_back(-1);
    }
    const bool is_of_sums = !reduction_loops(stage).empty();
    const DimSet picking = picking_loops(index, step.stage);
    std::vector<DecisionFamily> families;
    for (int vector_loop : vector_loops) {
        std::vector<int> widths = {1};
        if (vector_loop >= 0) {
            widths = vector_widths(machine, index, step.stage, loops[vector_loop].extent());
            widths.resize(options.allow_vector_widths ? widths.size() : 1);
        }
        for (int width : widths) {
            Decision decision;
            decision.kind = DecisionKind::Inner;
            decision.func = step.func;
            decision.stage = step.stage;
            decision.vector_loop = static_cast<int8_t>(vector_loop);
            decision.vector_width = static_cast<int16_t>(width);
            DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
            const std::vector<int> unrollable = unrollable_loops(index, step.stage, vector_loop, picking);
            for (size_t place = 0; place < unrollable.size(); place++) {
                const int loop = unrollable[place];
                const int32_t unit = loop == vector_loop ? decision.vector_width : 1;
                auto& sizes = family.choices[static_cast<size_t>(loop)];
                const bool in_threes = is_of_sums && loop != vector_loop;
                // Unrolled, a condition is evaluated for points that a guard leaves out, and loads what is not there.
                const bool is_read_ahead =
                    unit == 1 && stage.has_loading_condition && stage.condition_loops[static_cast<size_t>(loop)] != 0;
                const int64_t extent = loops[loop].extent();
                const int32_t most_whole = picking[static_cast<size_t>(loop)] ? kMaxPicked : kMaxWholeUnroll;
                sizes = {unit};
                if (options.allow_unroll && !is_read_ahead && place < kUnrolledInPart) {
                    sizes = tile_sizes(extent, unit, in_threes, most_whole);
                } else if (options.allow_unroll && !is_read_ahead && extent > 1 && extent <= most_whole) {
                    sizes.push_back(static_cast<int32_t>(extent));
                }
            }
            families.push_back(std::move(family));
        }
    }
    return families;
}

// Points of the reduction loops that a tile can unroll, one Trips a choice. What is unrolled runs innermost, so that
// only a commutative update may unroll a loop around another that turns. Where `k <= y` ends a loop, Halide asks for
// whole parts of it, of inputs, too: it stays whole.
std::vector<Trips> reduction_tiles(const Stage& stage, const Box& loops) {
    const std::vector<size_t> reductions = reduction_loops(stage);
    const auto extent = [&](size_t loop) { return loops[static_cast<int>(loop)].extent(); };
    std::vector<Trips> tiles = {unit_trips()};
    const auto add = [&](const std::vector<size_t>& unrolled) {
        Trips tile = unit_trips();
        int64_t points = 1;
        for (size_t loop : unrolled) {
            tile[loop] = static_cast<int32_t>(std::min<int64_t>(extent(loop), 1 << 20));
            points *= extent(loop);
        }
        const bool is_new = std::find(tiles.begin(), tiles.end(), tile) == tiles.end();
        if (points > 1 && points <= kMaxSteps && is_new) {
            tiles.push_back(tile);
        }
    };
    const size_t innermost = reductions.back();
    const bool has_parts = stage.loops[innermost].has_constant_extent && !stage.ends_by_point;
    for (int32_t part = 2; part <= kMaxPartialUnroll && has_parts; part *= 2) {
        if (extent(innermost) > part && extent(innermost) % part == 0) {
            tiles.push_back(unit_trips());
            tiles.back()[innermost] = part;
        }
    }
    for (size_t count = 1; count <= reductions.size(); count++) {
        add({reductions.end() - static_cast<std::ptrdiff_t>(count), reductions.end()});
    }
    if (stage.is_commutative) {
        std::vector<size_t> all_but_longest = reductions;
        std::erase(all_but_longest, *std::max_element(reductions.begin(), reductions.end(),
                                                      [&](size_t a, size_t b) { return extent(a) < extent(b); }));
        add(all_but_longest);
        for (size_t loop : reductions) {
            add({loop});
        }
    }
    return tiles;
}

std::vector<DecisionFamily> reduction_families(const PipelineIndex& index, const LoopNest& nest,
                                               const DecisionStep& step, const SpaceOptions& options) {
    const Stage& stage = index.stage(step.stage);
    Regions regions(index, nest);
    const Box loops = regions.loops(step.stage, nest[step.func].compute);
    const std::vector<size_t> reductions = reduction_loops(stage);
    int64_t pure = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        pure *= stage.loops[i].is_reduction ? 1 : loops[static_cast<int>(i)].extent();
    }
    Decision decision;
    decision.kind = DecisionKind::Reduction;
    decision.func = step.func;
    decision.stage = step.stage;
    decision.trips.fill(1);
    std::vector<DecisionFamily> families;
    const bool can_unroll = options.allow_unroll && options.allow_reductions && may_unroll_steps(stage);
    for (const Trips& tile : can_unroll ? reduction_tiles(stage, loops) : std::vector<Trips>{unit_trips()}) {
        decision.trips = tile;
        decision.outside = 0;
        families.push_back({decision, {}});
        for (size_t rank = 0; rank < reductions.size() && pure > 1 && options.allow_reductions; rank++) {
            const size_t loop = reductions[rank];
            const int32_t turns = divide_up(std::max<int64_t>(1, loops[static_cast<int>(loop)].extent()), tile[loop]);
            if (turns == 1) {
                continue;
            }
            decision.outside = static_cast<int8_t>(rank);
            const int32_t most = stage.ends_by_point ? 0 : turns / 2;
            for (int32_t block = kLeastReductionBlock; block <= most; block *= kReductionBlockStep) {
                decision.block = block;
                families.push_back({decision, {}});
            }
            decision.block = 0;
            decision.outside = static_cast<int8_t>(rank + 1);
            families.push_back({decision, {}});
        }
    }
    return families;
}

std::vector<DecisionFamily> parallel_families(const CpuParameters& machine, const PipelineIndex& index,
                                              const LoopNest& nest, const DecisionStep& step) {
    const Stage& stage = index.stage(step.stage);
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
    // Outermost loops first, three at most. The vector loop is among them though others could occupy the machine: what
    // is computed in a task may need all of the others (a scan along the columns of a strip). Below root one alone:
    // Halide loses the bounds of what it reads behind the divisions of a fused loop, and asks inputs for too much.
    const int most = nest[step.func].placement == Placement::Root ? 3 : 1;
    int taken = 0;
    for (int loop : index.nest_order(step.stage, tiling.vector_loop)) {
        const auto i = static_cast<size_t>(loop);
        if (stage.loops[i].is_reduction || taken >= most) {
            break;
        }
        const int32_t count = divide_up(loops[loop].extent(), tiling.tile[i]);
        const bool is_sliding = stage.loops[i].pure_dim == nest[step.func].slide_dim;
        trips[i] = is_sliding ? 1 : std::min(count, kMaxTasksPerCore * machine.cores);
        taken++;
    }
    family.choices = tilings(trips, kParallelCap);
    return {family};
}
DecisionFamily keep(const DecisionStep& step) {
    Decision decision;
    decision.kind = DecisionKind::Keep;
    decision.func = step.func;
    decision.stage = step.stage;
    return {decision, {}};
}
}  // namespace

std::vector<DecisionStep> steps(const PipelineIndex& index, const SpaceOptions& options) {
    std::vector<DecisionStep> all;
    for (int32_t func : index.order) {
        const auto f = static_cast<int16_t>(func);
        all.push_back({DecisionStep::Kind::Location, f, -1});
        // What an extern stage does inside is not ours.
        if (index.must_inline[static_cast<size_t>(func)] || index.func(func).is_extern) {
            continue;
        }
        for (int32_t stage : index.func(func).stages) {
            all.push_back({DecisionStep::Kind::Inner, f, static_cast<int16_t>(stage)});
            if (!reduction_loops(index.stage(stage)).empty()) {
                all.push_back({DecisionStep::Kind::Reduction, f, static_cast<int16_t>(stage)});
            }
            all.push_back({DecisionStep::Kind::Parallel, f, static_cast<int16_t>(stage)});
        }
        if (!index.func(func).is_output && !index.func(func).is_extern) {
            all.push_back({DecisionStep::Kind::Storage, f, -1});
            if (options.allow_align_storage) {
                all.push_back({DecisionStep::Kind::Align, f, -1});
            }
        }
    }
    for (int32_t func : index.order) {
        for (int32_t stage : index.func(func).stages) {
            if (options.allow_fuse && !possible_leaders(index, stage).empty()) {
                all.push_back({DecisionStep::Kind::Fuse, static_cast<int16_t>(func), static_cast<int16_t>(stage)});
            }
        }
    }
    for (int32_t func : index.order) {
        const bool is_ours = !index.must_inline[static_cast<size_t>(func)] && !index.func(func).is_extern;
        for (int32_t stage : index.func(func).stages) {
            if (options.allow_prefetch && is_ours) {
                all.push_back({DecisionStep::Kind::Prefetch, static_cast<int16_t>(func), static_cast<int16_t>(stage)});
            }
        }
    }
    return all;
}

std::vector<DecisionFamily> families(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                                     const DecisionStep& step, const SpaceOptions& options) {
    const FuncSchedule& schedule = nest[step.func];
    switch (step.kind) {
        case DecisionStep::Kind::Location:
            return without_what_is_denied(location_families(index, nest, step.func, options), step.func, options);
        case DecisionStep::Kind::Inner:
            if (schedule.is_computed()) {
                return inner_families(machine, index, nest, step, options);
            }
            break;
        case DecisionStep::Kind::Reduction:
            if (schedule.is_computed()) {
                return reduction_families(index, nest, step, options);
            }
            break;
        case DecisionStep::Kind::Parallel:
            if (can_be_parallel(index, nest, schedule) &&
                (schedule.placement == Placement::Root || options.allow_nested_parallel)) {
                return parallel_families(machine, index, nest, step);
            }
            break;
        case DecisionStep::Kind::Storage:
            if (options.allow_storage) {
                auto offered = storage_families(index, nest, step.func);
                return offered.empty() ? std::vector<DecisionFamily>{keep(step)} : offered;
            }
            break;
        case DecisionStep::Kind::Fuse:
            return fuse_families(index, nest, step);
        case DecisionStep::Kind::Align: {
            auto offered = align_families(machine, index, nest, step.func);
            return offered.empty() ? std::vector<DecisionFamily>{keep(step)} : offered;
        }
        case DecisionStep::Kind::Prefetch:
            return prefetch_families(machine, index, nest, step);
    }
    return {keep(step)};
}
bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) {
    if (decision.kind == DecisionKind::Parallel) {
        return can_be_parallel(index, nest, nest[decision.func]);
    }
    if (decision.kind == DecisionKind::Inner || decision.kind == DecisionKind::Reduction ||
        decision.kind == DecisionKind::Align || decision.kind == DecisionKind::Prefetch) {
        return nest[decision.func].is_computed();
    }
    if (decision.kind == DecisionKind::Storage) {
        return nest[decision.func].placement == Placement::At;
    }
    if (decision.kind != DecisionKind::At) {
        return true;
    }
    const Site site{decision.stage, decision.level, Site::kAllLoops};
    const std::vector<Site> sites = common_sites(index, nest, decision.func);
    const bool is_there = std::find(sites.begin(), sites.end(), site) != sites.end();
    const bool cuts_tasks = decision.is_split && is_parallel_level(index, nest, site);
    return is_there && !cuts_tasks && may_be_computed_inside(index, decision.func);
}
}  // namespace metol::cpu
