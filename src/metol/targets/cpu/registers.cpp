#include "targets/cpu/registers.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "schedule/tilings.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/storage.hpp"
#include "targets/cpu/unrolling.hpp"

namespace metol::cpu {

namespace {

// What two Stages must have in common for a value of one to be an operand of the other, without memory between them.
struct Lanes {
    int width = 1;
    int64_t points = 1;  // along the vector loop
    bool operator==(const Lanes&) const = default;
};

Lanes lanes_of(const StageNest& nest) {
    const auto loop = static_cast<size_t>(nest.vector_loop);
    return {nest.vector_width, nest.vector_loop < 0 ? 1 : nest.levels.back()[loop]};
}

// Do the lanes of a Stage fill what is needed of its Func exactly, along the dimension that is dense in storage?
bool fills_vectors(const Stage& stage, const StageNest& nest, const FuncSchedule& schedule, const Box& production) {
    if (nest.vector_loop < 0) {
        return true;
    }
    const int dim = stage.loops[static_cast<size_t>(nest.vector_loop)].pure_dim;
    return dim == schedule.innermost_dim && production[dim].extent() == lanes_of(nest).points;
}

// Is there a loop in a tile, of several vectors that lowering does not unroll? What it stores has no constant places.
bool has_rolled_tile(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const StageNest& own = nest_of(index, nest, stage_id);
    const Trips& tile = own.levels.back();
    const int64_t points = std::accumulate(tile.begin(), tile.end(), int64_t{1}, std::multiplies<>());
    return points > own.vector_width && !unrolls_tile(index, nest, stage_id);
}

// Does a Stage load whole vectors of a Func? One value for all lanes is loaded from where the vector was stored.
bool reads_vectors(const PipelineIndex& index, const LoopNest& nest, int func, int reader) {
    const int vector_loop = nest_of(index, nest, reader).vector_loop;
    const std::shared_ptr<const StageReads> reads = effective_reads(index, nest, reader);
    return std::ranges::all_of(reads->accesses, [&](const EffectiveAccess& access) {
        return access.producer != func || is_dense(access, vector_loop, nest[func].innermost_dim);
    });
}

}  // namespace

bool is_in_registers(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                     int func) {
    const FuncSchedule& schedule = nest[func];
    if (!is_in_tile(index, nest, schedule) || !schedule.is_flat || schedule.slide_dim >= 0 ||
        schedule.storage == Storage::Hoisted || schedule.stages.empty()) {
        return false;
    }
    const Box& production = regions.production(func);
    const Lanes lanes = lanes_of(schedule.stages.front());
    const int64_t registers =
        production.points() / lanes.width *
        divide_up(static_cast<int64_t>(lanes.width) * index.func(func).bytes_per_point(), machine.vector_bytes);
    if (registers > machine.vector_registers || is_on_heap(index, nest, regions, func)) {
        return false;
    }
    for (size_t i = 0; i < schedule.stages.size(); i++) {
        const Stage& stage = index.stage(index.func(func).stages[i]);
        const bool is_alike = lanes_of(schedule.stages[i]) == lanes && !stage.has_data_dependent_write &&
                              fills_vectors(stage, schedule.stages[i], schedule, production) &&
                              !has_rolled_tile(index, nest, index.func(func).stages[i]);
        if (!is_alike) {
            return false;
        }
    }
    const std::vector<int> readers = readers_of(index, nest, func);
    return std::all_of(readers.begin(), readers.end(), [&](int reader) {
        const FuncSchedule& reading = nest[index.stage(reader).func];
        const bool is_host = reader == schedule.compute.stage;
        const bool is_beside = reading.placement == Placement::At && reading.compute == schedule.compute &&
                               reading.is_flat && reading.slide_dim < 0;
        return (is_host || is_beside) && lanes_of(nest_of(index, nest, reader)) == lanes &&
               !has_rolled_tile(index, nest, reader) && (lanes.width == 1 || reads_vectors(index, nest, func, reader));
    });
}

}  // namespace metol::cpu
