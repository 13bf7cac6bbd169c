#include "targets/cpu/storage.hpp"

#include <algorithm>

#include "schedule/tilings.hpp"
#include "targets/cpu/guards.hpp"
#include "targets/cpu/limits.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/sliding.hpp"

namespace metol::cpu {

namespace {

// Halide 21 takes from the stack, unasked, what has a constant size of at most this.
constexpr double kUnaskedStackBytes = 16 * 1024;

// Is the size known when Halide compiles? Where a loop is whole inside, it is that of the output, which is not.
bool has_constant_size(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    for (int dim = 0; dim < index.func(func).dimensions(); dim++) {
        if (!has_constant_extent(index, nest, regions, func, dim)) {
            return false;
        }
    }
    for (int inner = func; nest[inner].placement == Placement::At;) {
        const int host = index.stage(nest[inner].compute.stage).func;
        // A box around places that move apart grows as they do, and one at a border is larger.
        const std::vector<int32_t>& crosswise = index.crosswise[static_cast<size_t>(host)];
        if (std::ranges::count(crosswise, func) > 0 || index.has_border(host, func)) {
            return false;
        }
        inner = host;
    }
    return true;
}

bool can_hoist(const PipelineIndex& index, const LoopNest& nest, int func) {
    // No further out than the body of a parallel loop: tasks would share it.
    return nest[func].placement == Placement::At && nest[func].store != parallel_body_around(index, nest, nest[func]);
}

}  // namespace

bool reads_input(const PipelineIndex& index, const LoopNest& nest, int stage) {
    return std::any_of(index.stage(stage).edges.begin(), index.stage(stage).edges.end(), [&](const Edge& edge) {
        if (index.func(edge.producer).is_input) {
            return true;
        }
        return nest[edge.producer].placement == Placement::Inline &&
               reads_input(index, nest, index.func(edge.producer).stages.front());
    });
}

const Box& stored_box(const LoopNest& nest, Regions& regions, int func) {
    const FuncSchedule& schedule = nest[func];
    return regions.computed(func, schedule.slide_dim >= 0 ? schedule.compute : schedule.store);
}

double storage_bytes(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const FuncSchedule& schedule = nest[func];
    const bool is_whole = schedule.slide_dim >= 0 && !is_folded(index, nest, regions, func);
    const Box& box = is_whole ? regions.computed(func, schedule.store) : stored_box(nest, regions, func);
    const double bytes = static_cast<double>(box.points()) * index.func(func).bytes_per_point();
    if (schedule.row_alignment <= 1) {
        return bytes;
    }
    const int64_t row = box[schedule.innermost_dim].extent();
    return bytes / static_cast<double>(row) * static_cast<double>(padded_row(schedule, row));
}

int64_t padded_row(const FuncSchedule& schedule, int64_t elements) {
    const int64_t alignment = std::max<int64_t>(1, schedule.row_alignment);
    return divide_up(elements, alignment) * alignment;
}

int64_t stride_of(const LoopNest& nest, Regions& regions, int func, int dim) {
    const int inner = nest[func].innermost_dim;
    if (dim == inner) {
        return 1;
    }
    const Box& stored = stored_box(nest, regions, func);
    int64_t stride = padded_row(nest[func], stored[inner].extent());
    for (int between = 0; between < dim; between++) {
        stride *= between == inner ? 1 : stored[between].extent();
    }
    return stride;
}

double allocation_count(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const FuncSchedule& schedule = nest[func];
    const bool is_hoisted = schedule.storage == Storage::Hoisted && can_hoist(index, nest, func);
    const Site site = is_hoisted ? parallel_body_around(index, nest, schedule) : schedule.store;
    return static_cast<double>(regions.iterations(site));
}

bool is_on_heap(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const FuncSchedule& schedule = nest[func];
    if (schedule.placement != Placement::At || schedule.storage == Storage::Stack) {
        return schedule.placement == Placement::Root;
    }
    return storage_bytes(index, nest, regions, func) > kUnaskedStackBytes ||
           !has_constant_size(index, nest, regions, func);
}

std::vector<DecisionFamily> storage_families(const PipelineIndex& index, const LoopNest& nest, int func) {
    Regions regions(index, nest);
    if (nest[func].placement != Placement::At || !is_on_heap(index, nest, regions, func)) {
        return {};
    }
    DecisionFamily family;
    family.base.kind = DecisionKind::Storage;
    family.base.func = static_cast<int16_t>(func);
    family.choices = {{static_cast<int32_t>(Storage::Plain)}};
    if (storage_bytes(index, nest, regions, func) <= kMaxStackBytes) {
        family.choices.front().push_back(static_cast<int32_t>(Storage::Stack));
    } else if (can_hoist(index, nest, func)) {
        family.choices.front().push_back(static_cast<int32_t>(Storage::Hoisted));
    }
    return family.count() > 1 ? std::vector<DecisionFamily>{family} : std::vector<DecisionFamily>{};
}

bool overflows_stack(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int host) {
    return std::ranges::any_of(nest.funcs, [&](const FuncSchedule* schedule) {
        return schedule->slide_dim >= 0 && schedule->storage == Storage::Stack &&
               (host < 0 || schedule->compute.stage == host) &&
               storage_bytes(index, nest, regions, schedule->func) > kMaxStackBytes;
    });
}

Pruned apply_storage(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child) {
    // Where storage is none of the heap there is nothing to choose, and nothing wrong with having chosen it, as loop
    // nests may have that were recorded when less was known.
    Regions regions(index, child);
    FuncSchedule schedule = child[decision.func];
    schedule.storage = static_cast<Storage>(decision.trips.front());
    const bool is_allowed = schedule.placement == Placement::At &&
                            (schedule.storage == Storage::Plain ||
                             (schedule.storage == Storage::Stack &&
                              storage_bytes(index, child, regions, decision.func) <= kMaxStackBytes) ||
                             (schedule.storage == Storage::Hoisted && can_hoist(index, child, decision.func)));
    if (!is_allowed) {
        return Pruned::InvalidDecision;
    }
    child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}

}  // namespace metol::cpu
