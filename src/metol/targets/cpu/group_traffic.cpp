// The traffic of a sub-nest between caches and memory.
#include <algorithm>
#include <cmath>

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
constexpr double kLongRunBytes = 4096;

// What a Stage reads of one Func, a point: places that do not follow each other, and cache lines.
struct Read {
    int producer;
    double runs;
    double lines;
};

// What comes in line by line: a run of whole lines is taken to start with one, any other starts anywhere.
double bytes_in_lines(const CpuParameters& machine, const Func& func, const Footprint& runs) {
    const double line = static_cast<double>(machine.cache_line_bytes);
    const bool is_whole = std::fmod(runs.bytes, runs.segments * line) == 0;
    return is_whole ? runs.bytes : runs.bytes + runs.segments * (line - func.bytes_per_point());
}

}  // namespace

bool GroupFeaturizer::stays_in(const StageContext& context, int producer, const Site& site, double capacity) {
    // The last cache spreads addresses over its sets by all of their bits.
    if (capacity > static_cast<double>(machine_.l2_bytes)) {
        return true;
    }
    const Func& func = index_.func(producer);
    const StorageShape shape{
        func.is_input ? std::span<const Interval>(func.estimate) : stored_box(nest_, regions_, producer).intervals,
        innermost_dim(producer), static_cast<double>(func.bytes_per_point())};
    return std::ranges::all_of(reads_at(context.id, site), [&](const ReadBox& read) {
        return read.producer != producer || conflicting_bytes(shape, read.box) <= capacity;
    });
}

Footprint GroupFeaturizer::traffic(const StageContext& context, int producer, double capacity) {
    const FuncSchedule& schedule = nest_[producer];
    const Site store = index_.func(producer).is_input ? Site{} : schedule.store;
    const auto begin = std::find(context.chain.begin(), context.chain.end(), store);
    auto outside = begin;
    for (auto it = begin; it != context.chain.end(); ++it) {
        if (touched_bytes(*it) <= capacity && stays_in(context, producer, *it, capacity)) {
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

Footprint GroupFeaturizer::runs_of(int func, const Box& box) {
    Footprint runs = footprint_of(func, box);
    const bool are_all_rows = box.share >= 1;
    if (box.dimensions > 1 && !box.is_empty && are_all_rows && !is_tiled(func, box)) {
        const Func& own = index_.func(func);
        const int inner = innermost_dim(func);
        int next = 0;
        while (next < box.dimensions && (next == inner || (own.interleaved > 1 && next == own.dense_dim))) {
            next++;
        }
        const int64_t rows = next < box.dimensions ? box[next].extent() : 1;
        runs.segments = std::max(1.0, runs.segments / static_cast<double>(rows));
    }
    return runs;
}

Footprint GroupFeaturizer::followed_reads(const StageContext& context, int producer) {
    Footprint followed;
    for (auto site = context.chain.rbegin(); site != context.chain.rend(); ++site) {
        Footprint once;
        for (const ReadBox& read : reads_at(context.id, *site)) {
            if (read.producer == producer) {
                const Footprint part = runs_of(producer, read.box);
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
    bool is_own = true;  // one of its loops; the last is all that is computed at once
    for (auto site = context.chain.rbegin(); site != context.chain.rend() && is_own; ++site) {
        is_own = site->stage == context.id;
        const Footprint once = runs_of(index_.stage(context.id).func, regions_.written(context.id, *site));
        if (followed.segments > 0 && once.segments > kStreams) {
            break;
        }
        followed = once;
    }
    return followed;
}

// Steps of a scan that find the line of the step before evicted from the first cache: all of them, where the rows that
// a step goes through begin so far apart that they want the same few sets, and are more than those hold.
double GroupFeaturizer::evicted_steps(const StageContext& context, double points) {
    const auto& scan = index_.scans[static_cast<size_t>(context.id)];
    if (!scan) {
        return 0;
    }
    Site step = context.chain.back();  // whose body is what happens between two steps
    for (const Site& site : context.chain) {
        if (site.stage == context.id && context.nest.levels[static_cast<size_t>(site.level)][scan->loop] > 1) {
            step = site;
        }
    }
    const int func = index_.stage(context.id).func;
    const StorageShape shape{stored_box(nest_, regions_, func).intervals, innermost_dim(func),
                             static_cast<double>(index_.func(func).bytes_per_point())};
    const double wanted = conflicting_bytes(shape, regions_.written(context.id, step));
    return wanted > static_cast<double>(machine_.l1_bytes) ? points : 0;
}

void GroupFeaturizer::measure_traffic(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    std::vector<Read> producers;
    const int vector_loop = context.nest.vector_loop;
    const int run = vector_loop < 0 ? 1 : context.tile[static_cast<size_t>(vector_loop)];
    for (const EffectiveAccess& access : context.reads.accesses) {
        auto known = std::ranges::find(producers, access.producer, &Read::producer);
        if (known == producers.end()) {
            if (!is_known(access.producer)) {
                continue;
            }
            known = producers.insert(known, {access.producer, 0, 0});
        }
        const RunShare share = run_share(index_, nest_, access, vector_loop, run);
        known->runs += access.count * share.runs;
        known->lines += access.count * share.lines;
    }
    const auto l1 = static_cast<double>(machine_.l1_bytes);
    const auto l2 = static_cast<double>(machine_.l2_bytes);
    const auto l3 = static_cast<double>(machine_.l3_bytes);
    // Of the iteration domain: with those of reduction loops.
    const double points = static_cast<double>(out[k_num_vectors]) * out[k_vector_size] + out[k_num_scalars];
    double into[3] = {0, 0, 0};
    double segments = 0;
    double tiled = 0;
    const auto segments_of = [](double bytes, const Footprint& once) {
        if (once.bytes <= 0) {
            return 0.0;
        }
        const double run = once.bytes / once.segments;
        return bytes / run * std::max(0.0, 1 - run / kLongRunBytes);
    };
    const Site resident = resident_site(context, l2);
    for (const auto& [producer, runs_per_point, lines_per_point] : producers) {
        // Where a coordinate is read from memory, a load may be anywhere in a region: all together they read no more
        // of it than the runs of every tile.
        const double most_segments = runs_per_point * points;
        const double most_bytes = lines_per_point * points * static_cast<double>(machine_.cache_line_bytes);
        into[0] += std::min(most_bytes, traffic(context, producer, l1).bytes);
        const double second = std::min(most_bytes, traffic(context, producer, l2).bytes);
        into[1] += second;
        const bool is_prefetched = producer == context.nest.prefetched;
        const double runs = second > 0 ? segments_of(second, followed_reads(context, producer)) : 0;
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
    const double written = written_bytes(context.id) * out[k_num_realizations];
    const double alive = touched_bytes(schedule.store);
    const bool is_reread = !stage.self_accesses.empty();
    out[k_bytes_into_l1] = static_cast<float>(into[0] + (is_reread && alive > l1 ? written : 0));
    out[k_bytes_into_l2] = static_cast<float>(into[1] + (is_reread && alive > l2 ? written : 0));
    out[k_bytes_into_l3] = static_cast<float>(into[2] + (is_reread && alive > l3 ? written : 0));
    out[k_segments_into_l2] = static_cast<float>(segments + evicted_steps(context, points));
    out[k_lines_prefetched] = static_cast<float>(context.nest.prefetched >= 0 ? lines_prefetched(context) : 0);
    out[k_bytes_written_beyond_l2] = static_cast<float>(alive > l2 ? written : 0);
    out[k_segments_written_beyond_l3] =
        static_cast<float>(alive > l3 ? segments_of(written, followed_writes(context)) : 0);
    out[k_bytes_written_beyond_l3] = static_cast<float>(alive > l3 ? written : 0);
    out[k_tiled_bytes_into_l3] = static_cast<float>(tiled);
    const bool writes_tiles = alive > l3 && resident.stage == context.id && !resident.is_root() &&
                              is_tiled(stage.func, regions_.written(context.id, resident));
    out[k_tiled_bytes_written_beyond_l3] = static_cast<float>(writes_tiles ? written : 0);
}

}  // namespace metol::cpu
