#include "schedule/regions.hpp"

#include <algorithm>
#include <cmath>

#include "pipeline/bounds.hpp"
#include "schedule/nest_queries.hpp"

namespace metol {

namespace {

std::span<const Interval> span_of(const Box& box) {
    return {box.intervals.data(), static_cast<size_t>(box.dimensions)};
}

// How far through the loops of a Stage an iteration is, from 0 to 1, loop by loop: points that fill the unit cube
// evenly however few they are (the additive sequence of M. Roberts, "The unreasonable effectiveness of quasirandom
// sequences", 2018), from its middle on.
class Places {
  public:
    Places() {
        for (int loops = 1; loops <= kMaxLoops; loops++) {
            double ratio = 1;  // root of x^(loops + 1) = x + 1
            for (int step = 0; step < 64; step++) {
                ratio = std::pow(1 + ratio, 1.0 / (loops + 1));
            }
            for (int loop = 0; loop < loops; loop++) {
                steps_[static_cast<size_t>(loops - 1)][static_cast<size_t>(loop)] = std::pow(ratio, -(loop + 1));
            }
        }
    }

    double of(int iteration, int loop, int loops) const {
        const double step = steps_[static_cast<size_t>(loops - 1)][static_cast<size_t>(loop)];
        const double place = 0.5 + iteration * step;
        return place - std::floor(place);
    }

  private:
    std::array<std::array<double, kMaxLoops>, kMaxLoops> steps_{};
};

// Leaves what of one production the one before has not made.
void slide(const FuncSchedule& schedule, Interval& side) {
    side.min = std::max(side.min, side.max - schedule.slide_step + 1);
}

}  // namespace

int64_t Box::points() const {
    if (is_empty) {
        return 0;
    }
    int64_t product = 1;
    for (int d = 0; d < dimensions; d++) {
        product *= std::max<int64_t>(0, intervals[static_cast<size_t>(d)].extent());
    }
    return product;
}

void Box::include(const Box& other) {
    if (other.is_empty) {
        return;
    }
    if (is_empty) {
        *this = other;
        return;
    }
    share = skipped_dim == other.skipped_dim ? std::max(share, other.share) : 1;
    skipped_dim = share < 1 ? skipped_dim : static_cast<int8_t>(-1);
    for (int d = 0; d < dimensions; d++) {
        (*this)[d].min = std::min((*this)[d].min, other[d].min);
        (*this)[d].max = std::max((*this)[d].max, other[d].max);
    }
}

Box read_box(const Edge& edge, const Box& loops) {
    Box box;
    box.dimensions = static_cast<int8_t>(edge.bounds.size());
    box.is_empty = loops.is_empty;
    for (size_t d = 0; d < edge.bounds.size() && !box.is_empty; d++) {
        box.intervals[d] = evaluate(edge.bounds[d], span_of(loops));
    }
    return box;
}

Box read_box(const Edge& edge, const Access& access, const Box& loops) {
    Box box = read_box(edge, loops);
    for (size_t d = 0; d < access.bounds.size() && !box.is_empty; d++) {
        const Interval own = evaluate(access.bounds[d], span_of(loops));
        Interval& side = box.intervals[d];
        side = {std::clamp(own.min, side.min, side.max), std::clamp(own.max, side.min, side.max)};
    }
    return box;
}

bool Regions::is_inside(int func, const Site& site) const {
    if (site.is_root()) {
        return true;
    }
    const FuncSchedule* schedule = &nest_[func];
    while (schedule->placement == Placement::At) {
        if (schedule->compute.stage == site.stage) {
            return schedule->compute.level >= site.level;
        }
        schedule = &nest_[index_.stage(schedule->compute.stage).func];
    }
    return false;
}

uint64_t Regions::readers(int func) {
    if (const uint64_t known = readers_->of(func, index_.func_count())) {
        return known;
    }
    uint64_t hash = combine(seed_, static_cast<uint64_t>(func));
    for (const Consumer& consumer : index_.consumers[static_cast<size_t>(func)]) {
        hash = mix(hash + surroundings(index_.stage(consumer.stage).func));
    }
    return readers_->of(func, index_.func_count()) = hash;
}

uint64_t Regions::surroundings(int func) {
    const FuncSchedule& schedule = nest_[func];
    // At root all that is ever needed of a Func is computed at once, whoever reads it, and how.
    return combine(schedule.hash, schedule.placement == Placement::Root ? seed_ : readers(func));
}

const Box& Regions::required(int func, const Site& site) {
    const uint64_t dependencies = site.is_root() ? 0 : readers(func);
    return boxes_->find_or_make(key(Table::Required, func, site, dependencies),
                                [&] { return required_at(func, site); });
}

Box Regions::required_at(int func, const Site& site) {
    Box hull;
    const Func& producer = index_.func(func);
    hull.dimensions = static_cast<int8_t>(producer.dimensions());
    if (site.is_root()) {
        hull.is_empty = false;
        std::copy(producer.root_region.begin(), producer.root_region.end(), hull.intervals.begin());
        return hull;
    }
    for (const Consumer& consumer : index_.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index_.stage(consumer.stage);
        const FuncSchedule& schedule = nest_[stage.func];
        const bool is_read_here = schedule.placement == Placement::Inline || consumer.stage == site.stage ||
                                  (schedule.is_computed() && is_inside(stage.func, site));
        if (is_read_here) {
            hull.include(read_box(stage.edges[static_cast<size_t>(consumer.edge)], loops(consumer.stage, site)));
        }
    }
    return hull;
}

const Box& Regions::computed(int func, const Site& site) {
    const Box& needed = required(func, site);
    if (index_.has_identity_computed[static_cast<size_t>(func)] || needed.is_empty) {
        return needed;
    }
    const uint64_t dependencies = site.is_root() ? 0 : readers(func);
    return boxes_->find_or_make(key(Table::Computed, func, site, dependencies), [&] {
        Box box = needed;
        const Func& producer = index_.func(func);
        for (size_t d = 0; d < producer.computed.size(); d++) {
            box.intervals[d] = evaluate(producer.computed[d], span_of(needed));
        }
        return box;
    });
}

const Box& Regions::production(int func) {
    const FuncSchedule& schedule = nest_[func];
    const Box& whole = computed(func, schedule.compute);
    if (schedule.slide_dim < 0 || whole.is_empty) {
        return whole;
    }
    return boxes_->find_or_make(key(Table::Production, func, Site{}, surroundings(func)), [&] {
        Box box = whole;
        slide(schedule, box[schedule.slide_dim]);
        return box;
    });
}

Box Regions::loops_of(int stage_id, const Box& needed) const {
    const Stage& stage = index_.stage(stage_id);
    // A Stage runs where a later one reads what it makes, but not where a later one only writes.
    const bool is_identity = index_.has_identity_computed[static_cast<size_t>(stage.func)] != 0;
    Box box;
    box.dimensions = static_cast<int8_t>(stage.loops.size());
    box.is_empty = needed.is_empty;
    for (size_t i = 0; i < stage.loops.size() && !box.is_empty; i++) {
        const LoopDim& loop = stage.loops[i];
        box.intervals[i] =
            loop.is_rvar || !is_identity ? evaluate(loop.bounds, span_of(needed)) : needed[loop.pure_dim];
    }
    return box;
}

Box Regions::written(int stage_id, const Site& site) {
    const Stage& stage = index_.stage(stage_id);
    const Box& own = loops(stage_id, site);
    Box box = computed(stage.func, site.stage == stage_id ? nest_[stage.func].compute : site);
    for (size_t d = 0; d < stage.written.size() && !own.is_empty; d++) {
        const Interval side = evaluate(stage.written[d], span_of(own));
        box.intervals[d] = {std::max(side.min, box.intervals[d].min), std::min(side.max, box.intervals[d].max)};
    }
    for (size_t i = 0; i < stage.loops.size() && stage.written.empty(); i++) {
        if (!stage.loops[i].is_reduction) {
            box[stage.loops[i].pure_dim] = own[static_cast<int>(i)];
        }
    }
    return box;
}

void Regions::narrow(int stage_id, const Site& site, Box& box) const {
    const StageNest& nest = nest_of(index_, nest_, stage_id);
    std::array<int64_t, kMaxLoops> sizes;
    sizes.fill(1);
    for (int level = site.level + 1; level <= nest.inner_level(); level++) {
        for (int i = 0; i < box.dimensions; i++) {
            sizes[static_cast<size_t>(i)] *= nest.levels[static_cast<size_t>(level)][static_cast<size_t>(i)];
        }
    }
    if (site.loops != Site::kAllLoops) {
        const std::vector<int>& order = index_.nest_order(stage_id, nest.vector_loop);
        for (size_t i = static_cast<size_t>(site.loops); i < order.size(); i++) {
            const auto loop = static_cast<size_t>(order[i]);
            sizes[loop] *= nest.levels[static_cast<size_t>(site.level)][loop];
        }
    }
    const bool is_whole =
        iteration_ == kWholeTile && nest.is_parallel && nest_[index_.stage(stage_id).func].placement == Placement::Root;
    for (int i = 0; i < box.dimensions; i++) {
        const int64_t size = sizes[static_cast<size_t>(i)];
        const int64_t extent = box[i].extent();
        if (size < extent || (is_whole && size > extent)) {
            box[i].min += offset_of(stage_id, i, extent, size);
            const int64_t last = box[i].min + size - 1;
            box[i].max = is_whole ? last : std::min(box[i].max, last);
        }
    }
}

int64_t Regions::offset_of(int stage_id, int loop, int64_t extent, int64_t size) const {
    if (iteration_ == kWholeTile) {
        return 0;
    }
    const int64_t middle = ((extent + size - 1) / size - 1) / 2 * size;
    if (iteration_ == 0) {
        return middle;
    }
    const Stage& stage = index_.stage(stage_id);
    if (iteration_ <= kIterations) {
        static const Places places;
        // Of whole tiles, as most are.
        const double place = places.of(iteration_, loop, static_cast<int>(stage.loops.size()));
        return size * std::clamp(static_cast<int64_t>(place * static_cast<double>(extent / size)), int64_t{0},
                                 extent / size - 1);
    }
    const auto ends = static_cast<uint32_t>(iteration_ - kIterations);
    const LoopDim& dim = stage.loops[static_cast<size_t>(loop)];
    if (nest_[stage.func].placement != Placement::Root || dim.is_rvar) {
        return middle;
    }
    // A whole tile at the end, as most are, wherever the last begins.
    return (ends & border_bit(dim.pure_dim, true)) != 0    ? extent - size
           : (ends & border_bit(dim.pure_dim, false)) != 0 ? 0
                                                           : middle;
}

const Box& Regions::loops(int stage_id, const Site& site) {
    const int func = index_.stage(stage_id).func;
    // At root they are those of the whole region, wherever the Func is computed.
    const bool is_whole = site.is_root() && nest_[func].is_computed();
    const uint64_t place =
        is_whole ? key(Table::RootLoops, stage_id, site, 0) : key(Table::Loops, stage_id, site, surroundings(func));
    return boxes_->find_or_make(place, [&] { return loops_at(stage_id, site); });
}

Box Regions::loops_at(int stage_id, const Site& site) {
    const int func = index_.stage(stage_id).func;
    const FuncSchedule& schedule = nest_[func];
    if (schedule.is_computed() && site.stage == stage_id) {
        Box box = loops(stage_id, schedule.compute);
        narrow(stage_id, site, box);
        return box;
    }
    Box box = loops_of(stage_id, required(func, site));
    if (schedule.is_computed() && schedule.compute == site && schedule.slide_dim >= 0 && !box.is_empty) {
        for (int i = 0; i < box.dimensions; i++) {
            const LoopDim& loop = index_.stage(stage_id).loops[static_cast<size_t>(i)];
            if (!loop.is_rvar && loop.pure_dim == schedule.slide_dim) {
                slide(schedule, box[i]);
            }
        }
    }
    return box;
}

bool Regions::runs_whole_tiles(int stage_id) const {
    const int func = index_.stage(stage_id).func;
    return nest_[func].placement == Placement::Root && index_.func(func).stages.size() == 1;
}

int64_t Regions::turns_of(const Site& site) const {
    const StageNest& nest = nest_of(index_, nest_, site.stage);
    const std::vector<int>& order = index_.nest_order(site.stage, nest.vector_loop);
    int64_t turns = 1;
    for (int level = 0; level <= site.level; level++) {
        const bool is_cut = level == site.level && site.loops != Site::kAllLoops;
        const size_t count = is_cut ? static_cast<size_t>(site.loops) : order.size();
        for (size_t i = 0; i < count; i++) {
            turns *= nest.levels[static_cast<size_t>(level)][static_cast<size_t>(order[i])];
        }
    }
    return turns;
}

int64_t Regions::iterations(const Site& site) {
    if (site.is_root()) {
        return 1;
    }
    const int func = index_.stage(site.stage).func;
    const uint64_t place = key(Table::Iterations, 0, site, surroundings(func));
    if (const int64_t* found = iterations_->find(place)) {
        return *found;
    }
    const FuncSchedule& schedule = nest_[func];
    int64_t count = iterations(schedule.compute);
    if (runs_whole_tiles(site.stage)) {
        count *= turns_of(site);
    } else {
        const Box& whole = loops(site.stage, schedule.compute);
        const Box& part = loops(site.stage, site);
        for (int i = 0; i < whole.dimensions; i++) {
            const int64_t size = std::max<int64_t>(1, part[i].extent());
            count *= (whole[i].extent() + size - 1) / size;
        }
    }
    return iterations_->add(place) = count;
}

void Regions::chain(int stage_id, std::vector<Site>& sites) const {
    const int func = index_.stage(stage_id).func;
    const FuncSchedule& schedule = nest_[func];
    if (schedule.placement == Placement::At) {
        chain(schedule.compute.stage, sites);
        while (sites.back().stage == schedule.compute.stage && sites.back().level > schedule.compute.level) {
            sites.pop_back();
        }
    } else {
        sites.push_back(Site{});
    }
    const StageNest& nest = nest_of(index_, nest_, stage_id);
    const std::vector<int>& order = index_.nest_order(stage_id, nest.vector_loop);
    for (int level = 0; level < nest.inner_level(); level++) {
        const Trips& trips = nest.levels[static_cast<size_t>(level)];
        int last = -1;
        for (int i = 0; i < static_cast<int>(order.size()); i++) {
            last = trips[static_cast<size_t>(order[static_cast<size_t>(i)])] > 1 ? i : last;
        }
        for (int i = 0; i <= last; i++) {
            if (trips[static_cast<size_t>(order[static_cast<size_t>(i)])] > 1) {
                const bool is_body = i == last;
                sites.push_back({static_cast<int16_t>(stage_id), static_cast<int8_t>(level),
                                 is_body ? Site::kAllLoops : static_cast<int8_t>(i + 1)});
            }
        }
    }
}

}  // namespace metol
