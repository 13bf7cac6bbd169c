// What a sub-nest reads, writes and keeps: footprints and storage.
#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/tilings.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/storage.hpp"

namespace metol::cpu {

namespace {

// Blocks below this come from the allocator's own lists, whatever happens at the top of its heap.
constexpr double kListBytes = 64 * 1024;
// Halide allocates up to so much more for a Func at root than is read of it: the bounds that it infers go round the
// tiles of all readers, and of its own (0.2 to 3.1 % of blocks of 24 MB and more, in schedules of the applications).
constexpr double kRounding = 0.035;

// Bytes of a Func that come fresh from the system at every run, where so many of it are read: each value of a tuple is
// a block of its own, and one that falls short of the threshold counts for as much as it is likely to be lifted over
// it.
double fresh_bytes(const CpuParameters& machine, const Func& func, double stored) {
    const auto threshold = static_cast<double>(machine.fault_threshold_bytes);
    double fresh = 0;
    for (const int value : func.value_bytes) {
        const double block = stored * value / func.bytes_per_point();
        fresh += std::clamp(block - (threshold - block) / kRounding, 0.0, block);
    }
    return fresh;
}

// Places along a dimension of a producer that the loops of a Stage come to, at the most; no end where nobody knows.
double places_along(const StageReads& reads, int producer, int dim, const Box& loops) {
    double all = 0;
    for (const EffectiveAccess& access : reads.accesses) {
        if (access.producer != producer) {
            continue;
        }
        double places = access.distinct[static_cast<size_t>(dim)];
        for (int loop = 0; loop < loops.dimensions; loop++) {
            const double slope = access.jacobian[static_cast<size_t>(dim)][static_cast<size_t>(loop)];
            const auto turns = static_cast<double>(loops[loop].extent());
            if (turns <= 1) {
                continue;
            }
            if (std::isnan(slope) || access.phases[static_cast<size_t>(dim)][static_cast<size_t>(loop)]) {
                return std::numeric_limits<double>::infinity();
            }
            places = places_after(places, slope, turns);
        }
        all += places;
    }
    return all;
}

// Finds the dimension along which a Stage reads the fewest of the places in a box, if not all: it may take every
// eighth.
void find_skipped(const StageReads& accesses, const Box& loops, ReadBox& read) {
    for (int dim = 0; dim < read.box.dimensions && !read.box.is_empty; dim++) {
        const auto extent = static_cast<double>(read.box[dim].extent());
        const double share = extent <= 1 ? 1 : places_along(accesses, read.producer, dim, loops) / extent;
        if (static_cast<float>(share) < read.box.share) {
            read.box.share = static_cast<float>(share);
            read.box.skipped_dim = static_cast<int8_t>(dim);
        }
    }
}

Footprint footprint(const CpuParameters& machine, const Func& func, int innermost_dim, const Box& box) {
    if (box.is_empty || box.dimensions == 0) {
        return {static_cast<double>(func.bytes_per_point()), 1};
    }
    // The channels of interleaved pixels come in together, whichever of them are asked for.
    const bool is_interleaved = func.interleaved > 1 && innermost_dim == func.row_dim;
    const int64_t inside = is_interleaved ? box[func.dense_dim].extent() : 1;
    const int64_t row = box[innermost_dim].extent();
    const double run_bytes =
        static_cast<double>(row * (is_interleaved ? func.interleaved : 1)) * func.bytes_per_point();
    // Lines are whole, whatever is skipped along them.
    const bool is_along = box.skipped_dim == innermost_dim || (is_interleaved && box.skipped_dim == func.dense_dim);
    const double share = is_along ? 1 : box.share;
    const double line = static_cast<double>(machine.cache_line_bytes);
    const double runs = std::max(
        1.0, share * static_cast<double>(box.points()) / static_cast<double>(std::max<int64_t>(1, row * inside)));
    // A run shorter than a line still brings the line in.
    return {runs * std::max(run_bytes, line), runs};
}

// Rows of less than a line, all of which is asked for: the next begins where one ends, and so on through whole planes.
void join_short_rows(const CpuParameters& machine, const Func& func, int innermost_dim, const Box& stored,
                     const Box& box, Footprint& runs) {
    const auto is_whole = [&](int dim) {
        // Of an input, more may lie in memory than is read.
        const auto d = static_cast<size_t>(dim);
        return box[dim].extent() >= (func.is_input ? func.estimate[d].extent() : stored[dim].extent());
    };
    const auto line = static_cast<double>(machine.cache_line_bytes);
    double bytes = static_cast<double>(box[innermost_dim].extent()) * func.bytes_per_point();
    double joined = 1;
    int last = innermost_dim;
    for (int dim = 0; dim < box.dimensions && bytes < line && is_whole(last); dim++) {
        if (dim != innermost_dim) {
            bytes *= static_cast<double>(box[dim].extent());
            joined *= static_cast<double>(box[dim].extent());
            last = dim;
        }
    }
    if (joined > 1) {
        runs.segments = std::max(1.0, runs.segments / joined);
        runs.bytes = runs.segments * std::max(bytes, line);
    }
}

}  // namespace

Footprint GroupFeaturizer::footprint_of(int func, const Box& box) {
    Footprint runs = footprint(machine_, index_.func(func), innermost_dim(func), box);
    const Func& read = index_.func(func);
    if (!box.is_empty && box.dimensions > 1 && box.share == 1 && read.interleaved <= 1 &&
        static_cast<double>(box[innermost_dim(func)].extent()) * read.bytes_per_point() <
            static_cast<double>(machine_.cache_line_bytes)) {
        join_short_rows(machine_, read, innermost_dim(func), stored_box(nest_, regions_, func), box, runs);
    }
    if (nest_[func].row_alignment > 1 && !box.is_empty) {
        // Between whole rows lies what they are padded with.
        const int64_t row = stored_box(nest_, regions_, func)[innermost_dim(func)].extent();
        if (box[innermost_dim(func)].extent() >= row) {
            const auto padded = static_cast<double>(padded_row(nest_[func], row));
            runs.bytes = std::max(runs.bytes, runs.segments * padded * index_.func(func).bytes_per_point());
        }
    }
    return runs;
}

double GroupFeaturizer::storage_bytes(int func) {
    return storage_->find_or_make(site_key(0, func, Site{}),
                                  [&] { return cpu::storage_bytes(index_, nest_, regions_, func); });
}

const std::vector<ReadBox>& GroupFeaturizer::reads_at(int stage, const Site& site) {
    const int func = index_.stage(stage).func;
    const uint64_t key =
        site_key(0, stage, site) ^ combine(regions_.surroundings(func), inlined_hash(index_, nest_, func, *inlined_));
    if (const auto* found = reads_->find(key)) {
        return *found;
    }
    std::vector<ReadBox>& reads = reads_->add(key);
    const Box& loops = regions_.loops(stage, site);
    read_boxes(index_, nest_, stage, loops, reads);
    const std::shared_ptr<const StageReads> accesses = effective_reads(index_, nest_, stage, *inlined_);
    for (ReadBox& read : reads) {
        find_skipped(*accesses, loops, read);
    }
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
        bytes += is_stored_inside ? used_bytes(func) : 0;
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
                outside_->include(func, regions_.written(stage, site), is_read_apart(func));
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
    const Box at_task =
        task.stage == context.id ? regions_.written(context.id, task) : regions_.computed(stage.func, task);
    out[k_bytes_at_realization] = static_cast<float>(storage_bytes(stage.func));
    out[k_innermost_bytes_at_realization] = static_cast<float>(innermost(realized));
    out[k_bytes_at_production] = static_cast<float>(bytes(produced));
    out[k_innermost_bytes_at_production] = static_cast<float>(innermost(produced));
    out[k_bytes_at_root] = static_cast<float>(bytes(root));
    out[k_innermost_bytes_at_root] = static_cast<float>(innermost(root));
    out[k_bytes_at_task] = static_cast<float>(bytes(at_task));
    out[k_innermost_bytes_at_task] = static_cast<float>(innermost(at_task));
    const double stored = storage_bytes(stage.func);
    const bool is_trimmed = schedule.placement == Placement::At && stored >= kListBytes && returns_memory();
    const bool is_first = !func.is_output && stage.index == 0;
    const bool is_allocated = is_first && is_on_heap(index_, nest_, regions_, stage.func);
    const double allocations = is_allocated ? allocation_count(index_, nest_, regions_, stage.func) : 0;
    out[k_heap_allocations] = static_cast<float>(allocations);
    const double faulted = is_trimmed ? stored : fresh_bytes(machine_, func, stored);
    out[k_bytes_faulted] = static_cast<float>(std::min(faulted, used_bytes(stage.func)) * allocations);
}

double GroupFeaturizer::written_bytes(int stage_id) {
    const Stage& stage = index_.stage(stage_id);
    const double stored = storage_bytes(stage.func);
    if (stage.index == 0 && index_.has_identity_computed[static_cast<size_t>(stage.func)] != 0) {
        return stored;
    }
    return std::min(stored, footprint_of(stage.func, regions_.written(stage_id, nest_[stage.func].store)).bytes);
}

double GroupFeaturizer::used_bytes(int func) {
    const double stored = storage_bytes(func);
    double used = 0;
    for (int stage : index_.func(func).stages) {
        used += used < stored ? written_bytes(stage) : 0;
    }
    return std::min(stored, used);
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

}  // namespace metol::cpu
