#include "targets/cpu/loads.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/tilings.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

namespace {

// Adams et al. 2019, appendix A: strides below five are loaded as that many dense vectors.
constexpr double kMaxDenseStride = 4;
// Narrowest value that is loaded into all lanes at once.
constexpr double kBroadcastBytes = 4;

// How a coordinate of the producer moves along the vector loop.
enum class VectorAccess { Broadcast, Dense, Gather };

VectorAccess classify(const EffectiveAccess& access, int vector_loop, int innermost_dim, double& stride) {
    stride = 0;
    const auto v = static_cast<size_t>(vector_loop);
    bool is_broadcast = true;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const double slope = access.jacobian[d][v];
        const bool is_along_rows = static_cast<int>(d) == innermost_dim;
        // Neighbouring lanes take turns among a few places, whatever the layout; or lie in different rows.
        if (access.phases[d][v] && (slope == 0 || (innermost_dim >= 0 && !is_along_rows))) {
            return VectorAccess::Gather;
        }
        if (slope == 0) {
            continue;
        }
        is_broadcast = false;
        const bool is_dense =
            !std::isnan(slope) && std::abs(slope) <= kMaxDenseStride && (innermost_dim < 0 || is_along_rows);
        if (!is_dense) {
            return VectorAccess::Gather;
        }
        stride = std::max(stride, std::abs(slope));
    }
    return is_broadcast ? VectorAccess::Broadcast : VectorAccess::Dense;
}

// The dimension that is innermost in storage; -1 where that is still open.
int layout_of(const PipelineIndex& index, const LoopNest& nest, int func) {
    if (index.func(func).is_input) {
        return 0;
    }
    return nest[func].placement == Placement::Unscheduled ? -1 : nest[func].innermost_dim;
}

}  // namespace

bool is_dense(const EffectiveAccess& access, int vector_loop, int innermost_dim) {
    double stride = 0;
    return classify(access, vector_loop, innermost_dim, stride) == VectorAccess::Dense;
}

bool is_gathered(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop) {
    double stride = 0;
    return classify(access, vector_loop, layout_of(index, nest, access.producer), stride) == VectorAccess::Gather;
}

RunShare run_share(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop,
                   int run) {
    if (vector_loop < 0) {
        return {};
    }
    double stride = 0;
    switch (classify(access, vector_loop, layout_of(index, nest, access.producer), stride)) {
        case VectorAccess::Gather:
            return {};
        case VectorAccess::Broadcast:
            return {1.0 / run, 1.0 / run};
        case VectorAccess::Dense:
            break;
    }
    const double step = std::min<double>(stride * index.func(access.producer).bytes_per_point(), kLineBytes);
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

TileLoads loads_of_tile(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const TileShape& tile, const Layout& layout) {
    TileLoads loads;
    const Func& producer = index.func(access.producer);
    const int innermost_dim = layout_of(index, nest, access.producer);
    const double distinct = places_in_tile(access, tile, layout.unknown_strides);
    if (tile.vector_loop < 0) {
        loads.scalar = distinct;
        return loads;
    }
    double stride = 0;
    const double registers =
        divide_up(static_cast<int64_t>(tile.vector_width) * producer.bytes_per_point(), tile.vector_bytes);
    switch (classify(access, tile.vector_loop, innermost_dim, stride)) {
        case VectorAccess::Broadcast:
            // Of four bytes and more, the port that loads puts it in all lanes.
            (producer.bytes_per_point() >= kBroadcastBytes ? loads.dense : loads.scalar) = distinct;
            break;
        case VectorAccess::Dense: {
            const double clamped = tile.is_lane_by_lane ? 1 : access.is_clamped ? tile.clamped_share : 0;
            const double taps = innermost_dim < 0 ? 1 : access.distinct[static_cast<size_t>(innermost_dim)];
            const double straddling = straddling_share(taps, layout.row_period, tile.vector_bytes);
            loads.dense = (1 - clamped) * distinct * registers * (1 + straddling) * std::max(1.0, std::ceil(stride));
            loads.scalar = clamped * distinct * tile.vector_width;
            break;
        }
        case VectorAccess::Gather:
            loads.scalar = distinct * tile.vector_width;
            break;
    }
    return loads;
}

}  // namespace metol::cpu
