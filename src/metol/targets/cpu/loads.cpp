#include "targets/cpu/loads.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/tilings.hpp"
#include "targets/cpu/borders.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

namespace {

// Narrowest value that is loaded into all lanes at once.
constexpr double kBroadcastBytes = 4;

constexpr int kNoRows = kMaxLoops;  // of points that are never neighbours

// Along which dimensions the points of a Func are neighbours, or few apart.
struct Rows {
    int dim = -1;         // along rows; -1 where that is still open
    double step = 1;      // places between neighbours there
    int inside_dim = -1;  // that lie one after the other in between, as the channels of a pixel; -1 where none does
};

// How a coordinate of the producer moves along the vector loop.
enum class VectorAccess { Broadcast, Dense, Gather };

VectorAccess classify(const EffectiveAccess& access, int vector_loop, const Rows& rows, double& stride) {
    stride = 0;
    const auto v = static_cast<size_t>(vector_loop);
    bool is_broadcast = true;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const bool is_inside = static_cast<int>(d) == rows.inside_dim;
        const double slope = access.jacobian[d][v] * (is_inside ? 1 : rows.step);
        const bool is_along_rows = static_cast<int>(d) == rows.dim || is_inside;
        // Neighbouring lanes take turns among a few places, whatever the layout; or lie in different rows.
        if (access.phases[d][v] && (slope == 0 || (rows.dim >= 0 && !is_along_rows))) {
            return VectorAccess::Gather;
        }
        if (slope == 0) {
            continue;
        }
        // Of a float that is rounded, Halide does not know that neighbours are few apart.
        if (access.floats[d][v]) {
            return VectorAccess::Gather;
        }
        is_broadcast = false;
        const bool is_dense =
            !std::isnan(slope) && std::abs(slope) <= kMaxDenseStride && (rows.dim < 0 || is_along_rows);
        if (!is_dense) {
            return VectorAccess::Gather;
        }
        stride = std::max(stride, std::abs(slope));
    }
    return is_broadcast ? VectorAccess::Broadcast : VectorAccess::Dense;
}

// The same where steps of a reduction are lanes: what these load lies side by side.
VectorAccess classify_in_lanes(const EffectiveAccess& access, int vector_loop) {
    return moves_with(access, static_cast<size_t>(vector_loop)) ? VectorAccess::Dense : VectorAccess::Broadcast;
}

Rows rows_of(const PipelineIndex& index, const LoopNest& nest, int id) {
    const Func& func = index.func(id);
    if (func.interleaved > 1) {
        return {func.row_dim, static_cast<double>(func.interleaved), func.dense_dim};
    }
    if (func.is_input) {
        return {func.dense_dim >= 0 ? func.row_dim : kNoRows};
    }
    return {nest[id].placement == Placement::Unscheduled ? index.lane_dims[static_cast<size_t>(id)]
                                                         : nest[id].innermost_dim};
}

// How many of the places between neighbours along rows a tile asks for, so that loads of whole vectors are shared.
double places_inside(const EffectiveAccess& access, const Rows& rows, const TileShape& tile) {
    if (rows.inside_dim < 0) {
        return 1;
    }
    const auto d = static_cast<size_t>(rows.inside_dim);
    double places = access.distinct[d];
    for (size_t i = 0; i < tile.loops; i++) {
        places *= access.jacobian[d][i] != 0 ? tile.points[i] : 1;
    }
    return std::clamp<double>(places, 1, rows.step);
}

}  // namespace

bool is_dense(const EffectiveAccess& access, int vector_loop, int innermost_dim) {
    double stride = 0;
    return classify(access, vector_loop, Rows{innermost_dim}, stride) == VectorAccess::Dense;
}

bool is_gathered(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop) {
    double stride = 0;
    return classify(access, vector_loop, rows_of(index, nest, access.producer), stride) == VectorAccess::Gather;
}

RunShare run_share(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop,
                   int run) {
    if (vector_loop < 0) {
        return {};
    }
    double stride = 0;
    switch (classify(access, vector_loop, rows_of(index, nest, access.producer), stride)) {
        case VectorAccess::Gather:
            return {};
        case VectorAccess::Broadcast:
            return {1.0 / run, 1.0 / run};
        case VectorAccess::Dense:
            break;
    }
    const double step = std::min<double>(stride * index.func(access.producer).bytes_per_value(), kLineBytes);
    return {1.0 / run, (1 + (run - 1) * step / kLineBytes) / run};
}

double straddling_share(double taps, double row_period, int vector_bytes) {
    // Of several taps all but one are unaligned, in all rows but those that start on a vector all of them; and straddle
    // two lines as often as a vector is long.
    return (1 - 1 / (std::max(1.0, taps) * row_period)) * vector_bytes / kLineBytes;
}

double places_in_tile(const EffectiveAccess& access, const TileShape& tile, DimSet untold) {
    Trips steps = tile.points;
    if (tile.vector_loop >= 0) {
        steps[static_cast<size_t>(tile.vector_loop)] /= std::max(1, tile.vector_width);
    }
    return distinct_loads(access, tile.loops, steps, tile.vector_loop, untold);
}

double places_along(const EffectiveAccess& access, const TileShape& tile, DimSet untold, DimSet dims) {
    EffectiveAccess along;
    DimSet untold_along;
    along.count = 1;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        if (dims[d]) {
            untold_along[along.jacobian.size()] = untold[d];
            along.jacobian.push_back(access.jacobian[d]);
            along.distinct.push_back(access.distinct[d]);
            along.count *= access.distinct[d];
        }
    }
    return std::min(places_in_tile(along, tile, untold_along), places_in_tile(access, tile, untold));
}

TileLoads loads_of_tile(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const TileShape& tile, const Layout& layout) {
    TileLoads loads;
    const Func& producer = index.func(access.producer);
    const Rows rows = rows_of(index, nest, access.producer);
    const double distinct = places_in_tile(access, tile, layout.unknown_strides);
    const double bytes_per_lane = tile.lane_steps * producer.bytes_per_value();
    const double registers = std::ceil(tile.vector_width * bytes_per_lane / tile.vector_bytes);
    if (tile.vector_loop < 0) {
        loads.scalar = distinct * registers;
        return loads;
    }
    double stride = 1;
    switch (tile.lane_steps > 1 ? classify_in_lanes(access, tile.vector_loop)
                                : classify(access, tile.vector_loop, rows, stride)) {
        case VectorAccess::Broadcast:
            // Of four bytes and more, the port that loads puts it in all lanes.
            (bytes_per_lane >= kBroadcastBytes ? loads.dense : loads.scalar) = distinct;
            break;
        case VectorAccess::Dense: {
            const double clamped = tile.is_lane_by_lane                         ? 1
                                   : is_clamped_along(access, tile.vector_loop) ? tile.clamped_share
                                                                                : 0;
            const double taps = rows.dim < 0 ? 1 : access.distinct[static_cast<size_t>(rows.dim)];
            const double vectors = std::max(1.0, std::ceil(stride) / places_inside(access, rows, tile));
            const double straddling = straddling_share(taps, layout.row_period, tile.vector_bytes);
            loads.dense = (1 - clamped) * distinct * registers * (1 + straddling) * vectors;
            loads.scalar = clamped * distinct * tile.vector_width;
            loads.apart = stride == 1 ? 0 : (1 - clamped) * distinct * tile.vector_width;
            break;
        }
        case VectorAccess::Gather:
            loads.scalar = distinct * tile.vector_width;
            break;
    }
    return loads;
}

}  // namespace metol::cpu
