#include "bare_lanes.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>

#include "symbolic_region.hpp"

namespace metol {

namespace {

// Dimensions of a Func that a Stage reads, itself or through what is inlined in it.
struct LaneReads {
    int32_t func = -1;             // that is read
    std::vector<uint8_t> moves;    // [dimensions] with the lanes
    std::vector<uint8_t> is_held;  // [dimensions] inside what is needed, by a condition on the lanes
    auto operator<=>(const LaneReads&) const = default;
};

bool mentions_loop(const BoundExpr& bound, size_t loop) {
    const auto wanted = static_cast<int64_t>(loop);
    return std::ranges::any_of(bound.terms, [&](const BoundTerm& term) { return term.loop == wanted; }) ||
           std::ranges::any_of(bound.program, [&](const BoundInstruction& step) {
               return (step.op == BoundOp::PushMin || step.op == BoundOp::PushMax) && step.value == wanted;
           });
}

bool may_move_along(const JacobianRow& row, size_t loop) {
    return row.is_known[loop] == 0 || row.numerator[loop] != 0;
}

// Where lanes go along a loop: how a coordinate that does not move with them goes no further than the lanes do, only a
// condition can say. The bounds are those of all Accesses of an Edge, so it has to move with another loop of one.
LaneReads reads_of(const Stage& stage, const Edge& edge, const Access& access, size_t lanes) {
    LaneReads reads{edge.producer, {}, {}};
    for (size_t dim = 0; dim < access.jacobian.size(); dim++) {
        const JacobianRow& row = access.jacobian[dim];
        const bool moves = may_move_along(row, lanes);
        bool has_condition = false;
        for (size_t loop = 0; loop < stage.loops.size(); loop++) {
            has_condition =
                has_condition || (loop != lanes && stage.condition_loops[loop] != 0 && may_move_along(row, loop));
        }
        const BoundPair& side = edge.bounds[dim];
        const bool is_held = (edge.held_dims.empty() || edge.held_dims[dim] != 0) &&
                             (mentions_loop(side.min, lanes) || mentions_loop(side.max, lanes));
        reads.moves.push_back(moves);
        reads.is_held.push_back(!moves && has_condition && is_held);
    }
    return reads;
}

// Whether lanes that read so share a load without its condition. `seen` holds what has been looked at: Funcs that are
// inlined may be read on many ways.
bool has_bare_load(const PipelineDag& dag, const LaneReads& reads, std::set<LaneReads>& seen) {
    const auto has_any = [](const std::vector<uint8_t>& marks) {
        return std::ranges::any_of(marks, [](uint8_t mark) { return mark != 0; });
    };
    if (!has_any(reads.is_held)) {
        return false;
    }
    if (!has_any(reads.moves)) {
        return true;
    }
    const Func& func = dag.funcs[static_cast<size_t>(reads.func)];
    if (!func.is_inlinable || !seen.insert(reads).second) {
        return false;
    }
    for (const Edge& edge : dag.stages[static_cast<size_t>(func.stages.front())].edges) {
        for (const Access& access : edge.accesses) {
            LaneReads inner{edge.producer, {}, {}};
            for (const JacobianRow& row : access.jacobian) {
                uint8_t moves = 0, is_held = 0;
                for (size_t dim = 0; dim < reads.moves.size(); dim++) {
                    const bool is_along = may_move_along(row, dim);
                    moves |= static_cast<uint8_t>(is_along && reads.moves[dim] != 0);
                    is_held |= static_cast<uint8_t>(is_along && reads.is_held[dim] != 0);
                }
                inner.moves.push_back(moves);
                inner.is_held.push_back(is_held);
            }
            if (has_bare_load(dag, inner, seen)) {
                return true;
            }
        }
    }
    return false;
}

// Does a condition end what is read along a loop of a reduction?
bool ends_a_reduction(const Stage& stage) {
    for (const Edge& edge : stage.edges) {
        for (const Access& access : edge.accesses) {
            for (size_t dim = 0; dim < access.jacobian.size(); dim++) {
                for (size_t loop = 0; loop < stage.loops.size(); loop++) {
                    if (edge.held_dims[dim] != 0 && stage.loops[loop].is_rvar && stage.condition_loops[loop] != 0 &&
                        may_move_along(access.jacobian[dim], loop)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

bool turns_by_condition(const Stage& stage) {
    return stage.has_predicate && std::ranges::any_of(stage.condition_loops, [](uint8_t mark) { return mark != 0; });
}

}  // namespace

void find_held_reads(const std::vector<Halide::Expr>& exprs, const Halide::Expr& predicate, RegionReader& reader,
                     Stage& stage) {
    if (!turns_by_condition(stage)) {
        return;
    }
    for (Edge& edge : stage.edges) {
        edge.held_dims.assign(edge.bounds.size(), 1);
    }
    // What the conditions themselves read is read either way.
    std::vector<Halide::Expr> all = exprs;
    all.push_back(predicate);
    std::map<int32_t, SymbolicRegion> held, free;
    try {
        held = reader.regions(exprs, predicate);
        free = reader.regions(all, {});
    } catch (const PipelineError& error) {
        if (error.kind() != PipelineError::Kind::Extraction) {
            throw;
        }
        return;  // without the condition, a coordinate is too difficult
    }
    for (Edge& edge : stage.edges) {
        const SymbolicRegion &with = held[edge.producer], &without = free[edge.producer];
        if (with.size() != edge.bounds.size() || without.size() != edge.bounds.size()) {
            continue;
        }
        for (size_t dim = 0; dim < with.size(); dim++) {
            const auto is_same = [](const BoundRef& one, const BoundRef& other) {
                return finish_bound(one) == finish_bound(other);
            };
            edge.held_dims[dim] =
                !is_same(with[dim].min, without[dim].min) || !is_same(with[dim].max, without[dim].max);
        }
    }
    stage.ends_by_point = stage.ends_by_point || ends_a_reduction(stage);
}

void find_bare_lanes(PipelineDag& dag) {
    for (Stage& stage : dag.stages) {
        stage.bare_loops.assign(stage.loops.size(), 0);
        for (size_t lanes = 0; lanes < stage.loops.size() && turns_by_condition(stage); lanes++) {
            if (stage.condition_loops[lanes] == 0) {
                continue;
            }
            std::set<LaneReads> seen;
            stage.bare_loops[lanes] = std::ranges::any_of(stage.edges, [&](const Edge& edge) {
                return std::ranges::any_of(edge.accesses, [&](const Access& access) {
                    return has_bare_load(dag, reads_of(stage, edge, access, lanes), seen);
                });
            });
        }
    }
}

}  // namespace metol
