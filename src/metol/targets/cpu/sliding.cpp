#include "targets/cpu/sliding.hpp"

#include <algorithm>
#include <set>

#include "pipeline/bounds.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

using Region = std::vector<Interval>;

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

void grow(Region& region, const Region& other) {
    if (region.empty()) {
        region = other;
        return;
    }
    for (size_t d = 0; d < region.size(); d++) {
        include(region[d], other[d]);
    }
}

// Adds what the Stages of a Func read of each other Func while they compute `computed` of it.
void grow_by_reads(const PipelineIndex& index, int func, const Region& computed, std::vector<Region>& needed) {
    for (int stage_id : index.func(func).stages) {
        const Stage& stage = index.stage(stage_id);
        const std::vector<Interval> loops = loop_intervals(stage, computed);
        for (const Edge& edge : stage.edges) {
            if (edge.producer != func) {
                Region read(edge.bounds.size());
                evaluate(edge.bounds, loops, read);
                grow(needed[static_cast<size_t>(edge.producer)], read);
            }
        }
    }
}

bool is_within(const Region& part, const Region& whole) {
    for (size_t d = 0; d < part.size(); d++) {
        if (part[d].min < whole[d].min || part[d].max > whole[d].max) {
            return false;
        }
    }
    return true;
}

// Who reads a Func while the loop turns that its window slides over: other Funcs that slide there, and kHost for the
// rest, looking through what is computed anew in each turn.
constexpr int kHost = -1;
void collect_windows_that_read(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func,
                               const Site& loop, std::set<int>& found) {
    std::vector<int> stages;
    collect_readers(index, nest, func, stages);
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

// The windows that slide over one loop.
struct Windows {
    std::vector<const FuncSchedule*> funcs;
    std::vector<Window> windows;  // of each
    std::set<std::set<int>> readers;
    bool is_branching = false;  // one of them is read by more than one other, or by another and the host

    // Where each fills from the next, Halide guards what warming up brings too much of.
    bool is_chain() const { return !is_branching && readers.size() == funcs.size(); }
};

Windows windows_over(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const Site& loop) {
    Windows found;
    for (const FuncSchedule* schedule : nest.funcs) {
        if (schedule->slide_dim < 0 || schedule->compute != loop) {
            continue;
        }
        std::set<int> readers;
        collect_windows_that_read(index, nest, regions, schedule->func, loop, readers);
        found.is_branching = found.is_branching || readers.size() > 1;
        found.readers.insert(std::move(readers));
        found.funcs.push_back(schedule);
        found.windows.push_back(window_of(index, nest, regions, *schedule, schedule->slide_dim));
    }
    return found;
}

// What warming up computes of each Func before the first that is needed: as many turns as the window that takes most.
std::vector<int64_t> excesses(const Windows& all) {
    int64_t turns = 0;
    for (const Window& window : all.windows) {
        turns = std::max<int64_t>(turns, divide_up(window.stays(), window.step()));
    }
    std::vector<int64_t> found;
    for (const Window& window : all.windows) {
        const int64_t before = turns * window.step() - window.stays();
        found.push_back(all.is_chain() ? 0 : std::max(before, all.is_branching ? window.step() : 0));
    }
    return found;
}

bool reads_outside(const PipelineIndex& index, const LoopNest& nest, Regions& regions, const FuncSchedule& schedule,
                   int64_t excess) {
    std::vector<Region> needed(static_cast<size_t>(index.func_count()));
    Region& own = needed[static_cast<size_t>(schedule.func)];
    own = index.func(schedule.func).root_region;
    own[static_cast<size_t>(schedule.slide_dim)].min -= excess;
    // Producers come before what consumes them, inputs aside.
    for (int func = schedule.func; func >= 0; func--) {
        const Region computed = needed[static_cast<size_t>(func)];
        const Placement placement = nest[func].placement;
        const bool is_inlined = placement == Placement::Inline || index.must_inline[static_cast<size_t>(func)];
        const bool goes_along = is_inlined || (placement == Placement::At && regions.is_inside(func, schedule.compute));
        if (goes_along && !computed.empty()) {
            grow_by_reads(index, func, computed, needed);
        }
    }
    for (int func = 0; func < index.func_count(); func++) {
        const Func& each = index.func(func);
        if (each.is_input && !is_within(needed[static_cast<size_t>(func)], each.root_region)) {
            return true;
        }
    }
    return false;
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
    return schedule.slide_dim >= 0 ? Pruned::None : Pruned::NothingToSlide;
}

bool warms_up_outside_inputs(const PipelineIndex& index, const LoopNest& nest) {
    Regions regions(index, nest);
    std::vector<Site> seen;
    for (const FuncSchedule* schedule : nest.funcs) {
        const Site& loop = schedule->compute;
        if (schedule->slide_dim < 0 || std::find(seen.begin(), seen.end(), loop) != seen.end()) {
            continue;
        }
        seen.push_back(loop);
        const Windows all = windows_over(index, nest, regions, loop);
        const std::vector<int64_t> early = excesses(all);
        for (size_t i = 0; i < early.size(); i++) {
            if (early[i] > 0 && reads_outside(index, nest, regions, *all.funcs[i], early[i])) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace metol::cpu
