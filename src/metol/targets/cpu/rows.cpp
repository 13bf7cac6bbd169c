#include "targets/cpu/rows.hpp"

#include <algorithm>
#include <numeric>

#include "schedule/reads.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/limits.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/registers.hpp"
#include "targets/cpu/storage.hpp"

namespace metol::cpu {

namespace {

// Elements that fill a native vector, of the narrowest value where there are several: they fill more with the others.
int32_t vector_elements(const CpuParameters& machine, const Func& func) {
    const int32_t narrowest = *std::min_element(func.value_bytes.begin(), func.value_bytes.end());
    return std::max(1, machine.vector_bytes / std::max(1, narrowest));
}

// Does Halide round the rows up by itself? It does what the tile of a rounded-up split computes, and that is the tail
// of a Func of one Stage that reads no input (lower/tails.py), whose first split along the rows is that of its tile.
bool rounds_rows_up(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule) {
    const Func& func = index.func(schedule.func);
    const int stage_id = func.stages.front();
    if (func.stages.size() > 1 || schedule.slide_dim >= 0 || reads_input(index, nest, stage_id)) {
        return false;
    }
    const StageNest& own = schedule.stages.front();
    if (own.vector_loop < 0 ||
        index.stage(stage_id).loops[static_cast<size_t>(own.vector_loop)].pure_dim != schedule.innermost_dim) {
        return false;
    }
    return std::count_if(own.levels.begin(), own.levels.end() - 1,
                         [&](const Trips& level) { return level[static_cast<size_t>(own.vector_loop)] > 1; }) <= 1;
}

// An extern stage may take rows to follow each other.
bool is_read_by_extern(const PipelineIndex& index, int func) {
    const auto& consumers = index.consumers[static_cast<size_t>(func)];
    return std::any_of(consumers.begin(), consumers.end(),
                       [&](const Consumer& consumer) { return index.stage(consumer.stage).is_extern; });
}

// Do any vectors lie along the rows, of what writes the Func or of what reads it?
bool is_in_vectors(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule) {
    const Func& func = index.func(schedule.func);
    for (size_t s = 0; s < func.stages.size(); s++) {
        const int v = schedule.stages[s].vector_loop;
        if (v >= 0 && index.stage(func.stages[s]).loops[static_cast<size_t>(v)].pure_dim == schedule.innermost_dim) {
            return true;
        }
    }
    const std::vector<int> readers = readers_of(index, nest, schedule.func);
    return std::any_of(readers.begin(), readers.end(), [&](int reader) {
        const int v = nest[index.stage(reader).func].is_computed() ? nest_of(index, nest, reader).vector_loop : -1;
        return v >= 0 &&
               std::ranges::any_of(effective_reads(index, nest, reader)->accesses, [&](const EffectiveAccess& access) {
                   return access.producer == schedule.func && is_dense(access, v, schedule.innermost_dim);
               });
    });
}

}  // namespace

double row_period(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                  int func) {
    const FuncSchedule& schedule = nest[func];
    if (schedule.row_alignment != 1) {
        return 1;
    }
    const int64_t elements = vector_elements(machine, index.func(func));
    const Box& stored = stored_box(nest, regions, func);
    const int64_t row = stored.dimensions == 0 ? 1 : stored[schedule.innermost_dim].extent();
    return static_cast<double>(elements / std::gcd(elements, row));
}

std::vector<DecisionFamily> align_families(const CpuParameters& machine, const PipelineIndex& index,
                                           const LoopNest& nest, int func) {
    const FuncSchedule& schedule = nest[func];
    // What another keeps the schedule of is stored as that says.
    if (!schedule.is_computed() || index.is_closed[static_cast<size_t>(func)] || is_read_by_extern(index, func)) {
        return {};
    }
    Regions regions(index, nest);
    const Box& stored = stored_box(nest, regions, func);
    if (stored.is_empty || stored.dimensions < 2) {
        return {};
    }
    const int64_t row = stored[schedule.innermost_dim].extent();
    const int32_t elements = vector_elements(machine, index.func(func));
    const bool has_gaps = row > 1 && row % elements != 0 && stored.points() > row;
    if (!has_gaps || schedule.slide_dim == schedule.innermost_dim || rounds_rows_up(index, nest, schedule) ||
        !is_in_vectors(index, nest, schedule) || is_in_registers(machine, index, nest, regions, func)) {
        return {};
    }
    const double padded =
        storage_bytes(index, nest, regions, func) * divide_up(row, elements) * elements / static_cast<double>(row);
    DecisionFamily family;
    family.base.kind = DecisionKind::Align;
    family.base.func = static_cast<int16_t>(func);
    family.choices = {{1}};
    if (schedule.storage != Storage::Stack || padded <= kMaxStackBytes) {
        family.choices.front().push_back(elements);
    }
    return {family};
}

Pruned apply_align(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                   LoopNest& child) {
    for (const DecisionFamily& family : align_families(machine, index, child, decision.func)) {
        const auto& offered = family.choices.front();
        if (std::find(offered.begin(), offered.end(), decision.trips.front()) != offered.end()) {
            FuncSchedule schedule = child[decision.func];
            schedule.row_alignment = static_cast<int16_t>(decision.trips.front());
            child.funcs[static_cast<size_t>(decision.func)] = pool.intern(std::move(schedule));
            return Pruned::None;
        }
    }
    return Pruned::InvalidDecision;
}

}  // namespace metol::cpu
