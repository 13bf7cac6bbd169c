// What a sub-nest reads, writes and keeps: footprints, the traffic between caches, storage.
#include <algorithm>
#include <cmath>

#include "schedule/tilings.hpp"
#include "targets/cpu/conflicts.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/prefetching.hpp"
#include "targets/cpu/storage.hpp"

namespace metol::cpu {

namespace {

// What covers this share of a row of an image goes on to the next row as to the next line.
constexpr double kWholeRow = 0.9;

// Runs of memory that the prefetcher of a core follows at once.
constexpr double kStreams = 32;
// A run of this length is as good as one without end.
constexpr double kLongRunBytes = 512;

// Blocks below this come from the allocator's own lists, whatever happens at the top of its heap.
constexpr double kListBytes = 64 * 1024;

// What a Stage reads of one Func, a point.
struct Read {
    int producer;
    double loads;
};

Footprint footprint(const CpuParameters& machine, const Func& func, int innermost_dim, const Box& box) {
    if (box.is_empty || box.dimensions == 0) {
        return {static_cast<double>(func.bytes_per_point()), 1};
    }
    const double run_bytes = static_cast<double>(box[innermost_dim].extent()) * func.bytes_per_point();
    const double line = static_cast<double>(machine.cache_line_bytes);
    const double runs =
        static_cast<double>(box.points()) / static_cast<double>(std::max<int64_t>(1, box[innermost_dim].extent()));
    // A run shorter than a line still brings the line in.
    return {runs * std::max(run_bytes, line), runs};
}

// What comes in line by line: a run of whole lines is taken to start with one, any other starts anywhere.
double bytes_in_lines(const CpuParameters& machine, const Func& func, const Footprint& runs) {
    const double line = static_cast<double>(machine.cache_line_bytes);
    const bool is_whole = std::fmod(runs.bytes, runs.segments * line) == 0;
    return is_whole ? runs.bytes : runs.bytes + runs.segments * (line - func.bytes_per_point());
}

}  // namespace

Footprint GroupFeaturizer::footprint_of(int func, const Box& box) {
    Footprint runs = footprint(machine_, index_.func(func), innermost_dim(func), box);
    if (const int64_t alignment = nest_[func].row_alignment; alignment > 1 && !box.is_empty) {
        // Between whole rows lies what they are padded with.
        const int64_t row = stored_box(nest_, regions_, func)[innermost_dim(func)].extent();
        if (box[innermost_dim(func)].extent() >= row) {
            const auto padded = static_cast<double>(divide_up(row, alignment) * alignment);
            runs.bytes = std::max(runs.bytes, runs.segments * padded * index_.func(func).bytes_per_point());
        }
    }
    return runs;
}

double GroupFeaturizer::storage_bytes(int func) {
    const uint64_t key = site_key(0, func, Site{});
    if (const double* found = storage_->find(key)) {
        return *found;
    }
    return storage_->add(key) = cpu::storage_bytes(index_, nest_, regions_, func);
}

const std::vector<ReadBox>& GroupFeaturizer::reads_at(int stage, const Site& site) {
    const int func = index_.stage(stage).func;
    const uint64_t key =
        site_key(0, stage, site) ^ combine(regions_.surroundings(func), inlined_hash(index_, nest_, func, *inlined_));
    if (const auto* found = reads_->find(key)) {
        return *found;
    }
    std::vector<ReadBox>& reads = reads_->add(key);
    read_boxes(index_, nest_, stage, regions_.loops(stage, site), reads);
    return reads;
}

void GroupFeaturizer::Outside::include(int func, const Box& box, bool may_be_apart) {
    const auto f = static_cast<size_t>(func);
    if (f >= places.size()) {
        places.resize(f + 1, -1);
    }
    int count = 0;
    for (int32_t place = places[f]; place >= 0; place = parts[static_cast<size_t>(place)].next) {
        if (metol::include(parts[static_cast<size_t>(place)].box, box, may_be_apart && ++count < kBoxesApart)) {
            return;
        }
    }
    parts.push_back({func, box, places[f]});
    places[f] = static_cast<int32_t>(parts.size()) - 1;
}

void GroupFeaturizer::Outside::clear() {
    for (const Part& part : parts) {
        places[static_cast<size_t>(part.func)] = -1;
    }
    parts.clear();
}

bool GroupFeaturizer::stays_in_l1(const StageContext& context, int producer, const Site& site) {
    const Func& func = index_.func(producer);
    const StorageShape shape{
        func.is_input ? std::span<const Interval>(func.estimate) : stored_box(nest_, regions_, producer).intervals,
        innermost_dim(producer), static_cast<double>(func.bytes_per_point())};
    return std::ranges::all_of(reads_at(context.id, site), [&](const ReadBox& read) {
        return read.producer != producer || conflicting_bytes(shape, read.box) <= machine_.l1_bytes;
    });
}

double GroupFeaturizer::touched_bytes(const Site& site) {
    const uint64_t key = site_key(0, 0, site);
    if (const double* found = touched_->find(key)) {
        return *found;
    }
    outside_->clear();
    const auto largest_cache = static_cast<double>(std::max({machine_.l1_bytes, machine_.l2_bytes, machine_.l3_bytes}));
    double bytes = 0;
    const auto fits_with = [&](const Site& each) {
        bytes += touch(each, largest_cache);
        return bytes <= largest_cache;
    };
    const bool may_fit = is_shared_ ? std::ranges::all_of(shared_sites(site), fits_with) : fits_with(site);
    if (may_fit) {
        for (const Outside::Part& part : outside_->parts) {
            bytes += footprint_of(part.func, part.box).bytes;
        }
    }
    return touched_->add(key) = bytes;
}

double GroupFeaturizer::touch(const Site& site, double enough) {
    double bytes = 0;
    for (int32_t func : group_) {
        const bool is_inside = site.is_root() || regions_.is_inside(func, site);
        const bool is_stored_inside = nest_[func].placement == Placement::At && is_inside && is_stored_in(func, site);
        bytes += is_stored_inside ? storage_bytes(func) : 0;
        for (int stage : index_.func(func).stages) {
            const bool is_own = stage == site.stage;
            if (!is_own && !is_inside) {
                continue;
            }
            for (const ReadBox& read : reads_at(stage, site)) {
                const bool is_local =
                    nest_[read.producer].placement == Placement::At && is_stored_in(read.producer, site);
                if (is_local || !is_known(read.producer)) {
                    continue;
                }
                // What is more than every cache holds is only ever found to be too much: no need to add up the rest.
                const double least = bytes + footprint_of(read.producer, read.box).bytes;
                if (least > enough) {
                    return least;
                }
                outside_->include(read.producer, read.box, is_read_apart(read.producer));
            }
            if (is_own || (site.is_root() && nest_[func].placement == Placement::Root)) {
                outside_->include(func, written_box(stage, site), is_read_apart(func));
            }
        }
    }
    return bytes;
}

std::vector<Site> GroupFeaturizer::shared_sites(const Site& site) const {
    std::vector<Site> sites = {site};
    if (site.is_root() || !is_shared_) {
        return sites;
    }
    const StageNest& own = nest_of(index_, nest_, site.stage);
    if (own.leader >= 0 && site.level > own.shared_level) {
        return sites;
    }
    sites.clear();
    for (int stage : sharing_stages(index_, nest_, group_, site.stage)) {
        const StageNest& nest = nest_of(index_, nest_, stage);
        if (nest.leader < 0 || site.level <= nest.shared_level) {
            sites.push_back({static_cast<int16_t>(stage), site.level, site.loops});
        }
    }
    return sites;
}

bool GroupFeaturizer::is_stored_in(int func, const Site& site) const {
    const FuncSchedule& schedule = nest_[func];
    if (site.is_root()) {
        return true;
    }
    if (schedule.store.stage == site.stage) {
        return schedule.store.level >= site.level;
    }
    return !schedule.store.is_root() && regions_.is_inside(index_.stage(schedule.store.stage).func, site);
}

Box GroupFeaturizer::written_box(int stage_id, const Site& site) {
    const Stage& stage = index_.stage(stage_id);
    const Box loops = regions_.loops(stage_id, site);
    Box box = regions_.computed(stage.func, nest_[stage.func].compute);
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (!stage.loops[i].is_reduction) {
            box[stage.loops[i].pure_dim] = loops[static_cast<int>(i)];
        }
    }
    return box;
}

Footprint GroupFeaturizer::traffic(const StageContext& context, int producer, double capacity) {
    const FuncSchedule& schedule = nest_[producer];
    const Site store = index_.func(producer).is_input ? Site{} : schedule.store;
    const auto begin = std::find(context.chain.begin(), context.chain.end(), store);
    auto outside = begin;
    const bool is_l1 = capacity == static_cast<double>(machine_.l1_bytes);
    for (auto it = begin; it != context.chain.end(); ++it) {
        if (touched_bytes(*it) <= capacity && (!is_l1 || stays_in_l1(context, producer, *it))) {
            if (it == begin) {
                return {};
            }
            break;
        }
        outside = it;
    }
    if (outside == context.chain.end()) {
        return {};
    }
    const Footprint once = first_read(context, producer, *outside, capacity);
    const auto times = static_cast<double>(regions_.iterations(*outside));
    return {once.bytes * times, once.segments * times};
}

Footprint GroupFeaturizer::first_read(const StageContext& context, int producer, const Site& site, double capacity) {
    const Func& func = index_.func(producer);
    Footprint all;
    for (const ReadBox& read : reads_at(context.id, site)) {
        if (read.producer == producer) {
            const Footprint part = footprint_of(producer, read.box);
            all.bytes += bytes_in_lines(machine_, func, part);
            all.segments += part.segments;
        }
    }
    const StageNest& nest = context.nest;
    const bool is_own_loop = site.stage == context.id;
    if (nest.leader < 0 || (is_own_loop && site.level > nest.shared_level) ||
        touched_bytes({static_cast<int16_t>(context.id), nest.shared_level, Site::kAllLoops}) > capacity) {
        return all;
    }
    std::vector<ReadBox> before;
    for (int stage : sharing_stages(index_, nest_, group_, context.id)) {
        if (stage == context.id) {
            break;
        }
        const Site same = is_own_loop ? Site{static_cast<int16_t>(stage), site.level, site.loops} : site;
        for (const ReadBox& read : reads_at(stage, same)) {
            if (read.producer == producer) {
                include(index_, before, producer, read.box);
            }
        }
    }
    return before.empty() ? all : new_of(producer, reads_at(context.id, site), before);
}

Footprint GroupFeaturizer::new_of(int producer, std::span<const ReadBox> reads, std::span<const ReadBox> known) {
    Footprint total;
    for (const ReadBox& read : reads) {
        if (read.producer != producer) {
            continue;
        }
        Footprint least = footprint_of(producer, read.box);
        for (const ReadBox& other : known) {
            Box both = other.box;
            both.include(read.box);
            const Footprint before = footprint_of(producer, other.box);
            const Footprint together = footprint_of(producer, both);
            least.bytes = std::min(least.bytes, std::max(0.0, together.bytes - before.bytes));
            least.segments = std::min(least.segments, std::max(0.0, together.segments - before.segments));
        }
        total.bytes += bytes_in_lines(machine_, index_.func(producer), least);
        total.segments += least.segments;
    }
    return total;
}

Site GroupFeaturizer::resident_site(const StageContext& context, double capacity) {
    const auto fits = [&](const Site& site) { return touched_bytes(site) <= capacity; };
    const auto found = std::find_if(context.chain.begin(), context.chain.end(), fits);
    return found == context.chain.end() ? context.chain.back() : *found;
}

bool GroupFeaturizer::is_tiled(int func, const Box& box) {
    if (box.is_empty || box.dimensions < 2) {
        return false;
    }
    const Box& whole = index_.func(func).is_input ? regions_.required(func, Site{}) : regions_.computed(func, Site{});
    const int inner = innermost_dim(func);
    return static_cast<double>(box[inner].extent()) < kWholeRow * static_cast<double>(whole[inner].extent());
}

void GroupFeaturizer::measure_storage(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    const Func& func = index_.func(stage.func);
    const FuncSchedule& schedule = nest_[stage.func];
    const int inner = schedule.innermost_dim;
    const auto innermost = [&](const Box& box) {
        return box.dimensions == 0 ? 1.0 : static_cast<double>(box[inner].extent()) * func.bytes_per_point();
    };
    const auto bytes = [&](const Box& box) { return static_cast<double>(box.points()) * func.bytes_per_point(); };
    const Box& realized = regions_.computed(stage.func, schedule.store);
    const Box& produced = regions_.production(stage.func);
    const Box& root = regions_.computed(stage.func, Site{});
    const Site task = task_site(context);
    const Box at_task = task.stage == context.id ? written_box(context.id, task) : regions_.computed(stage.func, task);
    out[k_bytes_at_realization] = static_cast<float>(storage_bytes(stage.func));
    out[k_innermost_bytes_at_realization] = static_cast<float>(innermost(realized));
    out[k_bytes_at_production] = static_cast<float>(bytes(produced));
    out[k_innermost_bytes_at_production] = static_cast<float>(innermost(produced));
    out[k_bytes_at_root] = static_cast<float>(bytes(root));
    out[k_innermost_bytes_at_root] = static_cast<float>(innermost(root));
    out[k_bytes_at_task] = static_cast<float>(bytes(at_task));
    out[k_innermost_bytes_at_task] = static_cast<float>(innermost(at_task));
    const double stored = storage_bytes(stage.func);
    const bool is_large = stored >= static_cast<double>(machine_.fault_threshold_bytes);
    const bool is_trimmed = schedule.placement == Placement::At && stored >= kListBytes && returns_memory();
    const bool is_first = !func.is_output && stage.index == 0;
    const bool is_allocated = is_first && is_on_heap(index_, nest_, regions_, stage.func);
    const double allocations = is_allocated ? allocation_count(index_, nest_, regions_, stage.func) : 0;
    out[k_heap_allocations] = static_cast<float>(allocations);
    out[k_bytes_faulted] = static_cast<float>(is_large || is_trimmed ? stored * allocations : 0);
}

// Does the allocator give memory back between tasks? glibc does once what is freed exceeds twice its largest block.
bool GroupFeaturizer::returns_memory() {
    double total = 0;
    double largest = 0;
    for (int32_t func : group_) {
        const double bytes = nest_[func].placement == Placement::At ? storage_bytes(func) : 0;
        total += bytes;
        largest = std::max(largest, bytes);
    }
    return largest >= kListBytes && total > 2 * largest;
}

Footprint GroupFeaturizer::read_footprint(int stage, const Site& site, double* allocations) {
    Footprint total;
    int last = -1;
    for (const ReadBox& read : reads_at(stage, site)) {  // several boxes of one Func follow each other
        if (!is_known(read.producer)) {
            continue;
        }
        const Footprint one = footprint_of(read.producer, read.box);
        total.bytes += one.bytes;
        total.segments += one.segments;
        const bool is_first = last != read.producer;
        last = read.producer;
        if (allocations != nullptr && is_first) {
            const bool is_input = index_.func(read.producer).is_input;
            *allocations += is_input ? footprint_of(read.producer, regions_.required(read.producer, Site{})).bytes
                                     : storage_bytes(read.producer);
        }
    }
    return total;
}

void GroupFeaturizer::measure_reads(const StageContext& context, float* out) {
    const FuncSchedule& schedule = nest_[index_.stage(context.id).func];
    double allocations = 0;
    const Footprint realization = read_footprint(context.id, schedule.store, &allocations);
    const Footprint task = read_footprint(context.id, task_site(context), nullptr);
    const Footprint tile = read_footprint(context.id, context.chain.back(), nullptr);
    const double vectors = std::max(1.0, context.tile_points / context.nest.vector_width);
    out[k_unique_bytes_read_per_realization] = static_cast<float>(realization.bytes);
    out[k_unique_lines_read_per_realization] = static_cast<float>(realization.segments);
    out[k_allocation_bytes_read_per_realization] = static_cast<float>(allocations);
    out[k_unique_bytes_read_per_task] = static_cast<float>(task.bytes);
    out[k_unique_lines_read_per_task] = static_cast<float>(task.segments);
    out[k_unique_bytes_read_per_vector] = static_cast<float>(tile.bytes / vectors);
    out[k_unique_lines_read_per_vector] = static_cast<float>(tile.segments / vectors);
}

double GroupFeaturizer::lines_prefetched(const StageContext& context) {
    const int producer = context.nest.prefetched;
    const Site site = prefetch_site(index_, nest_, context.id);
    double lines = 0;
    for (const ReadBox& read : reads_at(context.id, site)) {
        if (read.producer == producer) {
            const Footprint once = footprint_of(producer, read.box);
            const double run = once.bytes / once.segments / static_cast<double>(machine_.cache_line_bytes);
            lines += once.segments * std::ceil(run);
        }
    }
    return lines * static_cast<double>(regions_.iterations(site));
}

Footprint GroupFeaturizer::followed_reads(const StageContext& context, int producer) {
    Footprint followed;
    for (auto site = context.chain.rbegin(); site != context.chain.rend(); ++site) {
        Footprint once;
        for (const ReadBox& read : reads_at(context.id, *site)) {
            if (read.producer == producer) {
                const Footprint part = footprint_of(producer, read.box);
                once.bytes += part.bytes;
                once.segments += part.segments;
            }
        }
        if (followed.segments > 0 && once.segments > kStreams) {
            break;
        }
        followed = once;
        // Runs only grow from here: there is no need to know how long they are.
        if (followed.bytes >= kLongRunBytes * followed.segments) {
            break;
        }
    }
    return followed;
}

Footprint GroupFeaturizer::followed_writes(const StageContext& context) {
    Footprint followed;
    for (auto site = context.chain.rbegin(); site != context.chain.rend() && site->stage == context.id; ++site) {
        const Footprint once = footprint_of(index_.stage(context.id).func, written_box(context.id, *site));
        if (followed.segments > 0 && once.segments > kStreams) {
            break;
        }
        followed = once;
    }
    return followed;
}

void GroupFeaturizer::measure_traffic(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    std::vector<Read> producers;
    for (const EffectiveAccess& access : context.reads.accesses) {
        const auto known = std::ranges::find(producers, access.producer, &Read::producer);
        if (known != producers.end()) {
            known->loads += access.count;
        } else if (is_known(access.producer)) {
            producers.push_back({access.producer, access.count});
        }
    }
    const auto l1 = static_cast<double>(machine_.l1_bytes);
    const auto l2 = static_cast<double>(machine_.l2_bytes);
    const auto l3 = static_cast<double>(machine_.l3_bytes);
    // Of the iteration domain: with those of reduction loops.
    const double points = static_cast<double>(out[k_num_vectors]) * out[k_vector_size] + out[k_num_scalars];
    double into[3] = {0, 0, 0};
    double segments = 0;
    double tiled = 0;
    const auto runs_of = [](double bytes, const Footprint& once) {
        if (once.bytes <= 0) {
            return 0.0;
        }
        const double run = once.bytes / once.segments;
        return bytes / run * std::max(0.0, 1 - run / kLongRunBytes);
    };
    const Site resident = resident_site(context, l2);
    for (const auto& [producer, loads] : producers) {
        // A gather may read anywhere in a region, and reads no more lines of it than it makes loads.
        const double most_segments = loads * points;
        const double most_bytes = most_segments * static_cast<double>(machine_.cache_line_bytes);
        into[0] += std::min(most_bytes, traffic(context, producer, l1).bytes);
        const double second = std::min(most_bytes, traffic(context, producer, l2).bytes);
        into[1] += second;
        const bool is_prefetched = producer == context.nest.prefetched;
        const double runs = second > 0 ? runs_of(second, followed_reads(context, producer)) : 0;
        segments += std::min(most_segments, runs) * (is_prefetched ? 1 - prefetched_share(context.nest) : 1);
        const double third = std::min(most_bytes, traffic(context, producer, l3).bytes);
        into[2] += third;
        if (third > 0) {
            const bool is_any_tiled = std::ranges::any_of(reads_at(context.id, resident), [&](const ReadBox& read) {
                return read.producer == producer && is_tiled(producer, read.box);
            });
            tiled += is_any_tiled ? third : 0;
        }
    }
    // Every write of a region that does not stay in a cache until it is read leaves that cache once a visit.
    const FuncSchedule& schedule = nest_[stage.func];
    const double written = out[k_bytes_at_realization] * out[k_num_realizations];
    const double alive = touched_bytes(schedule.store);
    const bool is_reread = !stage.self_accesses.empty();
    out[k_bytes_into_l1] = static_cast<float>(into[0] + (is_reread && alive > l1 ? written : 0));
    out[k_bytes_into_l2] = static_cast<float>(into[1] + (is_reread && alive > l2 ? written : 0));
    out[k_bytes_into_l3] = static_cast<float>(into[2] + (is_reread && alive > l3 ? written : 0));
    out[k_segments_into_l2] = static_cast<float>(segments);
    out[k_lines_prefetched] = static_cast<float>(context.nest.prefetched >= 0 ? lines_prefetched(context) : 0);
    out[k_bytes_written_beyond_l2] = static_cast<float>(alive > l2 ? written : 0);
    out[k_segments_written_beyond_l3] = static_cast<float>(alive > l3 ? runs_of(written, followed_writes(context)) : 0);
    out[k_bytes_written_beyond_l3] = static_cast<float>(alive > l3 ? written : 0);
    out[k_tiled_bytes_into_l3] = static_cast<float>(tiled);
    const bool writes_tiles = alive > l3 && resident.stage == context.id && !resident.is_root() &&
                              is_tiled(stage.func, written_box(context.id, resident));
    out[k_tiled_bytes_written_beyond_l3] = static_cast<float>(writes_tiles ? written : 0);
}

}  // namespace metol::cpu
