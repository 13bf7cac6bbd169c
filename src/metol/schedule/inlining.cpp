#include "schedule/inlining.hpp"

#include <algorithm>
#include <cstdlib>

#include "schedule/reads.hpp"

namespace metol {

namespace {

// How often one point of a Stage asks for values of the producer of an edge.
int64_t uses_of(const Edge& edge) {
    int64_t uses = 0;
    for (const Access& access : edge.accesses) {
        uses += access.count;
    }
    return uses;
}

// How often values of `func` are asked for, computed or inlined, whether or not they are the same; stops counting past
// `limit`.
int64_t calls(const PipelineIndex& index, Regions& regions, const LoopNest& nest, int func, int64_t limit) {
    const FuncSchedule& schedule = nest[func];
    if (schedule.is_computed()) {
        return regions.production(func).points() * regions.iterations(schedule.compute);
    }
    int64_t total = 0;
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index.stage(consumer.stage);
        const int64_t uses = uses_of(stage.edges[static_cast<size_t>(consumer.edge)]);
        int64_t runs = calls(index, regions, nest, stage.func, limit);
        if (stage.index > 0 && nest[stage.func].is_computed()) {
            runs = regions.loops(consumer.stage, nest[stage.func].compute).points() *
                   regions.iterations(nest[stage.func].compute);
        }
        total += uses * runs;
        if (total > limit) {
            break;
        }
    }
    return total;
}

// How often values of an inlined `func` are evaluated; stops counting past `limit`.
double evaluations(const PipelineIndex& index, Regions& regions, const LoopNest& nest, int func, double limit) {
    double total = 0;
    for (int reader : readers_of(index, nest, func)) {
        const Stage& stage = index.stage(reader);
        const FuncSchedule& schedule = nest[stage.func];
        const auto turns = static_cast<double>(regions.iterations(schedule.compute));
        const auto points = static_cast<double>(
            (stage.index > 0 ? regions.loops(reader, schedule.compute) : regions.production(stage.func)).points());
        const auto reads = effective_reads(index, nest, reader);
        const auto use = std::ranges::find(reads->inlined, func, &InlinedUse::func);
        total += use == reads->inlined.end() ? 0 : use->calls_per_point * points * turns;
        if (total > limit) {
            break;
        }
    }
    return total;
}

// Loads in what a Stage computes, with everything inlined written out; `limit` + 1 for any more.
int64_t loads_written_out(const PipelineIndex& index, const LoopNest& nest, int stage, int64_t limit) {
    int64_t total = 0;
    for (const Edge& edge : index.stage(stage).edges) {
        const bool is_inlined = nest[edge.producer].placement == Placement::Inline;
        const int inside = is_inlined ? index.func(edge.producer).stages.front() : -1;
        total += uses_of(edge) * (is_inlined ? std::max<int64_t>(1, loads_written_out(index, nest, inside, limit)) : 1);
        if (total > limit) {
            return limit + 1;
        }
    }
    return total;
}

}  // namespace

bool is_read_pointwise(const PipelineIndex& index, const LoopNest& nest, int func) {
    const std::vector<Consumer>& consumers = index.consumers[static_cast<size_t>(func)];
    if (consumers.size() != 1) {
        return false;
    }
    const Stage& reader = index.stage(consumers[0].stage);
    if (!nest[reader.func].is_computed() || index.func(reader.func).is_wrapper) {
        return false;
    }
    const Edge& edge = reader.edges[static_cast<size_t>(consumers[0].edge)];
    if (edge.accesses.size() != 1 || edge.accesses[0].count != 1) {
        return false;
    }
    // Each loop of the reader walks one dimension, and no two the same.
    std::vector<int> walked(reader.loops.size(), 0);
    for (const JacobianRow& row : edge.accesses[0].jacobian) {
        int moving = 0;
        for (size_t i = 0; i < reader.loops.size(); i++) {
            const bool is_repeated = row.numerator[i] != 0 && std::abs(row.numerator[i]) < row.denominator[i];
            if (!row.is_known[i] || row.has_phase[i] || is_repeated) {
                return false;
            }
            moving += row.numerator[i] != 0 ? 1 : 0;
            walked[i] += row.numerator[i] != 0 ? 1 : 0;
        }
        if (moving > 1) {
            return false;
        }
    }
    return std::ranges::all_of(walked, [](int count) { return count == 1; });
}

Pruned check_inline(const PipelineIndex& index, const LoopNest& nest, int func, int64_t max_recompute) {
    if (!index.func(func).is_inlinable) {
        return Pruned::NotInlinable;
    }
    const Func& inlined = index.func(func);
    if (index.must_inline[static_cast<size_t>(func)] || inlined.is_boundary_condition || inlined.is_wrapper) {
        return Pruned::None;
    }
    Regions regions(index, nest);
    const int64_t needed = std::max<int64_t>(1, index.minimum_points[static_cast<size_t>(index.func(func).stages[0])]);
    const int64_t limit = max_recompute * needed;
    // Telling equal positions apart takes time, and is only needed where calls are many.
    const bool is_cheap = calls(index, regions, nest, func, limit) <= limit;
    return is_cheap || evaluations(index, regions, nest, func, static_cast<double>(limit)) <= static_cast<double>(limit)
               ? Pruned::None
               : Pruned::RecomputesTooMuch;
}

Pruned check_expression(const PipelineIndex& index, const LoopNest& nest, int func, int64_t most) {
    const auto is_too_long = [&](int reader) { return loads_written_out(index, nest, reader, most) > most; };
    return std::ranges::any_of(readers_of(index, nest, func), is_too_long) ? Pruned::ExpressionTooLong : Pruned::None;
}

}  // namespace metol
