// What the steps of a reduction wait for: the result of the step before.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "schedule/tilings.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/cpu/storage.hpp"
#include "targets/cpu/tile_order.hpp"

namespace metol::cpu {

namespace {

// Instructions that a core looks ahead: with fewer of them in all steps of a reduction, it begins the next tile before
// this one has ended.
constexpr double kLookAhead = 256;

// An update that reads what an earlier step of its own has stored, as in f(x, r) = a f(x, r) + b f(x, r - 1).
struct Scan {
    size_t loop = 0;
    int64_t back = 0;  // steps between the store and the load
};

// How many steps of a reduction loop after a place is stored it is loaded, if it is ever.
std::optional<int64_t> steps_back(const Access& store, const Access& load, const Offset& offset, size_t loop) {
    std::optional<int64_t> back;
    for (size_t d = 0; d < store.jacobian.size(); d++) {
        const JacobianRow& row = store.jacobian[d];
        const JacobianRow& other = load.jacobian[d];
        if (row.is_known != other.is_known || row.numerator != other.numerator ||
            row.denominator != other.denominator || !row.is_known[loop]) {
            return std::nullopt;
        }
        const int64_t apart = d < kOffsetDims ? store.offsets.front()[d] - offset[d] : 0;
        const int64_t step = row.numerator[loop];
        if (step == 0 || row.denominator[loop] != 1) {
            if (step != 0 || apart != 0) {
                return std::nullopt;
            }
        } else if (apart % step != 0 || (back && *back != apart / step)) {
            return std::nullopt;
        } else {
            back = apart / step;
        }
    }
    return back && *back > 0 ? back : std::nullopt;
}

// The innermost loop along which an update is a scan, and the nearest step that it goes back to there.
std::optional<Scan> scan_of(const Stage& stage) {
    std::optional<Scan> found;
    for (size_t loop = 0; loop < stage.loops.size() && !found; loop++) {
        if (!stage.loops[loop].is_reduction) {
            continue;
        }
        for (const Access& store : stage.stores) {
            for (const Access& load : stage.self_accesses) {
                for (size_t i = 0; i < load.offsets.size() && store.offsets.size() == 1; i++) {
                    const auto back = steps_back(store, load, load.offsets[i], loop);
                    if (back && (!found || *back < found->back)) {
                        found = Scan{loop, *back};
                    }
                }
            }
        }
    }
    return found;
}

// Where the loops of a scan step on.
struct ScanLoops {
    double in_a_row = 1;       // steps before other lanes begin anew
    double points_a_step = 1;  // that do not wait for each other
    double tiles_a_step = 1;
    double unrolled = 1;  // steps in a tile
};

ScanLoops loops_of(const StageNest& nest, size_t loop) {
    ScanLoops out;
    const Trips& tile = nest.levels.back();
    const auto product = [](std::span<const int32_t> trips) {
        return std::accumulate(trips.begin(), trips.end(), 1.0, std::multiplies<>());
    };
    out.unrolled = tile[loop];
    out.points_a_step = product(tile) / out.unrolled;
    bool is_stepping = false;
    for (size_t level = nest.levels.size() - 1; level-- > 0;) {
        // In a level, the loops of the reduction are the inner ones, in order.
        const std::span<const int32_t> trips = nest.levels[level];
        const double inner = product(trips.first(loop));
        const double outer = product(trips.subspan(loop + 1));
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
            const auto dense = static_cast<size_t>(nest_[access.producer].innermost_dim);
            return access.producer == stage.func || dense >= access.jacobian.size() ||
                   access.jacobian[dense][loop] == 1;
        };
        if (is_unrolled && !std::ranges::all_of(context.reads.accesses, is_dense)) {
            return false;
        }
    }
    return true;
}

void GroupFeaturizer::count_waits(const StageContext& context, double sums, double steps, double turns, float* out) {
    // Each step loads about as much as it adds to.
    const double seen = 1 - kLookAhead / (2 * sums * turns);
    if (seen <= 0) {
        return;
    }
    const double left = machine_.vector_registers - sums;
    const TileOrder order =
        tile_order(index_.stage(context.id), context.nest, context.reads, out[k_registers_per_vector]);
    out[k_chained_steps] = static_cast<float>(seen * steps);
    out[k_spilled_steps] = order.registers <= left ? 0 : out[k_chained_steps];
}

// Does the value of the step before stay in a register? Compilers carry it over where each step goes on by what it
// stores: by a vector, where rows are one vector, or by a scalar, where it goes along them.
bool GroupFeaturizer::is_carried_over(const StageContext& context, size_t loop) {
    const Stage& stage = index_.stage(context.id);
    const FuncSchedule& schedule = nest_[stage.func];
    const JacobianRow* moving = nullptr;
    int stepped = 0;
    for (size_t d = 0; d < stage.stores.front().jacobian.size(); d++) {
        const JacobianRow& row = stage.stores.front().jacobian[d];
        if (moves_with(row, loop)) {
            if (moving != nullptr) {
                return false;
            }
            moving = &row;
            stepped = static_cast<int>(d);
        }
    }
    if (moving == nullptr || std::abs(moving->numerator[loop]) != 1 ||
        layout_of(stage.func).unknown_strides[static_cast<size_t>(stepped)]) {
        return false;
    }
    const Box& stored = stored_box(nest_, regions_, stage.func);
    int64_t stride = 1;
    for (int d = 0; d < stored.dimensions && stepped != schedule.innermost_dim; d++) {
        const int64_t extent = stored[d].extent();
        const bool is_row = d == schedule.innermost_dim;
        const int64_t alignment = std::max<int64_t>(1, schedule.row_alignment);
        stride *= is_row ? divide_up(extent, alignment) * alignment : d < stepped ? extent : 1;
    }
    return stride == context.nest.vector_width;
}

void GroupFeaturizer::count_waits_of_scan(const StageContext& context, float* out) {
    const auto scan = scan_of(index_.stage(context.id));
    if (!scan) {
        return;
    }
    const ScanLoops loops = loops_of(context.nest, scan->loop);
    const double registers = std::max(1.0F, out[k_registers_per_vector]);
    const double vectors = loops.points_a_step / context.nest.vector_width * registers;
    const double turns = loops.in_a_row * loops.unrolled / static_cast<double>(scan->back);
    const double seen = 1 - kLookAhead / (2 * vectors * turns);
    if (seen <= 0) {
        return;
    }
    const double tiles = context.iterations_of_tile / loops.tiles_a_step / static_cast<double>(scan->back);
    const bool is_alone = loops.points_a_step == context.nest.vector_width && loops.unrolled == 1 && scan->back == 1;
    out[k_chained_steps] = static_cast<float>(seen * tiles * loops.unrolled);
    // Steps that are unrolled hand over in registers; from one turn to the next, memory does.
    const bool is_carried = is_alone && !has_lanes_apart(context) && is_carried_over(context, scan->loop);
    out[k_spilled_steps] = is_carried ? 0 : static_cast<float>(seen * tiles);
}

}  // namespace metol::cpu
