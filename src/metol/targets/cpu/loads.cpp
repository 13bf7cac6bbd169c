#include "targets/cpu/loads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/tilings.hpp"

namespace metol::cpu {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// Adams et al. 2019, appendix A: strides below five are loaded as that many dense vectors.
constexpr double kMaxDenseStride = 4;
// Cache line of every CPU that Halide compiles vectors for.
constexpr double kLineBytes = 64;

EffectiveAccess direct(const Access& access, int producer) {
    EffectiveAccess out;
    out.producer = producer;
    out.count = access.count;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const JacobianRow& row = access.jacobian[d];
        std::array<double, kMaxLoops> derivatives{};
        for (size_t i = 0; i < row.numerator.size(); i++) {
            derivatives[i] = row.is_known[i] ? static_cast<double>(row.numerator[i]) / row.denominator[i] : kUnknown;
        }
        out.jacobian.push_back(derivatives);
        out.distinct.push_back(access.distinct_offsets[d]);
    }
    return out;
}

// `outer` reads an inlined Func whose definition reads through `inner`: chain rule, and offsets that add up.
EffectiveAccess through(const Stage& inlined, const EffectiveAccess& outer, const EffectiveAccess& inner) {
    EffectiveAccess out;
    out.producer = inner.producer;
    double positions = 1;
    for (size_t d = 0; d < inner.jacobian.size(); d++) {
        std::array<double, kMaxLoops> derivatives{};
        double distinct = inner.distinct[d];
        for (size_t i = 0; i < inlined.loops.size(); i++) {
            const double slope = inner.jacobian[d][i];
            if (slope == 0) {
                continue;
            }
            const auto dim = static_cast<size_t>(inlined.loops[i].pure_dim);
            for (size_t k = 0; k < kMaxLoops; k++) {
                derivatives[k] += outer.jacobian[dim][k] == 0 ? 0 : slope * outer.jacobian[dim][k];
            }
            distinct += outer.distinct[dim] - 1;
        }
        out.jacobian.push_back(derivatives);
        out.distinct.push_back(distinct);
        positions *= distinct;
    }
    out.count = std::max(1.0, std::min(outer.count * inner.count, positions));
    return out;
}

void collect(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, double calls,
             StageReads& reads) {
    if (nest[access.producer].placement != Placement::Inline) {
        reads.accesses.push_back(access);
        return;
    }
    const double uses = calls * access.count;
    const auto same = std::find_if(reads.inlined.begin(), reads.inlined.end(),
                                   [&](const InlinedUse& use) { return use.func == access.producer; });
    if (same == reads.inlined.end()) {
        reads.inlined.push_back({access.producer, uses});
    } else {
        same->calls_per_point += uses;
    }
    const Stage& inlined = index.stage(index.func(access.producer).stages.front());
    for (const Edge& edge : inlined.edges) {
        for (const Access& inner : edge.accesses) {
            EffectiveAccess combined = through(inlined, access, direct(inner, edge.producer));
            combined.is_clamped = access.is_clamped || index.func(access.producer).is_boundary_condition;
            collect(index, nest, combined, calls * access.count, reads);
        }
    }
}

// How a coordinate of the producer moves along the vector loop.
enum class VectorAccess { Broadcast, Dense, Gather };

VectorAccess classify(const EffectiveAccess& access, int vector_loop, int innermost_dim, double& stride) {
    stride = 0;
    const auto v = static_cast<size_t>(vector_loop);
    bool is_broadcast = true;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const double slope = access.jacobian[d][v];
        if (slope == 0) {
            continue;
        }
        is_broadcast = false;
        const bool is_dense = !std::isnan(slope) && std::abs(slope) <= kMaxDenseStride &&
                              (innermost_dim < 0 || static_cast<int>(d) == innermost_dim);
        if (!is_dense) {
            return VectorAccess::Gather;
        }
        stride = std::max(stride, std::abs(slope));
    }
    return is_broadcast ? VectorAccess::Broadcast : VectorAccess::Dense;
}

}  // namespace

StageReads effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    StageReads reads;
    for (const Edge& edge : index.stage(stage_id).edges) {
        for (const Access& access : edge.accesses) {
            collect(index, nest, direct(access, edge.producer), 1, reads);
        }
    }
    return reads;
}

void include(std::vector<ReadBox>& boxes, int producer, const Box& box) {
    for (ReadBox& existing : boxes) {
        if (existing.producer == producer) {
            existing.box.include(box);
            return;
        }
    }
    boxes.push_back({producer, box});
}

void read_boxes(const PipelineIndex& index, const LoopNest& nest, int stage_id, const Box& loops,
                std::vector<ReadBox>& found) {
    std::vector<ReadBox> pending;
    found.clear();
    const auto add = [&](const Stage& stage, const Box& consumed) {
        for (const Edge& edge : stage.edges) {
            const bool is_inline = nest[edge.producer].placement == Placement::Inline;
            include(is_inline ? pending : found, edge.producer, read_box(edge, consumed));
        }
    };
    add(index.stage(stage_id), loops);
    while (!pending.empty()) {
        // Ids are topological: the largest pending one has no consumer left that could enlarge its box.
        const auto next = std::max_element(pending.begin(), pending.end(),
                                           [](const ReadBox& a, const ReadBox& b) { return a.producer < b.producer; });
        const ReadBox inlined = *next;
        pending.erase(next);
        add(index.stage(index.func(inlined.producer).stages.front()), inlined.box);
    }
}

TileLoads loads_of_tile(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const TileShape& tile) {
    TileLoads loads;
    const Func& producer = index.func(access.producer);
    const FuncSchedule& schedule = nest[access.producer];
    const bool is_in_memory = producer.is_input || schedule.placement != Placement::Unscheduled;
    const int innermost_dim = is_in_memory ? (producer.is_input ? 0 : schedule.innermost_dim) : -1;
    // Distinct positions along each coordinate over the whole tile, the vector loop's lanes counted as one.
    double positions = 1;
    double per_point = 1;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        double distinct = access.distinct[d];
        per_point *= distinct;
        for (size_t i = 0; i < kMaxLoops; i++) {
            const double slope = access.jacobian[d][i];
            const bool is_vector = static_cast<int>(i) == tile.vector_loop;
            const double steps = is_vector ? tile.points[i] / std::max(1, tile.vector_width) : tile.points[i];
            if (slope == 0 || steps <= 1) {
                continue;
            }
            if (is_vector || std::isnan(slope)) {
                distinct *= steps;
            } else {
                distinct = std::min(distinct * steps, distinct + std::abs(slope) * (steps - 1));
            }
        }
        positions *= distinct;
    }
    const double fill = per_point > 0 ? access.count / per_point : 1;
    const double distinct_loads = std::max(1.0, positions * fill);
    if (tile.vector_loop < 0) {
        loads.scalar = distinct_loads;
        return loads;
    }
    double stride = 0;
    const double registers =
        divide_up(static_cast<int64_t>(tile.vector_width) * producer.bytes_per_point(), tile.vector_bytes);
    switch (classify(access, tile.vector_loop, innermost_dim, stride)) {
        case VectorAccess::Broadcast:
            loads.scalar = distinct_loads;
            break;
        case VectorAccess::Dense: {
            const double clamped = access.is_clamped ? tile.clamped_share : 0;
            // Of several taps along the innermost dimension all but one are unaligned, and straddle two lines as often
            // as a vector is long.
            const double taps = innermost_dim < 0 ? 1 : access.distinct[static_cast<size_t>(innermost_dim)];
            const double straddling = (1 - 1 / std::max(1.0, taps)) * tile.vector_bytes / kLineBytes;
            loads.dense =
                (1 - clamped) * distinct_loads * registers * (1 + straddling) * std::max(1.0, std::ceil(stride));
            loads.scalar = clamped * distinct_loads * tile.vector_width;
            break;
        }
        case VectorAccess::Gather:
            loads.scalar = distinct_loads * tile.vector_width;
            break;
    }
    return loads;
}

}  // namespace metol::cpu
