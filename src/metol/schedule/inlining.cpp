#include "schedule/inlining.hpp"

#include <algorithm>

namespace metol {

namespace {

// How often a value of `func` is evaluated, computed or inlined; stops counting past `limit`.
int64_t evaluations(const PipelineIndex& index, Regions& regions, const LoopNest& nest, int func, int64_t limit) {
    const FuncSchedule& schedule = nest[func];
    if (schedule.is_computed()) {
        return regions.production(func).points() * regions.iterations(schedule.compute);
    }
    int64_t total = 0;
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index.stage(consumer.stage);
        int64_t uses = 0;
        for (const Access& access : stage.edges[static_cast<size_t>(consumer.edge)].accesses) {
            uses += access.count;
        }
        int64_t runs = evaluations(index, regions, nest, stage.func, limit);
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

}  // namespace

Pruned check_inline(const PipelineIndex& index, const LoopNest& nest, int func, int64_t max_recompute) {
    if (!index.is_inlinable[static_cast<size_t>(func)]) {
        return Pruned::NotInlinable;
    }
    const Func& inlined = index.func(func);
    if (index.must_inline[static_cast<size_t>(func)] || inlined.is_boundary_condition || inlined.is_wrapper) {
        return Pruned::None;
    }
    Regions regions(index, nest);
    const int64_t needed = std::max<int64_t>(1, index.minimum_points[static_cast<size_t>(index.func(func).stages[0])]);
    const int64_t limit = max_recompute * needed;
    return evaluations(index, regions, nest, func, limit) > limit ? Pruned::RecomputesTooMuch : Pruned::None;
}

}  // namespace metol
