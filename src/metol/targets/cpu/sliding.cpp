#include "targets/cpu/sliding.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "pipeline/bounds.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/guards.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

using Region = std::vector<Interval>;

// Loops with windows that a thread keeps what it has worked out of.
constexpr size_t kKeptLoops = 1024;

// One dimension of a window.
struct Window {
    int64_t whole = 0;  // what all turns of the loop need
    int64_t part = 0;   // what one needs
    int64_t turns = 1;

    int64_t step() const { return turns > 1 ? divide_up(whole - part, turns - 1) : whole; }

    int64_t stays() const { return std::max<int64_t>(0, part - step()); }
};

Window window_of(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const FuncSchedule& schedule,
                 int dim) {
    const Trips& trips = level_of(index, nest, schedule.compute);
    return {.whole = regions.required(schedule.func, schedule.store)[dim].extent(),
            .part = regions.required(schedule.func, schedule.compute)[dim].extent(),
            .turns = *std::max_element(trips.begin(), trips.end())};
}

// The one loop that turns at a site.
size_t turning_loop(const PipelineIndex& index, const LoopNest& nest, const Site& site) {
    const Trips& trips = level_of(index, nest, site);
    return static_cast<size_t>(std::max_element(trips.begin(), trips.end()) - trips.begin());
}

// Points of its Stage, along the one loop that turns at a site, that a turn makes.
int64_t points_a_turn(const PipelineIndex& index, const LoopNest& nest, const Site& site) {
    const size_t loop = turning_loop(index, nest, site);
    const std::vector<Trips>& levels = nest_of(index, nest, site.stage).levels;
    int64_t points = 1;
    for (size_t level = static_cast<size_t>(site.level) + 1; level < levels.size(); level++) {
        points *= levels[level][loop];
    }
    return points;
}

// How fast a coordinate moves with a loop, in the read where it is slowest and in the one where it is fastest.
struct Pace {
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();

    void include(double least_of, double most_of) {
        least = std::min(least, least_of);
        most = std::max(most, most_of);
    }
};

// The pace at which what is read of a Func moves along a dimension while a loop of the Stage of `site` turns, looking
// through what is inlined or computed in each turn; none where a read is at a place that nobody can tell.
std::optional<Pace> pace_of(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func, int dim,
                            const Site& site, size_t loop) {
    Pace all;
    for (int stage_id : readers_of(index, nest, func)) {
        const Stage& reader = index.stage(stage_id);
        const bool is_host = stage_id == site.stage;
        const bool is_inside = nest[reader.func].placement == Placement::At && regions.is_inside(reader.func, site);
        if (reader.func == func || (!is_host && !is_inside)) {
            continue;
        }
        const std::shared_ptr<const StageReads> reads = effective_reads(index, nest, stage_id);
        for (const EffectiveAccess& access : reads->accesses) {
            if (access.producer != func) {
                continue;
            }
            double least = 0;
            double most = 0;
            for (size_t i = 0; i < reader.loops.size(); i++) {
                const double slope = access.jacobian[static_cast<size_t>(dim)][i];
                if (std::isnan(slope)) {
                    return std::nullopt;
                }
                if (slope == 0 || (is_host ? i != loop : reader.loops[i].is_rvar)) {
                    continue;
                }
                if (access.floats[static_cast<size_t>(dim)][i]) {
                    return std::nullopt;  // Halide does not know that what is rounded moves in one direction
                }
                std::optional<Pace> inner = Pace{1, 1};
                if (!is_host) {
                    inner = pace_of(index, nest, regions, reader.func, reader.loops[i].pure_dim, site, loop);
                }
                if (!inner) {
                    return std::nullopt;
                }
                least += std::min(slope * inner->least, slope * inner->most);
                most += std::max(slope * inner->least, slope * inner->most);
            }
            all.include(least, most);
        }
    }
    return all;
}

// Do both ends of a window move, in one direction, in turns of which none is left out? Where some reads move along and
// others stay, each turn needs more than the one before, and Halide 21 computes what is new as if it needed as much.
// Where a condition leaves turns out, what they would have added is missing from the next.
bool moves_whole(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const FuncSchedule& schedule) {
    const size_t loop = turning_loop(index, nest, schedule.compute);
    const Stage& host = index.stage(schedule.compute.stage);
    if (host.has_predicate && host.condition_loops[loop]) {
        return false;
    }
    const std::optional<Pace> pace =
        pace_of(index, nest, regions, schedule.func, schedule.slide_dim, schedule.compute, loop);
    return pace && (pace->least > 0 || pace->most < 0);
}

// Who reads a Func while the loop turns that its window slides over: other Funcs that slide there, and kHost for the
// rest, looking through what is computed anew in each turn.
constexpr int kHost = -1;
void collect_windows_that_read(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func,
                               const Site& loop, std::set<int>& found) {
    const std::vector<int> stages = readers_of(index, nest, func);
    for (int stage_id : stages) {
        const int reader = index.stage(stage_id).func;
        if (reader == func) {
            continue;
        }
        const FuncSchedule& schedule = nest[reader];
        const bool is_inside = schedule.placement == Placement::At && regions.is_inside(reader, loop);
        if (is_inside && schedule.slide_dim < 0) {
            collect_windows_that_read(index, nest, regions, reader, loop, found);
        } else {
            found.insert(is_inside ? reader : kHost);
        }
    }
}

// What is computed of each of the windows over one loop before the first that is needed, while they are filled: as
// many turns as the one takes that takes most. Nothing where each is filled from the next.
std::vector<int64_t> excesses(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const Site& loop,
                              const std::vector<const FuncSchedule*>& funcs) {
    std::vector<Window> windows;
    std::set<std::set<int>> readers;
    bool is_branching = false;  // one of them is read by more than one other, or by another and the host
    int64_t turns = 0;
    for (const FuncSchedule* schedule : funcs) {
        std::set<int> found;
        collect_windows_that_read(index, nest, regions, schedule->func, loop, found);
        is_branching = is_branching || found.size() > 1;
        readers.insert(std::move(found));
        windows.push_back(window_of(index, nest, regions, *schedule, schedule->slide_dim));
        turns = std::max<int64_t>(turns, divide_up(windows.back().stays(), windows.back().step()));
    }
    std::vector<int64_t> early(funcs.size(), 0);
    if (!is_branching && readers.size() == funcs.size()) {
        return early;
    }
    for (size_t i = 0; i < funcs.size(); i++) {
        const int64_t before = turns * windows[i].step() - windows[i].stays();
        early[i] = std::max(before, is_branching ? windows[i].step() : 0);
    }
    return early;
}

// What is worked out about windows over one loop depends on these Funcs, on what reads them, and on nothing else.
uint64_t windows_key(Regions& regions, const std::vector<const FuncSchedule*>& funcs) {
    uint64_t key = funcs.size();
    for (const FuncSchedule* schedule : funcs) {
        key = combine(key, regions.surroundings(schedule->func));
    }
    return key;
}

// The `excesses`, kept from one loop nest to the next: most decisions are about other Funcs.
const std::vector<int64_t>& known_excesses(const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                                           const Site& loop, const std::vector<const FuncSchedule*>& funcs) {
    thread_local SiteTable<std::vector<int64_t>, kKeptLoops> kept;
    kept.lend();
    return kept.find_or_make(windows_key(regions, funcs), [&] { return excesses(index, nest, regions, loop, funcs); });
}

// Is more asked of an input than the pipeline needs?
bool reads_outside_of_inputs(const PipelineIndex& index, const std::vector<Region>& needed) {
    for (int func = 0; func < index.func_count(); func++) {
        const Func& each = index.func(func);
        if (each.is_input && !is_within(needed[static_cast<size_t>(func)], each.root_region)) {
            return true;
        }
    }
    return false;
}

// Does a window that begins `excess` early ask for more of an input than the pipeline needs, where these Funcs, which
// it reads, are computed with it?
template <typename GoesAlong>
bool reads_outside_with(const PipelineIndex& index, const FuncSchedule& schedule, int64_t excess,
                        const GoesAlong& goes_along) {
    std::vector<Region> needed(static_cast<size_t>(index.func_count()));
    Region& own = needed[static_cast<size_t>(schedule.func)];
    own = index.func(schedule.func).root_region;
    own[static_cast<size_t>(schedule.slide_dim)].min -= excess;
    // Producers come before what consumes them, inputs aside.
    for (int func = schedule.func; func >= 0; func--) {
        const Region computed = needed[static_cast<size_t>(func)];
        if (!computed.empty() && (func == schedule.func || goes_along(func))) {
            grow_by_reads(*index.dag, index.func(func), computed, needed);
        }
    }
    return reads_outside_of_inputs(index, needed);
}

// The same with all that it reads computed with it, which asks for no less: of a pipeline that clamps what it reads, no
// loop nest does. It depends on the window alone, and is kept.
bool may_read_outside(const PipelineIndex& index, const FuncSchedule& schedule, int64_t excess) {
    thread_local SiteTable<bool, kKeptLoops> kept;
    kept.lend();
    uint64_t key = combine(index.id, static_cast<uint64_t>(schedule.func));
    key = combine(combine(key, static_cast<uint64_t>(schedule.slide_dim)), static_cast<uint64_t>(excess));
    return kept.find_or_make(key,
                             [&] { return reads_outside_with(index, schedule, excess, [](int) { return true; }); });
}

bool reads_outside(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const FuncSchedule& schedule,
                   int64_t excess) {
    return may_read_outside(index, schedule, excess) && reads_outside_with(index, schedule, excess, [&](int func) {
               const Placement placement = nest[func].placement;
               const bool is_inlined = placement == Placement::Inline || index.must_inline[static_cast<size_t>(func)];
               return is_inlined || (placement == Placement::At && regions.is_inside(func, schedule.compute));
           });
}

}  // namespace

Pruned find_slide(const PipelineIndex& index, const LoopNest& nest, FuncSchedule& schedule) {
    const std::vector<Site> sites = common_sites(index, nest, schedule.func);
    const auto own = std::find(sites.begin(), sites.end(), schedule.compute);
    const Trips& trips = level_of(index, nest, schedule.compute);
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
    for (int d = 0; d < index.func(schedule.func).dimensions(); d++) {
        const Window window = window_of(index, nest, regions, schedule, d);
        if (window.whole <= window.part) {
            continue;
        }
        if (schedule.slide_dim >= 0 || window.step() >= window.part) {
            return Pruned::NothingToSlide;
        }
        schedule.slide_dim = static_cast<int8_t>(d);
        // The first turn computes all that it needs, the others what is new; this is their mean.
        schedule.slide_step = std::max(window.step(), (window.whole + window.turns / 2) / window.turns);
    }
    return schedule.slide_dim >= 0 && moves_whole(index, nest, regions, schedule) ? Pruned::None
                                                                                  : Pruned::NothingToSlide;
}

namespace {

// Does Halide fill the windows over a loop by turns before its first? It does where it sees by how much they move from
// one turn to the next: not where a guard or a tile that is shifted inwards stands between the loop and its points.
bool turns_early(const PipelineIndex& index, const LoopNest& nest, const Site& site) {
    const size_t loop = turning_loop(index, nest, site);
    const Stage& host = index.stage(site.stage);
    const std::vector<Trips>& levels = nest_of(index, nest, site.stage).levels;
    const auto own = levels.begin() + site.level;
    const auto turns = [&](const Trips& level) { return level[loop] > 1; };
    if (host.loops[loop].is_reduction) {
        return false;
    }
    const bool is_first = std::none_of(levels.begin(), own, turns);
    const auto inner = std::find_if(own + 1, levels.end(), turns);
    if (is_first && inner == levels.end()) {
        return true;
    }
    const LoopDim& dim = host.loops[loop];
    if (dim.is_rvar || is_guarded(index, nest, host.func, dim.pure_dim)) {
        return false;
    }
    if (!is_first) {
        return true;
    }
    const bool is_output = index.func(host.func).is_output;
    if (is_output && (index.has_fixed_sizes || has_exact_side(index, nest, host.func, dim.pure_dim))) {
        // In the version for the estimated extent, what divides it leaves nothing to shift.
        const Interval& side = index.func(host.func).root_region[static_cast<size_t>(dim.pure_dim)];
        return side.extent() % points_a_turn(index, nest, site) == 0;
    }
    return !is_output && inner + 1 == levels.end();  // rounded up, as tiles are
}

// Funcs that are computed anew in each turn of a loop, before Halide comes to the guard that it puts around what reads
// a window, and that something beside windows reads.
std::vector<int> made_before(const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                             const FuncSchedule& window) {
    std::vector<int> made;
    for (int func = 0; func < window.func; func++) {
        const FuncSchedule& schedule = nest[func];
        if (schedule.placement == Placement::At && schedule.slide_dim < 0 && schedule.compute == window.compute) {
            std::set<int> found;
            collect_windows_that_read(index, nest, regions, func, window.compute, found);
            if (found.contains(kHost)) {
                made.push_back(func);
            }
        }
    }
    return made;
}

// Do these Funcs, computed in the turns before the first, too, ask for more of an input than the pipeline needs?
bool read_outside_early(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const FuncSchedule& window,
                        const std::vector<int>& made) {
    const Site& site = window.compute;
    const Window moving = window_of(index, nest, regions, window, window.slide_dim);
    const int64_t turns = divide_up(moving.stays(), moving.step());
    const size_t loop = turning_loop(index, nest, site);
    const Stage& host = index.stage(site.stage);
    const auto is_inlined = [&](int func) {
        return nest[func].placement == Placement::Inline || index.must_inline[static_cast<size_t>(func)];
    };
    std::vector<Region> needed(static_cast<size_t>(index.func_count()));
    needed[static_cast<size_t>(host.func)] = index.func(host.func).root_region;
    needed[static_cast<size_t>(host.func)][static_cast<size_t>(host.loops[loop].pure_dim)].min -=
        turns * points_a_turn(index, nest, site);
    // Producers come before what consumes them, inputs aside.
    for (int func = host.func; func >= 0; func--) {
        const Region computed = needed[static_cast<size_t>(func)];
        const bool is_along =
            func == host.func || is_inlined(func) ||
            (nest[func].placement == Placement::At && nest[func].slide_dim < 0 && regions.is_inside(func, site));
        if (!computed.empty() && is_along) {
            grow_by_reads(*index.dag, index.func(func), computed, needed);
        }
    }
    std::vector<Region> early(needed.size());
    for (const int func : made) {
        early[static_cast<size_t>(func)] = needed[static_cast<size_t>(func)];
    }
    for (int func = host.func; func >= 0; func--) {
        const Region computed = early[static_cast<size_t>(func)];
        if (!computed.empty() && (std::ranges::find(made, func) != made.end() || is_inlined(func))) {
            grow_by_reads(*index.dag, index.func(func), computed, early);
        }
    }
    return reads_outside_of_inputs(index, early);
}

// Does Halide compute too much along with one window over a loop that is all there is of them?
bool fills_outside_inputs(const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                          const FuncSchedule& window) {
    const int host = index.stage(window.compute.stage).func;
    if (!turns_early(index, nest, window.compute) || !nest[host].is_computed()) {
        return false;
    }
    const std::vector<int> made = made_before(index, nest, regions, window);
    return !made.empty() && read_outside_early(index, nest, regions, window, made);
}

}  // namespace

bool warms_up_outside_inputs(const PipelineIndex& index, const LoopNest& nest, Regions& regions) {
    std::vector<const FuncSchedule*> sliding;
    std::copy_if(nest.funcs.begin(), nest.funcs.end(), std::back_inserter(sliding),
                 [](const FuncSchedule* schedule) { return schedule->slide_dim >= 0; });
    if (std::ranges::any_of(
            sliding, [&](const FuncSchedule* window) { return fills_outside_inputs(index, nest, regions, *window); })) {
        return true;
    }
    if (sliding.size() < 2) {
        return false;  // which is most often so: what reads one alone is guarded
    }
    while (!sliding.empty()) {
        const Site loop = sliding.front()->compute;
        const auto others = std::stable_partition(
            sliding.begin(), sliding.end(), [&](const FuncSchedule* schedule) { return schedule->compute == loop; });
        const std::vector<const FuncSchedule*> funcs(sliding.begin(), others);
        sliding.erase(sliding.begin(), others);
        const std::vector<int64_t>& early = known_excesses(index, nest, regions, loop, funcs);
        for (size_t i = 0; i < early.size(); i++) {
            if (early[i] > 0 && reads_outside(index, nest, regions, *funcs[i], early[i])) {
                return true;
            }
        }
    }
    return false;
}

namespace {

// Of several windows over one loop, is that of `func` folded?
bool is_folded_among(const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                     const std::vector<const FuncSchedule*>& windows, int func) {
    const Site& loop = nest[func].compute;
    std::set<int> own;
    for (const FuncSchedule* schedule : windows) {
        std::set<int> found;
        collect_windows_that_read(index, nest, regions, schedule->func, loop, found);
        if (found.size() > 1) {
            return false;
        }
        own = schedule->func == func ? std::move(found) : std::move(own);
    }
    const int reader = own.empty() ? kHost : *own.begin();
    if (reader == kHost) {
        return true;
    }
    const auto step_of = [&](int id) { return window_of(index, nest, regions, nest[id], nest[id].slide_dim).step(); };
    const std::vector<int> stages = readers_of(index, nest, func);
    const bool is_direct = std::ranges::all_of(stages, [&](int stage_id) {
        const int by = index.stage(stage_id).func;
        return by == func || by == reader;
    });
    return is_direct && step_of(func) == step_of(reader) && step_of(reader) == points_a_turn(index, nest, loop);
}

}  // namespace

bool is_folded(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    if (index.func(func).stages.size() > 1) {
        return false;
    }
    std::vector<const FuncSchedule*> windows;
    std::ranges::copy_if(nest.funcs, std::back_inserter(windows), [&](const FuncSchedule* schedule) {
        return schedule->slide_dim >= 0 && schedule->compute == nest[func].compute;
    });
    if (windows.size() < 2) {
        return true;
    }
    thread_local SiteTable<bool, kKeptLoops> kept;
    kept.lend();
    const uint64_t key = combine(windows_key(regions, windows), static_cast<uint64_t>(func));
    return kept.find_or_make(key, [&] { return is_folded_among(index, nest, regions, windows, func); });
}

}  // namespace metol::cpu
