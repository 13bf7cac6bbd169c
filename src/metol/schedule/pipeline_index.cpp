#include "schedule/pipeline_index.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "pipeline/bounds.hpp"
#include "schedule/reads.hpp"

namespace metol {

namespace {

bool is_identity_bound(const BoundExpr& bound, int dim, bool is_max) {
    return bound.is_affine() && bound.constant == 0 && bound.terms.size() == 1 && bound.terms[0].loop == dim &&
           bound.terms[0].is_max == is_max && bound.terms[0].coefficient == 1;
}

bool computes_what_is_required(const Func& func) {
    for (size_t d = 0; d < func.computed.size(); d++) {
        const int dim = static_cast<int>(d);
        if (!is_identity_bound(func.computed[d].min, dim, false) ||
            !is_identity_bound(func.computed[d].max, dim, true)) {
            return false;
        }
    }
    return true;
}

int64_t points_at_root(const Func& func, const Stage& stage) {
    int64_t points = 1;
    if (func.must_inline) {
        return points;  // its region has no end
    }
    for (const LoopDim& loop : stage.loops) {
        points *= std::max<int64_t>(1, evaluate(loop.bounds, func.root_region).extent());
    }
    return points;
}

uint64_t next_id() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

std::vector<int> nest_order_of(const Stage& stage, int vector_loop) {
    std::vector<int> order;
    const int count = static_cast<int>(stage.loops.size());
    for (int loop = count - 1; loop >= 0; loop--) {
        if (!stage.loops[static_cast<size_t>(loop)].is_reduction && loop != vector_loop) {
            order.push_back(loop);
        }
    }
    if (vector_loop >= 0) {
        order.push_back(vector_loop);
    }
    for (int loop = count - 1; loop >= 0; loop--) {
        if (stage.loops[static_cast<size_t>(loop)].is_reduction) {
            order.push_back(loop);
        }
    }
    return order;
}

}  // namespace

size_t innermost_reduction(const Stage& stage) {
    return static_cast<size_t>(std::ranges::find_if(stage.loops, &LoopDim::is_reduction) - stage.loops.begin());
}

bool may_add_products(const Stage& stage, int64_t steps) {
    return (stage.lane_bytes == 1 || stage.lane_bytes == 2) && (steps == 2 || (steps == 4 && stage.lane_bytes == 1));
}

PipelineIndex::PipelineIndex(std::shared_ptr<const PipelineDag> pipeline, std::span<const int32_t> closed,
                             bool are_sizes_fixed, std::span<const int32_t> at_root)
    : dag(std::move(pipeline)), id(next_id()), has_fixed_sizes(are_sizes_fixed), growth(*dag) {
    const size_t count = dag->funcs.size();
    is_closed.resize(count);
    for (int32_t func : closed) {
        is_closed.at(static_cast<size_t>(func)) = 1;
    }
    is_at_root.resize(count);
    for (int32_t func : at_root) {
        is_at_root.at(static_cast<size_t>(func)) = !dag->funcs[static_cast<size_t>(func)].must_inline;
    }
    consumers.resize(count);
    must_inline.resize(count);
    has_identity_computed.resize(count);
    minimum_points.resize(dag->stages.size());
    for (const Func& func : dag->funcs) {
        int64_t points = 1;
        for (const Interval& interval : func.root_region) {
            points *= std::max<int64_t>(0, interval.extent());
        }
        root_points.push_back(points);
    }
    for (size_t s = 0; s < dag->stages.size(); s++) {
        const Stage& stage = dag->stages[s];
        for (size_t e = 0; e < stage.edges.size(); e++) {
            consumers[static_cast<size_t>(stage.edges[e].producer)].push_back(
                {static_cast<int16_t>(s), static_cast<int16_t>(e)});
        }
        minimum_points[s] = points_at_root(dag->funcs[static_cast<size_t>(stage.func)], stage);
        scans.push_back(find_scan(stage));
        auto& orders = nest_orders.emplace_back();
        for (int vector_loop = -1; vector_loop < static_cast<int>(stage.loops.size()); vector_loop++) {
            orders.push_back(nest_order_of(stage, vector_loop));
        }
    }
    for (size_t f = count; f-- > 0;) {
        const Func& func = dag->funcs[f];
        has_identity_computed[f] = computes_what_is_required(func);
        if (func.is_input || func.stages.empty()) {
            continue;
        }
        const Stage& pure = dag->stages[static_cast<size_t>(func.stages[0])];
        const bool is_pointless = pure.is_identity && !func.is_wrapper && !is_at_root[f];
        must_inline[f] = func.is_inlinable && !is_closed[f] && (is_pointless || func.must_inline);
        order.push_back(static_cast<int32_t>(f));
    }
    find_aligned_reads();
    find_fractions();
    find_lane_dims();
    borders = find_borders(*dag);
    Movements movements = find_movements(*dag);
    crosswise = std::move(movements.crosswise);
    moving_apart = std::move(movements.apart);
    is_read_crosswise.resize(count);
    for (const std::vector<int32_t>& producers : crosswise) {
        for (const int32_t producer : producers) {
            is_read_crosswise[static_cast<size_t>(producer)] = 1;
        }
    }
}

bool PipelineIndex::has_border(int func, int producer) const {
    return std::ranges::any_of(borders[static_cast<size_t>(func)],
                               [&](const Border& border) { return border.producer == producer; });
}

void PipelineIndex::find_fractions() {
    is_read_by_fractions.resize(dag->funcs.size());
    const auto reads_fractions = [](const Access& access) {
        return std::ranges::any_of(access.jacobian, [](const JacobianRow& row) {
            for (size_t i = 0; i < row.numerator.size(); i++) {
                const double slope = slope_of(row, i);
                if (slope != std::floor(slope)) {  // nor is it where the slope is not known
                    return true;
                }
            }
            return false;
        });
    };
    for (const int32_t func : order) {
        const auto f = static_cast<size_t>(func);
        is_read_by_fractions[f] = std::ranges::any_of(consumers[f], [&](const Consumer& consumer) {
            const Stage& reader = stage(consumer.stage);
            return (reader.func != func && is_read_by_fractions[static_cast<size_t>(reader.func)]) ||
                   std::ranges::any_of(reader.edges[static_cast<size_t>(consumer.edge)].accesses, reads_fractions);
        });
    }
}

void PipelineIndex::find_lane_dims() {
    lane_dims.assign(dag->funcs.size(), -1);
    for (const Stage& own : dag->stages) {
        if (own.lane_bytes == 0) {
            continue;
        }
        const size_t step = innermost_reduction(own);
        const int64_t steps = own.loops[step].constant_extent();
        if (!may_add_products(own, steps)) {
            continue;
        }
        for (size_t lane = 0; lane < own.loops.size(); lane++) {
            const auto follows = [&](const JacobianRow& row) {
                return slope_of(row, step) == 1 && slope_of(row, lane) == static_cast<double>(steps);
            };
            const bool is_along = std::ranges::any_of(own.edges, [&](const Edge& edge) {
                return std::ranges::any_of(
                    edge.accesses, [&](const Access& access) { return std::ranges::any_of(access.jacobian, follows); });
            });
            if (is_along && !own.loops[lane].is_reduction) {
                lane_dims[static_cast<size_t>(own.func)] = own.loops[lane].pure_dim;
            }
        }
    }
}

void PipelineIndex::find_aligned_reads() {
    reads_as_aligned.resize(dag->stages.size());
    std::vector<bool> is_reached(dag->funcs.size());  // a Func whose values may be loads of such an output
    for (size_t f = 0; f < dag->funcs.size(); f++) {
        const Func& func = dag->funcs[f];
        bool is_any = false;
        for (const int32_t s : func.stages) {
            const Stage& stage_ = stage(s);
            bool is_aligned = !stage_.self_accesses.empty() && func.is_taken_for_aligned(true);
            for (const Edge& edge : stage_.edges) {
                is_aligned = is_aligned || is_reached[static_cast<size_t>(edge.producer)];
            }
            reads_as_aligned[static_cast<size_t>(s)] = is_aligned;
            is_any = is_any || is_aligned;
        }
        is_reached[f] = func.is_taken_for_aligned(false) || (is_any && func.is_inlinable);
    }
}

}  // namespace metol
