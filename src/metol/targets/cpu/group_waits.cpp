// What the steps of a reduction wait for: the result of the step before.
#include <algorithm>
#include <numeric>
#include <span>

#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/storage.hpp"
#include "targets/cpu/tile_order.hpp"

namespace metol::cpu {

namespace {

// Instructions that a core looks ahead: with fewer of them in all steps of a reduction, it begins the next tile before
// this one has ended.
constexpr double kLookAhead = 256;

// Of so many steps in a row, each with so many vectors of its own, the share that wait for the one before.
double waiting_share(double operations, double vectors, double steps) {
    // Each step loads about as much as it computes.
    return std::max(0.0, 1 - kLookAhead / (2 * operations * vectors * steps));
}

// What a step computes from a value of the step before: a sum adds once.
double operations_a_value(const PipelineIndex& index, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const auto values = static_cast<double>(index.func(stage.func).value_bytes.size());
    return std::max(1.0, stage.chained_ops / values);
}

// Where the loops of a scan step on.
struct ScanLoops {
    double in_a_row = 1;       // steps before other lanes begin anew
    double points_a_step = 1;  // that do not wait for each other
    double tiles_a_step = 1;
    double unrolled = 1;  // steps in a tile
};

ScanLoops scan_loops(const StageNest& nest, std::span<const int> order, size_t loop) {
    ScanLoops out;
    const auto at = static_cast<size_t>(std::ranges::find(order, static_cast<int>(loop)) - order.begin());
    const auto product = [](const Trips& trips, std::span<const int> loops) {
        return std::accumulate(loops.begin(), loops.end(), 1.0,
                               [&](double all, int i) { return all * trips[static_cast<size_t>(i)]; });
    };
    const Trips& tile = nest.levels.back();
    out.unrolled = tile[loop];
    out.points_a_step = product(tile, order) / out.unrolled;
    bool is_stepping = false;
    for (size_t level = nest.levels.size() - 1; level-- > 0;) {
        const Trips& trips = nest.levels[level];
        const double outer = product(trips, order.first(at));
        const double inner = product(trips, order.subspan(at + 1));
        if (is_stepping && inner > 1) {
            break;
        }
        is_stepping = is_stepping || trips[loop] > 1;
        out.in_a_row *= trips[loop];
        out.tiles_a_step *= inner * (is_stepping ? 1 : outer);
        if (is_stepping && outer > 1) {
            break;
        }
    }
    out.points_a_step *= out.tiles_a_step;
    return out;
}

}  // namespace

// Does the compiler add up what the steps of a tile add to a scalar, before it adds that to the sum? So it does with
// vectors of what lies side by side in memory.
bool GroupFeaturizer::adds_up_beforehand(const StageContext& context) const {
    const Stage& stage = index_.stage(context.id);
    for (size_t loop = 0; loop < stage.loops.size(); loop++) {
        const bool is_unrolled = stage.loops[loop].is_reduction && context.tile[loop] > 1;
        const auto is_dense = [&](const EffectiveAccess& access) {
            const auto dense = static_cast<size_t>(innermost_dim(access.producer));
            return access.producer == stage.func || dense >= access.jacobian.size() ||
                   access.jacobian[dense][loop] == 1;
        };
        if (is_unrolled && !std::ranges::all_of(context.reads.accesses, is_dense)) {
            return false;
        }
    }
    return true;
}

// Does the compiler know that the sums of a tile lie apart? If not, it stores each before it loads the next.
bool GroupFeaturizer::are_apart(const StageContext& context) {
    const Stage& stage = index_.stage(context.id);
    const DimSet unknown = layout_of(stage.func).unknown_strides;
    for (size_t i = 0; i < stage.loops.size() && unknown.any(); i++) {
        const bool is_spread = !stage.loops[i].is_reduction && context.tile[i] > 1;
        if (is_spread && unknown[static_cast<size_t>(stage.loops[i].pure_dim)]) {
            return false;
        }
    }
    return true;
}

void GroupFeaturizer::count_waits(const StageContext& context, double sums, double steps, double turns, float* out) {
    const double waiting = waiting_share(operations_a_value(index_, context.id), sums, turns);
    if (waiting == 0) {
        return;
    }
    const double left = machine_.vector_registers - sums;
    const TileOrder order =
        tile_order(index_.stage(context.id), context.nest, context.reads, out[k_registers_per_vector]);
    out[k_chained_steps] = static_cast<float>(waiting * steps);
    out[k_spilled_steps] = order.registers <= left ? 0 : out[k_chained_steps];
}

// Does the value of the step before stay in a register? Compilers carry it over where each step goes on by what it
// stores: by a vector, where rows are one vector, or by a scalar, where it goes along them.
bool GroupFeaturizer::is_carried_over(const StageContext& context, const Scan& scan) {
    const int func = index_.stage(context.id).func;
    return scan.back == 1 && scan.stepped_dim >= 0 && !has_lanes_apart(context) &&
           !layout_of(func).unknown_strides[static_cast<size_t>(scan.stepped_dim)] &&
           stride_of(nest_, regions_, func, scan.stepped_dim) == context.nest.vector_width;
}

void GroupFeaturizer::count_waits_of_scan(const StageContext& context, const Scan& scan, float* out) {
    const ScanLoops loops =
        scan_loops(context.nest, index_.nest_order(context.id, context.nest.vector_loop), scan.loop);
    const double registers = std::max(1.0F, out[k_registers_per_vector]);
    const double vectors = loops.points_a_step / context.nest.vector_width * registers;
    const auto back = static_cast<double>(scan.back);
    const double waiting =
        waiting_share(operations_a_value(index_, context.id), vectors, loops.in_a_row * loops.unrolled / back);
    if (waiting == 0) {
        return;
    }
    const double turns = waiting * context.iterations_of_tile / loops.tiles_a_step / back;
    out[k_chained_steps] = static_cast<float>(turns * loops.unrolled);
    // Steps that are unrolled hand over in registers; from one turn to the next, memory does.
    const bool is_alone = loops.points_a_step == context.nest.vector_width && loops.unrolled == 1;
    out[k_spilled_steps] = is_alone && is_carried_over(context, scan) ? 0 : static_cast<float>(turns);
}

}  // namespace metol::cpu
