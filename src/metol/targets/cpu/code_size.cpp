#include "targets/cpu/code_size.hpp"

#include <algorithm>

#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/limits.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// Operations on native registers in the tile of a Stage, with all that is inlined into it so far.
double tile_operations(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    double points = 1;
    for (int32_t count : own.levels.back()) {
        points *= count;
    }
    const auto reads = effective_reads(index, nest, stage_id);
    const TileShape tile{
        own.vector_loop, own.vector_width, machine.vector_bytes, stage.loops.size(), own.levels.back(), false, 0};
    DimSet known;
    double code_share = 1;
    if (picking_loops(index, nest, stage_id).any()) {
        Regions regions(index, nest);
        known = known_loops(index, stage_id, tile, regions.loops(stage_id, nest[stage.func].compute));
        code_share = own_share(machine, stage_id, tile, known);
    }
    double operations = operations_of(stage) * code_share;
    for (const InlinedUse& use : reads->inlined) {
        const int definition = index.func(use.func).stages.front();
        // Of what is picked among, the code of each is there once; of others, as if nothing were shared.
        const double share = is_picked_among(index, stage_id, definition)
                                 ? inlined_share(machine, index, tile, points / own.vector_width, use, known, DimSet())
                                 : 1;
        operations += share * use.calls_per_point * operations_of(index.stage(definition));
    }
    const double registers =
        std::max(1.0, static_cast<double>(own.vector_width) * stage.widest_bytes / machine.vector_bytes);
    double lanes = 0;  // that are loaded by themselves, of each vector
    for (const EffectiveAccess& access : reads->accesses) {
        if (own.vector_width > 1 && is_gathered(index, nest, access, own.vector_loop)) {
            lanes += access.count * own.vector_width;
        }
    }
    return points / own.vector_width * (registers * operations + lanes);
}

// The same tiling with nothing unrolled: what the tile held beyond one vector turns in the loops around it.
void roll_up(StageNest& nest) {
    Trips& tile = nest.levels.back();
    Trips& around = nest.levels[nest.levels.size() - 2];
    for (size_t i = 0; i < kMaxLoops; i++) {
        const int32_t unit = static_cast<int>(i) == nest.vector_loop ? nest.vector_width : 1;
        around[i] *= tile[i] / unit;
        tile[i] = unit;
    }
}

}  // namespace

double operations_of(const Stage& stage) {
    double total = 0;
    for (float count : stage.op_histogram) {
        total += static_cast<double>(count);
    }
    return total;
}

double inputs_read_in_turn(const PipelineIndex& index, const Stage& stage, int vector_loop) {
    if (vector_loop < 0) {
        return 0;
    }
    const auto v = static_cast<size_t>(vector_loop);
    double loads = 0;
    for (const Edge& edge : stage.edges) {
        for (const Access& access : edge.accesses) {
            bool is_in_turn = false;
            for (size_t d = 0; d < access.jacobian.size(); d++) {
                const JacobianRow& row = access.jacobian[d];
                is_in_turn = is_in_turn || (row.has_phase[v] && (d > 0 || row.numerator[v] == 0));
            }
            loads += is_in_turn && index.func(edge.producer).is_input ? access.count : 0;
        }
    }
    return loads;
}

double max_tile_operations(const PipelineIndex& index) {
    return std::clamp(kMaxOperations / std::max(1, index.stage_count()), kLeastTileOperations, kMostTileOperations);
}

Pruned limit_code(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, LoopNest& child, int func) {
    const std::vector<int> readers = readers_of(index, child, func);
    const double limit = max_tile_operations(index);
    for (int stage : readers) {
        const int reader = index.stage(stage).func;
        if (!child[reader].is_computed() || tile_operations(machine, index, child, stage) <= limit) {
            continue;
        }
        for (const FuncSchedule* other : child.funcs) {
            if (other->compute.stage == stage && is_in_tile(index, child, *other)) {
                return Pruned::TileTooLarge;
            }
        }
        FuncSchedule rolled = child[reader];
        const auto& stages = index.func(reader).stages;
        roll_up(rolled.stages[static_cast<size_t>(std::find(stages.begin(), stages.end(), stage) - stages.begin())]);
        child.funcs[static_cast<size_t>(reader)] = pool.intern(std::move(rolled));
        if (tile_operations(machine, index, child, stage) > kSingleTileFactor * limit) {
            return Pruned::TileTooLarge;
        }
    }
    return Pruned::None;
}
}  // namespace metol::cpu
