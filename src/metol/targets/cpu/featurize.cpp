#include "targets/cpu/featurize.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/tilings.hpp"
#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/fusing.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/guards.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/registers.hpp"
#include "targets/cpu/steps_in_lanes.hpp"
#include "targets/cpu/storage.hpp"
#include "targets/cpu/unrolling.hpp"

namespace metol::cpu {

namespace {

// Vectors of this size can leave lanes out (AVX-512). With narrower ones compilers go through the lanes one by one, or
// use instructions that take as long.
constexpr int kMaskedVectorBytes = 64;
// Loads of lanes of so many bytes at least have an instruction for it.
constexpr int kMaskedBytes = 4;

}  // namespace

void GroupFeaturizer::run(std::span<const int32_t> stages, bool is_analytical, std::span<StageRow> rows,
                          const RowReader& read) {
    for (size_t i = 0; i < stages.size(); i++) {
        featurize_stage(stages[i], is_analytical, rows[i]);
        if (!read(i)) {
            return;
        }
    }
}

Site GroupFeaturizer::task_site(const StageContext& context) const {
    Site outermost;
    for (const Site& site : context.chain) {
        if (!site.is_root() && site.loops == Site::kAllLoops && site.level == 0) {
            if (is_parallel_level(index_, nest_, site)) {
                return site;
            }
            const int func = index_.stage(site.stage).func;
            outermost = nest_[func].placement == Placement::Root ? site : outermost;
        }
    }
    return outermost;
}

void GroupFeaturizer::count_events(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    const FuncSchedule& schedule = nest_[stage.func];
    const Box loops = regions_.loops(context.id, schedule.compute);
    const double productions = static_cast<double>(regions_.iterations(schedule.compute));
    const double realizations = static_cast<double>(regions_.iterations(schedule.store));
    const Trips& tile = context.nest.levels.back();
    double points = 1;
    double tiles = 1;
    double pure_tile = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const int64_t extent = std::max<int64_t>(1, loops[static_cast<int>(i)].extent());
        points *= static_cast<double>(extent);
        tiles *= divide_up(extent, tile[i]);
        pure_tile *= stage.loops[i].is_reduction ? 1 : tile[i];
    }
    if (regions_.runs_whole_tiles(context.id)) {
        tiles = static_cast<double>(regions_.iterations(
            {static_cast<int16_t>(context.id), static_cast<int8_t>(context.nest.inner_level() - 1), Site::kAllLoops}));
    }
    double own_tasks = 1;
    double outer_tasks = 1;
    if (context.nest.is_parallel) {
        for (int32_t count : context.nest.levels.front()) {
            own_tasks *= count;
        }
    }
    if (schedule.placement == Placement::At) {
        const Site site = parallel_body_around(index_, nest_, schedule);
        if (!site.is_root()) {
            const Site around = nest_[index_.stage(site.stage).func].compute;
            outer_tasks =
                static_cast<double>(regions_.iterations(site)) / static_cast<double>(regions_.iterations(around));
        }
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
    out[k_native_vector_size] =
        static_cast<float>(std::max(1, machine_.vector_bytes / std::max(1, stage.narrowest_bytes)));
    out[k_num_vectors] = static_cast<float>(width > 1 ? vectors : 0);
    out[k_num_scalars] = static_cast<float>(width > 1 ? 0 : points * productions);
    out[k_registers_per_vector] =
        static_cast<float>(divide_up(static_cast<int64_t>(width) * stage.widest_bytes, machine_.vector_bytes));
    out[k_loop_iterations] = static_cast<float>(productions * tiles);
    double outer = productions;
    for (int level = 0; level + 2 < static_cast<int>(context.nest.levels.size()); level++) {
        for (int32_t count : context.nest.levels[static_cast<size_t>(level)]) {
            outer *= count;
        }
        out[k_outer_iterations] += static_cast<float>(outer);
    }
    out[k_is_follower] = context.nest.leader >= 0 ? 1 : 0;
    out[k_is_output] = index_.func(stage.func).is_output ? 1 : 0;
}

// Does the place that an update writes depend on its reduction loops?
bool moves_while_reducing(const Stage& stage) {
    return std::ranges::any_of(stage.stores, [&](const Access& store) { return moves_while_reducing(stage, store); });
}

// Does a tile have all the channels of its pixels, so that what is stored a few apart becomes whole vectors?
bool fills_pixels(const Stage& stage, const Func& func, const Trips& tile) {
    int64_t channels = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction) {  // `tile_orders` has another order for these
            return false;
        }
        channels *= stage.loops[i].pure_dim == func.dense_dim ? tile[i] : 1;
    }
    return channels >= func.interleaved;
}

// Do the lanes of a vector go to neighbouring places in storage?
bool GroupFeaturizer::writes_densely(const StageContext& context) const {
    const Stage& stage = index_.stage(context.id);
    const auto v = static_cast<size_t>(context.nest.vector_loop);
    const Func& func = index_.func(stage.func);
    const int innermost = nest_[stage.func].innermost_dim;
    if (func.interleaved > 1 && !fills_pixels(stage, func, context.tile)) {
        return false;
    }
    for (const Access& store : stage.stores) {
        for (size_t d = 0; d < store.jacobian.size(); d++) {
            const JacobianRow& row = store.jacobian[d];
            const bool is_dense =
                row.is_known[v] && row.numerator[v] == row.denominator[v] && static_cast<int>(d) == innermost;
            if (moves_with(row, v) && !is_dense) {
                return false;
            }
        }
    }
    return true;
}

// Does a `where` hold for some lanes of a vector alone?
bool GroupFeaturizer::has_lanes_apart(const StageContext& context) const {
    const int loop = context.nest.vector_loop;
    return loop >= 0 && context.nest.vector_width > 1 &&
           index_.stage(context.id).condition_loops[static_cast<size_t>(loop)];
}

double GroupFeaturizer::masked_share(const StageContext& context) {
    const int loop = context.nest.vector_loop;
    if (loop < 0 || context.nest.vector_width <= 1) {
        return 0;
    }
    const Stage& stage = index_.stage(context.id);
    const int64_t extent = regions_.loops(context.id, nest_[stage.func].compute)[loop].extent();
    const int64_t width = context.nest.vector_width, tile = context.tile[static_cast<size_t>(loop)];
    if (extent % width == 0) {
        return 0;
    }
    const LoopDim& dim = stage.loops[static_cast<size_t>(loop)];
    if (!dim.is_reduction &&
        (!is_guarded(index_, nest_, stage.func, dim.pure_dim) || rounds_vectors_up(index_, nest_, context.id))) {
        return 0;
    }
    // Of those that are beyond the end as a whole, nothing is left where Halide knows the size.
    return 1.0 / static_cast<double>(divide_up(extent, tile) * divide_up(tile, width));
}

// How often a Stage comes back to each point of its Func.
double reduction_turns(const Stage& stage, const StageNest& nest) {
    double turns = 1;
    for (const Trips& level : nest.levels) {
        for (size_t i = 0; i < stage.loops.size(); i++) {
            turns *= stage.loops[i].is_reduction ? level[i] : 1;
        }
    }
    return turns;
}

// The share of what one task writes that lies in lines which neighbouring tasks write to at the same time: all of a run
// shorter than a line, and a line of one not much longer, unless all begin and end with a line. The ends of long runs
// are written to while the neighbour is elsewhere.
double GroupFeaturizer::contested_share(const StageContext& context) {
    const int id = index_.stage(context.id).func;
    const Func& func = index_.func(id);
    const Box box = regions_.written(context.id, task_site(context));
    if (box.is_empty || box.dimensions == 0) {
        return 0;
    }
    const Box& stored = stored_box(nest_, regions_, id);
    const int inner = innermost_dim(id);
    const double bytes = func.bytes_per_value();
    const double line = machine_.cache_line_bytes;
    double run = static_cast<double>(box[inner].extent()) * bytes;
    bool is_whole = box[inner].extent() >= stored[inner].extent();
    const bool is_aligned = std::fmod(static_cast<double>(stored[inner].extent()) * bytes, line) == 0;
    for (int dim = 0; dim < box.dimensions && is_whole; dim++) {
        if (dim != inner) {
            run *= static_cast<double>(box[dim].extent());
            is_whole = box[dim].extent() >= stored[dim].extent();
        }
    }
    if (run >= 2 * line || (is_aligned && std::fmod(run, line) == 0)) {
        return 0;
    }
    // Where a task goes over many lines, it and its neighbour are at the same one by chance alone; not so where data
    // picks the lines.
    const double region = static_cast<double>(box.points()) * bytes;
    const double together = index_.stage(context.id).has_data_dependent_write ? 1 : std::min(1.0, 2 * line / region);
    return together * std::min(1.0, line / run);
}

// Makes the loops of the tile loops of single vectors.
void GroupFeaturizer::roll(StageContext& context, float* out) const {
    const double vectors = context.tile_points / context.nest.vector_width;
    context.tile.fill(1);
    context.tile[static_cast<size_t>(context.nest.vector_loop)] = context.nest.vector_width;
    context.tile_points = context.nest.vector_width;
    out[k_loop_iterations] *= static_cast<float>(vectors);
    out[k_unrolled_loop_extent] = 1;
}

TileShape GroupFeaturizer::tile_of(const StageContext& context) {
    const Stage& stage = index_.stage(context.id);
    TileShape shape{context.nest.vector_loop,
                    context.nest.vector_width,
                    machine_.vector_bytes,
                    stage.loops.size(),
                    context.tile,
                    has_lanes_apart(context) && machine_.vector_bytes < kMaskedVectorBytes,
                    clamped_share(context)};
    if (context.loop_in_lanes >= 0) {
        std::swap(shape.points[static_cast<size_t>(context.loop_in_lanes)], shape.lane_steps);
    }
    return shape;
}

// Lanes of dense loads that are loaded one by one where each has a condition: no instruction of AVX2 does so for fewer
// than four bytes, and none at all where neighbours lie apart.
double GroupFeaturizer::masked_lanes(int producer, int width, const TileLoads& loads) const {
    const int32_t bytes = std::ranges::min(index_.func(producer).value_bytes);
    const bool has_masks = machine_.vector_bytes >= kMaskedVectorBytes || bytes >= kMaskedBytes;
    const double side_by_side = loads.apart > 0 ? 0 : loads.dense;
    return loads.apart + (has_masks ? 0 : side_by_side * std::min(width, machine_.vector_bytes / bytes));
}

// Are the loads of vectors that an end cuts through masked, and all lanes stored? Those of most pure Funcs are whose
// loop is split once, into vectors (lower/tails.py).
bool GroupFeaturizer::masks_loads_alone(const StageContext& context) const {
    const Func& func = index_.func(index_.stage(context.id).func);
    const auto loop = static_cast<size_t>(context.nest.vector_loop);
    const auto splits = std::ranges::count_if(context.nest.levels, [&](const Trips& level) { return level[loop] > 1; });
    return func.stages.size() == 1 && !func.is_output && splits <= 2 && context.tile[loop] == context.nest.vector_width;
}

DimSet GroupFeaturizer::known_loops(const StageContext& context, const TileShape& tile) {
    const int func = index_.stage(context.id).func;
    // An output in the loops of another has no version for the estimated size.
    if (index_.func(func).is_output && (context.nest.leader >= 0 || is_leader(index_, nest_, func))) {
        return {};
    }
    return cpu::known_loops(index_, context.id, tile, regions_.loops(context.id, nest_[func].compute));
}

double GroupFeaturizer::arithmetic_share(const StageContext& context) {
    if (context.loop_in_lanes >= 0) {
        const int32_t steps = context.tile[static_cast<size_t>(context.loop_in_lanes)];
        return share_in_lanes(machine_, context.id, steps, context.nest.vector_loop >= 0);
    }
    if (machine_.arithmetic[static_cast<size_t>(context.id)].empty()) {
        return 1;
    }
    const TileShape tile = tile_of(context);
    const DimSet known = known_loops(context, tile);
    const Turns turns = innermost_turns(context);
    const Repeats repeats{turns.loop, static_cast<double>(turns.count), loops_inside(context, turns, known)};
    return own_share(machine_, context.id, tile, known, repeats);
}

void GroupFeaturizer::share_arithmetic(const StageContext& context, float* out) {
    const auto share = static_cast<float>(arithmetic_share(context));
    if (share == 1) {
        return;
    }
    for (Feature count : {k_num_vectors, k_num_scalars}) {
        out[count] *= share;
    }
    for (Feature each : {k_vector_loads_per_vector, k_scalar_loads_per_vector, k_scalar_loads_per_scalar,
                         k_unique_bytes_read_per_vector, k_unique_lines_read_per_vector}) {
        out[each] /= share;
    }
}

void GroupFeaturizer::count_loads(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    const Trips& points = context.tile;
    const bool are_lanes_apart = has_lanes_apart(context);
    const TileShape tile = tile_of(context);
    const double masked = masked_share(context);
    const Turns turns = innermost_turns(context);
    out[k_outer_iterations] += turns.loop < 0 ? 0.0F : out[k_loop_iterations] / static_cast<float>(turns.count);
    TileLoads total;
    for (const EffectiveAccess& access : context.reads.accesses) {
        TileLoads loads = loads_of_tile(index_, nest_, access, tile, layout_of(access.producer));
        const double once = turns_loaded_for(access, turns, context.id);
        loads.dense /= once;
        loads.scalar /= once;
        loads.apart /= once;
        const bool is_free = is_in_registers(access.producer);
        total.dense += is_free ? 0 : loads.dense;
        total.scalar += is_free && tile.vector_loop < 0 ? 0 : loads.scalar;
        total.scalar +=
            is_free || masked == 0 ? 0 : masked * masked_lanes(access.producer, context.nest.vector_width, loads);
    }
    const bool is_whole_tile = context.tile == context.nest.levels.back();
    // An accumulator stays in registers while the loop just outside the tile reduces into it: a scan does not.
    double reduced = 1;
    double turns_inside = 1;
    const Trips& around = context.nest.levels[context.nest.levels.size() - 2];
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction) {
            reduced *= points[i];
            turns_inside *= around[i];
        }
    }
    const double width = context.nest.vector_width;
    const double vectors = context.tile_points / width;
    const double registers = std::max(1.0F, out[k_registers_per_vector]);
    const auto values = static_cast<double>(index_.func(stage.func).value_bytes.size());
    const double accumulators = vectors / reduced * registers * values;
    const bool is_scatter = width > 1 && (!writes_densely(context) || tile.is_lane_by_lane);
    const bool hides = hides_places(index_, nest_, context.id);
    // Scattered lanes are put together and taken apart again each time.
    const bool is_promoted = is_whole_tile && accumulators < machine_.vector_registers && !is_scatter &&
                             !stage.has_data_dependent_write && !moves_while_reducing(stage) && !are_lanes_apart &&
                             are_apart(context) && !hides;
    const double visits = is_promoted ? std::max(1.0, turns_inside * reduced) : 1;
    if (is_promoted && turns_inside > 1) {
        const double steps = width == 1 && adds_up_beforehand(context) ? 1 : reduced / tile.lane_steps;
        count_waits(context, accumulators, context.iterations_of_tile * steps, turns_inside * steps, out);
    } else if (hides) {
        out[k_chained_steps] = static_cast<float>(context.iterations_of_tile * reduced * vectors);
        out[k_spilled_steps] = out[k_chained_steps];
    } else if (const auto& scan = index_.scans[static_cast<size_t>(context.id)]; scan && !is_scatter) {
        count_waits_of_scan(context, *scan, out);
    }
    // A scattered lane is extracted and stored by itself: it costs what a gathered one does.
    total.scalar += is_scatter ? values * vectors * width / visits : 0;
    const Layout layout = layout_of(stage.func);
    // What some lanes alone have stored is not known to be what others load.
    const double passes = hides ? reduced : 1;
    const double visits_apart = are_lanes_apart ? reduced : passes;
    for (const Access& access : stage.self_accesses) {
        const TileLoads loads = loads_of_tile(index_, nest_, direct_access(access, stage.func), tile, layout);
        total.dense += visits_apart * loads.dense / visits;
        total.scalar += visits_apart * loads.scalar / visits;
        // No accumulator is kept in registers under a condition.
        total.scalar += masked == 0 ? 0 : masked * reduced * masked_lanes(stage.func, context.nest.vector_width, loads);
    }
    if (masked > 0 && machine_.vector_bytes < kMaskedVectorBytes && !is_scatter && !is_in_registers(stage.func) &&
        !masks_loads_alone(context)) {
        total.scalar += masked * vectors * width;
    }
    const bool is_stored = !is_scatter && !is_in_registers(stage.func);
    const double crossing = width > 1 ? 1 + straddling_share(1, layout.row_period, machine_.vector_bytes) : 1;
    out[k_vector_stores] = static_cast<float>(
        is_stored ? crossing * registers * values * context.iterations_of_tile * vectors * passes / visits : 0);
    if (context.nest.is_parallel && reduction_turns(stage, context.nest) > visits) {
        const double stores = values * (is_scatter ? vectors * width : registers * vectors);
        out[k_contested_stores] =
            static_cast<float>(contested_share(context) * context.iterations_of_tile * stores / visits);
    }
    if (width > 1) {
        out[k_vector_loads_per_vector] = static_cast<float>(total.dense / vectors);
        out[k_scalar_loads_per_vector] = static_cast<float>(total.scalar / vectors);
    } else {
        out[k_scalar_loads_per_scalar] = static_cast<float>(total.scalar / context.tile_points);
    }
}

Layout GroupFeaturizer::layout_of(int func) {
    Layout layout{row_period(func), {}};
    if (!is_known(func)) {
        return layout;
    }
    const uint64_t key = site_key(2, func, Site{});
    if (const double* found = storage_->find(key)) {
        layout.unknown_strides = static_cast<unsigned long>(*found);
        return layout;
    }
    layout.unknown_strides = unknown_strides(index_, nest_, regions_, func);
    storage_->add(key) = static_cast<double>(layout.unknown_strides.to_ulong());
    return layout;
}

bool GroupFeaturizer::is_in_registers(int func) {
    if (!nest_[func].is_flat) {
        return false;
    }
    const uint64_t key = site_key(1, func, Site{});
    if (const double* found = storage_->find(key)) {
        return *found != 0;
    }
    const bool is_so = cpu::is_in_registers(machine_, index_, nest_, regions_, func);
    storage_->add(key) = is_so ? 1 : 0;
    return is_so;
}

void GroupFeaturizer::measure_working_sets(const StageContext& context, float* out) {
    const Stage& stage = index_.stage(context.id);
    const FuncSchedule& schedule = nest_[stage.func];
    const Site task = task_site(context);
    const auto depth = [&](const Site& site) { return std::find(context.chain.begin(), context.chain.end(), site); };
    const auto is_in_scope = [&](const Site& outer, const Site& inner) {
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
        const Site& store = nest_[func].store;
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

void GroupFeaturizer::featurize_stage(int stage_id, bool is_analytical, StageRow& row) {
    const StageNest& nest = nest_of(index_, nest_, stage_id);
    chain_->sites.clear();
    regions_.chain(stage_id, chain_->sites);
    const std::shared_ptr<const StageReads> reads = effective_reads(index_, nest_, stage_id, *inlined_);
    StageContext context{stage_id, nest, chain_->sites, 0, 1, *reads, nest.levels.back()};
    for (int32_t points : nest.levels.back()) {
        context.tile_points *= points;
    }
    row.row.assign(kFeatureCount, 0.0F);
    float* out = row.row.data();
    count_events(context, out);
    if (context.tile_points > nest.vector_width && !unrolls_tile(index_, nest_, stage_id)) {
        roll(context, out);
    } else {
        context.loop_in_lanes = loop_in_lanes(index_, nest_, stage_id, reads.get());
    }
    context.iterations_of_tile = out[k_loop_iterations];
    measure_storage(context, out);
    count_loads(context, out);
    if (is_in_registers(index_.stage(stage_id).func)) {
        out[k_in_registers] = 1;
        out[k_loop_iterations] = 0;
    }
    measure_traffic(context, out);
    if (!is_analytical) {
        measure_reads(context, out);
        measure_working_sets(context, out);
    }
    add_inlined(context, row);
    share_arithmetic(context, out);
}

void add_inlined_row(std::span<const float> part, std::span<float> row) {
    const float lanes = row[k_vector_size] * row[k_num_vectors] + part[k_vector_size] * part[k_num_vectors];
    const float calls = row[k_inlined_calls] + part[k_inlined_calls];
    const float scalars = row[k_num_scalars] + part[k_num_scalars];
    for (size_t column = 0; column < row.size(); column++) {
        row[column] = std::max(row[column], part[column]);
    }
    row[k_inlined_calls] = calls;
    row[k_num_scalars] = scalars;
    row[k_num_vectors] = lanes / std::max(1.0F, row[k_vector_size]);
}

}  // namespace metol::cpu
