#include "targets/cpu/featurize.hpp"

#include <algorithm>
#include <unordered_map>

#include "schedule/tilings.hpp"
#include "targets/cpu/feature_table.hpp"
#include "targets/cpu/loads.hpp"

namespace metol::cpu {

namespace {

// Halide splits the iterations near a border off the loops whose bounds it can solve for. It can at root; inside the
// loops of others, often not, and every lane of a load through an inlined boundary condition is clamped and gathered.
constexpr double kClampedShareAtRoot = 0.02;
constexpr double kClampedShareInside = 0.5;
// Blocks below this come from the allocator's own lists, whatever happens at the top of its heap.
constexpr double kListBytes = 64 * 1024;

struct Footprint {
    double bytes = 0;     // whole cache lines
    double segments = 0;  // contiguous runs
};

Footprint footprint(const CpuParameters &machine, const Func &func, int innermost_dim, const Box &box) {
    if (box.is_empty || box.dimensions == 0) {
        return {static_cast<double>(func.bytes_per_point()), 1};
    }
    const double run_bytes = static_cast<double>(box[innermost_dim].extent()) * func.bytes_per_point();
    const double line = static_cast<double>(machine.cache_line_bytes);
    const double runs = static_cast<double>(box.points()) / static_cast<double>(std::max<int64_t>(1, box[innermost_dim].extent()));
    // A run shorter than a line still brings the line in; a longer one on average half a line more than it holds.
    return {runs * std::max(run_bytes, line), runs};
}

class GroupFeaturizer {
  public:
    GroupFeaturizer(const CpuParameters &machine, const PipelineIndex &index, const LoopNest &nest,
                    std::span<const int32_t> group, std::span<float> rows)
        : machine_(machine), index_(index), nest_(nest), group_(group), rows_(rows), regions_(index, nest) {}

    void run() {
        for (int32_t func : group_) {
            for (size_t s = 0; s < index_.func(func).stages.size(); s++) {
                featurize_stage(index_.func(func).stages[s], nest_[func].stages[s]);
            }
        }
    }

  private:
    struct StageContext {
        int id;
        const StageNest &nest;
        std::vector<Site> chain;
        double iterations_of_tile;  // tiles computed in the whole run
        double tile_points;
        StageReads reads;
    };

    int innermost_dim(int func) const { return index_.func(func).is_input ? 0 : nest_[func].innermost_dim; }

    bool is_known(int func) const {
        return index_.func(func).is_input || nest_[func].placement != Placement::Unscheduled;
    }

    float *row(int stage) { return rows_.data() + static_cast<size_t>(stage) * kFeatureCount; }

    Footprint footprint_of(int func, const Box &box) const {
        return footprint(machine_, index_.func(func), innermost_dim(func), box);
    }

    // Storage of a computed Func; a window that slides is folded to what is alive at once.
    double storage_bytes(int func) {
        const FuncSchedule &schedule = nest_[func];
        const Box &box = regions_.computed(func, schedule.slide_dim >= 0 ? schedule.compute : schedule.store);
        return static_cast<double>(box.points()) * index_.func(func).bytes_per_point();
    }

    const std::vector<ReadBox> &reads_at(int stage, const Site &site) {
        const uint64_t key = (static_cast<uint64_t>(stage) << 32) | (static_cast<uint64_t>(static_cast<uint16_t>(site.stage)) << 16) |
                             (static_cast<uint64_t>(static_cast<uint8_t>(site.level)) << 8) | static_cast<uint8_t>(site.loops);
        const auto found = reads_.find(key);
        if (found != reads_.end()) {
            return found->second;
        }
        return reads_[key] = read_boxes(index_, nest_, stage, regions_.loops(stage, site));
    }

    // Bytes that one iteration of a site touches: what it reads from outside, what is stored inside, what it writes.
    double touched_bytes(const Site &site) {
        const uint64_t key = (static_cast<uint64_t>(static_cast<uint16_t>(site.stage)) << 16) |
                             (static_cast<uint64_t>(static_cast<uint8_t>(site.level)) << 8) | static_cast<uint8_t>(site.loops);
        if (const auto found = touched_.find(key); found != touched_.end()) {
            return found->second;
        }
        std::unordered_map<int, Box> outside;
        double bytes = 0;
        for (int32_t func : group_) {
            const bool is_stored_inside = nest_[func].placement == Placement::At && regions_.is_inside(func, site) &&
                                          (site.is_root() || is_stored_in(func, site));
            bytes += is_stored_inside ? storage_bytes(func) : 0;
            for (int stage : index_.func(func).stages) {
                const bool is_own = stage == site.stage;
                if (!is_own && !site.is_root() && !regions_.is_inside(func, site)) {
                    continue;
                }
                for (const ReadBox &read : reads_at(stage, site)) {
                    const bool is_local = nest_[read.producer].placement == Placement::At &&
                                          is_stored_in(read.producer, site);
                    if (!is_local && is_known(read.producer)) {
                        outside[read.producer].include(read.box);
                    }
                }
                if (is_own || (site.is_root() && nest_[func].placement == Placement::Root)) {
                    outside[func].include(written_box(stage, site));
                }
            }
        }
        for (const auto &[producer, box] : outside) {
            bytes += footprint_of(producer, box).bytes;
        }
        return touched_[key] = bytes;
    }

    bool is_stored_in(int func, const Site &site) const {
        const FuncSchedule &schedule = nest_[func];
        if (site.is_root()) {
            return true;
        }
        if (schedule.store.stage == site.stage) {
            return schedule.store.level >= site.level;
        }
        return !schedule.store.is_root() && regions_.is_inside(index_.stage(schedule.store.stage).func, site);
    }

    // The part of its own Func that a Stage writes in one iteration of a site.
    Box written_box(int stage_id, const Site &site) {
        const Stage &stage = index_.stage(stage_id);
        const Box loops = regions_.loops(stage_id, site);
        Box box = regions_.computed(stage.func, nest_[stage.func].compute);
        for (size_t i = 0; i < stage.loops.size(); i++) {
            if (!stage.loops[i].is_reduction) {
                box[stage.loops[i].pure_dim] = loops[static_cast<int>(i)];
            }
        }
        return box;
    }

    // Bytes of `producer` that come into a cache of `capacity` while `context` reads it. The data stays from one
    // iteration to the next of the innermost loop whose body fits; everything outside it brings it in again.
    Footprint traffic(const StageContext &context, int producer, double capacity) {
        const FuncSchedule &schedule = nest_[producer];
        const Site store = index_.func(producer).is_input ? Site{} : schedule.store;
        const auto begin = std::find(context.chain.begin(), context.chain.end(), store);
        auto outside = begin;
        for (auto it = begin; it != context.chain.end(); ++it) {
            if (touched_bytes(*it) <= capacity) {
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
        for (const ReadBox &read : reads_at(context.id, *outside)) {
            if (read.producer == producer) {
                const Footprint once = footprint_of(producer, read.box);
                const auto times = static_cast<double>(regions_.iterations(*outside));
                return {once.bytes * times, once.segments * times};
            }
        }
        return {};
    }

    void featurize_stage(int stage_id, const StageNest &nest);
    void count_events(const StageContext &context, float *out);
    void measure_storage(const StageContext &context, float *out);
    void measure_reads(const StageContext &context, float *out);
    void count_loads(const StageContext &context, float *out);
    bool returns_memory();
    bool writes_densely(const StageContext &context) const;
    void measure_traffic(const StageContext &context, float *out);
    void measure_working_sets(const StageContext &context, float *out);
    void add_inlined(const StageContext &context, const float *out);
    Site task_site(const StageContext &context) const;
    Footprint read_footprint(int stage, const Site &site, double *allocations);

    const CpuParameters &machine_;
    const PipelineIndex &index_;
    const LoopNest &nest_;
    std::span<const int32_t> group_;
    std::span<float> rows_;
    Regions regions_;
    std::unordered_map<uint64_t, std::vector<ReadBox>> reads_;
    std::unordered_map<uint64_t, double> touched_;
};

Site GroupFeaturizer::task_site(const StageContext &context) const {
    for (const Site &site : context.chain) {
        if (!site.is_root() && site.loops == Site::kAllLoops && site.level == 0) {
            const int func = index_.stage(site.stage).func;
            if (nest_[func].placement == Placement::Root) {
                return site;
            }
        }
    }
    return Site{};
}

void GroupFeaturizer::count_events(const StageContext &context, float *out) {
    const Stage &stage = index_.stage(context.id);
    const FuncSchedule &schedule = nest_[stage.func];
    const Box loops = regions_.loops(context.id, schedule.compute);
    const double productions = static_cast<double>(regions_.iterations(schedule.compute));
    const double realizations = static_cast<double>(regions_.iterations(schedule.store));
    const Trips &tile = context.nest.levels.back();
    double points = 1;
    double tiles = 1;
    double pure_tile = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int64_t extent = std::max<int64_t>(1, loops[static_cast<int>(i)].extent());
        points *= static_cast<double>(extent);
        tiles *= divide_up(extent, tile[i]);
        pure_tile *= stage.loops[i].is_reduction ? 1 : tile[i];
    }
    double own_tasks = 1;
    double outer_tasks = 1;
    if (context.nest.is_parallel) {
        for (int32_t count : context.nest.levels.front()) {
            own_tasks *= count;
        }
    }
    if (schedule.placement == Placement::At) {
        const Site site = task_site(context);
        const int host = site.is_root() ? -1 : index_.stage(site.stage).func;
        const auto &stages = host < 0 ? index_.func(stage.func).stages : index_.func(host).stages;
        const auto position = std::find(stages.begin(), stages.end(), site.stage) - stages.begin();
        const bool is_parallel = host >= 0 && nest_[host].stages[static_cast<size_t>(position)].is_parallel;
        outer_tasks = is_parallel ? static_cast<double>(regions_.iterations(site)) : 1;
    }
    const int width = context.nest.vector_width;
    const double vectors = productions * tiles * context.tile_points / width;
    out[k_num_realizations] = static_cast<float>(realizations);
    out[k_num_productions] = static_cast<float>(productions);
    out[k_points_computed_per_production] = static_cast<float>(points);
    out[k_points_computed_per_realization] = static_cast<float>(points * productions / std::max(1.0, realizations));
    out[k_points_computed_total] = static_cast<float>(points * productions);
    out[k_points_computed_minimum] = static_cast<float>(index_.minimum_points[static_cast<size_t>(context.id)]);
    out[k_innermost_loop_extent] = static_cast<float>(context.tile_points);
    out[k_innermost_pure_loop_extent] = static_cast<float>(pure_tile);
    out[k_unrolled_loop_extent] = static_cast<float>(pure_tile / width > 1 ? pure_tile : 1);
    out[k_inner_parallelism] = static_cast<float>(own_tasks);
    out[k_outer_parallelism] = static_cast<float>(outer_tasks);
    out[k_vector_size] = static_cast<float>(width);
    out[k_native_vector_size] = static_cast<float>(std::max(1, machine_.vector_bytes / std::max(1, stage.narrowest_bytes)));
    out[k_num_vectors] = static_cast<float>(width > 1 ? vectors : 0);
    out[k_num_scalars] = static_cast<float>(width > 1 ? 0 : points * productions);
    out[k_registers_per_vector] = static_cast<float>(divide_up(static_cast<int64_t>(width) * stage.widest_bytes, machine_.vector_bytes));
    out[k_loop_iterations] = static_cast<float>(productions * tiles);
    double outer = productions;
    for (int level = 0; level + 2 < static_cast<int>(context.nest.levels.size()); level++) {
        for (int32_t count : context.nest.levels[static_cast<size_t>(level)]) {
            outer *= count;
        }
        out[k_outer_iterations] += static_cast<float>(outer);
    }
    out[k_is_output] = index_.func(stage.func).is_output ? 1 : 0;
}

void GroupFeaturizer::measure_storage(const StageContext &context, float *out) {
    const Stage &stage = index_.stage(context.id);
    const Func &func = index_.func(stage.func);
    const FuncSchedule &schedule = nest_[stage.func];
    const int inner = schedule.innermost_dim;
    const auto innermost = [&](const Box &box) {
        return box.dimensions == 0 ? 1.0 : static_cast<double>(box[inner].extent()) * func.bytes_per_point();
    };
    const auto bytes = [&](const Box &box) { return static_cast<double>(box.points()) * func.bytes_per_point(); };
    const Box &realized = regions_.computed(stage.func, schedule.store);
    const Box &produced = regions_.production(stage.func);
    const Box &root = regions_.computed(stage.func, Site{});
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
    const bool is_fresh = !func.is_output && stage.index == 0 && (is_large || is_trimmed);
    out[k_bytes_faulted] = static_cast<float>(is_fresh ? stored * out[k_num_realizations] : 0);
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

Footprint GroupFeaturizer::read_footprint(int stage, const Site &site, double *allocations) {
    Footprint total;
    for (const ReadBox &read : reads_at(stage, site)) {
        if (!is_known(read.producer)) {
            continue;
        }
        const Footprint one = footprint_of(read.producer, read.box);
        total.bytes += one.bytes;
        total.segments += one.segments;
        if (allocations != nullptr) {
            const bool is_input = index_.func(read.producer).is_input;
            *allocations += is_input ? footprint_of(read.producer, regions_.required(read.producer, Site{})).bytes
                                     : storage_bytes(read.producer);
        }
    }
    return total;
}

void GroupFeaturizer::measure_reads(const StageContext &context, float *out) {
    const FuncSchedule &schedule = nest_[index_.stage(context.id).func];
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

// Do the lanes of a vector go to neighbouring places in storage?
bool GroupFeaturizer::writes_densely(const StageContext &context) const {
    const Stage &stage = index_.stage(context.id);
    const auto v = static_cast<size_t>(context.nest.vector_loop);
    const int innermost = nest_[stage.func].innermost_dim;
    for (const Access &store : stage.stores) {
        for (size_t d = 0; d < store.jacobian.size(); d++) {
            const JacobianRow &row = store.jacobian[d];
            const bool moves = !row.is_known[v] || row.numerator[v] != 0;
            const bool is_dense = row.is_known[v] && row.numerator[v] == row.denominator[v] && static_cast<int>(d) == innermost;
            if (moves && !is_dense) {
                return false;
            }
        }
    }
    return true;
}

void GroupFeaturizer::count_loads(const StageContext &context, float *out) {
    const Stage &stage = index_.stage(context.id);
    const Trips &points = context.nest.levels.back();
    const bool is_root = nest_[stage.func].placement == Placement::Root;
    const TileShape tile{context.nest.vector_loop, context.nest.vector_width, machine_.vector_bytes, points,
                         is_root ? kClampedShareAtRoot : kClampedShareInside};
    TileLoads total;
    for (const EffectiveAccess &access : context.reads.accesses) {
        const TileLoads loads = loads_of_tile(index_, nest_, access, tile);
        total.dense += loads.dense;
        total.scalar += loads.scalar;
    }
    // An accumulator stays in registers while the loop just outside the tile reduces into it.
    double reduced = 1;
    double turns_inside = 1;
    const Trips &around = context.nest.levels[context.nest.levels.size() - 2];
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction) {
            reduced *= points[i];
            turns_inside *= around[i];
        }
    }
    const double vectors = context.tile_points / context.nest.vector_width;
    const double registers = std::max(1.0F, out[k_registers_per_vector]);
    const double accumulators = vectors / reduced * registers;
    const bool is_promoted = accumulators < machine_.vector_registers && !stage.has_data_dependent_write;
    const double visits = is_promoted ? std::max(1.0, turns_inside * reduced) : 1;
    const double width = context.nest.vector_width;
    const bool is_scatter = width > 1 && !writes_densely(context);
    const double stores_a_vector = is_scatter ? width : registers;
    const double stores = stores_a_vector * context.iterations_of_tile * vectors / visits;
    if (!stage.self_accesses.empty()) {
        (width > 1 && !is_scatter ? total.dense : total.scalar) += vectors * stores_a_vector / visits;
    }
    out[k_vector_stores] = static_cast<float>(stores);
    if (width > 1) {
        out[k_vector_loads_per_vector] = static_cast<float>(total.dense / vectors);
        out[k_scalar_loads_per_vector] = static_cast<float>(total.scalar / vectors);
    } else {
        out[k_scalar_loads_per_scalar] = static_cast<float>(total.scalar / context.tile_points);
    }
}

void GroupFeaturizer::measure_traffic(const StageContext &context, float *out) {
    const Stage &stage = index_.stage(context.id);
    std::vector<int> producers;
    for (const EffectiveAccess &access : context.reads.accesses) {
        const bool is_new = std::find(producers.begin(), producers.end(), access.producer) == producers.end();
        if (is_new && is_known(access.producer)) {
            producers.push_back(access.producer);
        }
    }
    const auto l1 = static_cast<double>(machine_.l1_bytes);
    const auto l2 = static_cast<double>(machine_.l2_bytes);
    const auto l3 = static_cast<double>(machine_.l3_bytes);
    double into[3] = {0, 0, 0};
    double segments = 0;
    for (int producer : producers) {
        into[0] += traffic(context, producer, l1).bytes;
        const Footprint second = traffic(context, producer, l2);
        into[1] += second.bytes;
        segments += second.segments;
        into[2] += traffic(context, producer, l3).bytes;
    }
    // Every write of a region that does not stay in a cache until it is read leaves that cache once a visit.
    const FuncSchedule &schedule = nest_[stage.func];
    const double written = out[k_bytes_at_realization] * out[k_num_realizations];
    const double alive = touched_bytes(schedule.store);
    const bool is_reread = !stage.self_accesses.empty();
    out[k_bytes_into_l1] = static_cast<float>(into[0] + (is_reread && alive > l1 ? written : 0));
    out[k_bytes_into_l2] = static_cast<float>(into[1] + (is_reread && alive > l2 ? written : 0));
    out[k_bytes_into_l3] = static_cast<float>(into[2] + (is_reread && alive > l3 ? written : 0));
    out[k_segments_into_l2] = static_cast<float>(segments);
    out[k_bytes_written_beyond_l2] = static_cast<float>(alive > l2 ? written : 0);
    out[k_bytes_written_beyond_l3] = static_cast<float>(alive > l3 ? written : 0);
}

void GroupFeaturizer::measure_working_sets(const StageContext &context, float *out) {
    const Stage &stage = index_.stage(context.id);
    const FuncSchedule &schedule = nest_[stage.func];
    const Site task = task_site(context);
    const auto depth = [&](const Site &site) { return std::find(context.chain.begin(), context.chain.end(), site); };
    const auto is_in_scope = [&](const Site &outer, const Site &inner) {
        return depth(outer) != context.chain.end() && depth(outer) <= depth(inner);
    };
    double own = 0;
    double at_task = 0;
    double at_production = 0;
    double at_realization = 0;
    for (int32_t func : group_) {
        if (nest_[func].placement != Placement::At) {
            continue;
        }
        const double bytes = storage_bytes(func);
        const Site &store = nest_[func].store;
        own += is_stored_in(func, {static_cast<int16_t>(context.id), 0, Site::kAllLoops}) ? bytes : 0;
        at_task += is_stored_in(func, task) ? bytes : 0;
        at_production += is_in_scope(store, schedule.compute) ? bytes : 0;
        at_realization += is_in_scope(store, schedule.store) ? bytes : 0;
    }
    out[k_working_set] = static_cast<float>(own);
    out[k_working_set_at_task] = static_cast<float>(at_task);
    out[k_working_set_at_production] = static_cast<float>(at_production);
    out[k_working_set_at_realization] = static_cast<float>(at_realization);
}

void GroupFeaturizer::add_inlined(const StageContext &context, const float *out) {
    for (const InlinedUse &use : context.reads.inlined) {
        const int inlined_stage = index_.func(use.func).stages.front();
        float *inlined = row(inlined_stage);
        const auto calls = static_cast<float>(use.calls_per_point);
        inlined[k_inlined_calls] += calls * out[k_points_computed_total];
        inlined[k_num_vectors] += calls * out[k_num_vectors];
        inlined[k_num_scalars] += calls * out[k_num_scalars];
        inlined[k_vector_size] = std::max(inlined[k_vector_size], out[k_vector_size]);
        inlined[k_native_vector_size] = out[k_native_vector_size];
        inlined[k_inner_parallelism] = std::max(inlined[k_inner_parallelism], out[k_inner_parallelism]);
        inlined[k_outer_parallelism] = std::max(inlined[k_outer_parallelism], out[k_outer_parallelism]);
        inlined[k_points_computed_minimum] = static_cast<float>(index_.minimum_points[static_cast<size_t>(inlined_stage)]);
        inlined[k_bytes_at_root] = static_cast<float>(regions_.required(use.func, Site{}).points() * index_.func(use.func).bytes_per_point());
    }
}

void GroupFeaturizer::featurize_stage(int stage_id, const StageNest &nest) {
    StageContext context{stage_id, nest, regions_.chain(stage_id), 0, 1, effective_reads(index_, nest_, stage_id)};
    for (int32_t points : nest.levels.back()) {
        context.tile_points *= points;
    }
    float *out = row(stage_id);
    count_events(context, out);
    context.iterations_of_tile = out[k_loop_iterations];
    measure_storage(context, out);
    measure_reads(context, out);
    count_loads(context, out);
    measure_traffic(context, out);
    measure_working_sets(context, out);
    add_inlined(context, out);
}

}  // namespace

void featurize(const CpuParameters &machine, const PipelineIndex &index, const LoopNest &nest,
               std::span<const int32_t> group, std::span<float> rows) {
    GroupFeaturizer(machine, index, nest, group, rows).run();
}

void patch_working_set_at_root(const PipelineIndex &index, const LoopNest &nest, std::span<float> rows) {
    double total = 0;
    for (int32_t func : index.order) {
        if (nest[func].is_computed() && !index.func(func).is_output) {
            const auto stage = static_cast<size_t>(index.func(func).stages.front());
            total += static_cast<double>(rows[stage * kFeatureCount + k_bytes_at_realization]);
        }
    }
    for (int32_t func : index.order) {
        for (int32_t stage : index.func(func).stages) {
            if (nest[func].is_computed()) {
                rows[static_cast<size_t>(stage) * kFeatureCount + k_working_set_at_root] = static_cast<float>(total);
            }
        }
    }
}

}  // namespace metol::cpu
