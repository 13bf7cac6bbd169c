#include "schedule/structural_hash.hpp"

#include <bit>

#include "schedule/hashing.hpp"

namespace metol {

namespace {

int root_ancestor(const PipelineIndex& index, const LoopNest& nest, int func) {
    while (nest[func].placement == Placement::At) {
        func = index.stage(nest[func].compute.stage).func;
    }
    return func;
}

uint64_t hash_trips(const StageNest& nest, int levels, uint64_t hash) {
    for (int level = 0; level < levels && level < static_cast<int>(nest.levels.size()); level++) {
        for (int32_t count : nest.levels[static_cast<size_t>(level)]) {
            hash = combine(hash, static_cast<uint64_t>(std::bit_width(static_cast<uint32_t>(count))));
        }
    }
    return hash;
}

}  // namespace

uint64_t structural_hash(const PipelineIndex& index, const LoopNest& nest, int depth) {
    uint64_t hash = mix(static_cast<uint64_t>(depth));
    for (int func = 0; func < index.func_count(); func++) {
        const FuncSchedule& schedule = nest[func];
        hash = combine(hash, static_cast<uint64_t>(schedule.placement));
        if (depth >= 1 && schedule.placement == Placement::At) {
            hash = combine(hash, static_cast<uint64_t>(root_ancestor(index, nest, func)));
            hash = combine(hash, schedule.slide_dim >= 0 ? 1 : 0);
        }
        if (depth >= 2) {
            hash = combine(hash, static_cast<uint64_t>(schedule.compute.stage + 1));
            for (const StageNest& stage : schedule.stages) {
                hash = combine(hash, static_cast<uint64_t>(stage.vector_loop + 1));
            }
        }
        if (depth >= 3) {
            hash = combine(hash, static_cast<uint64_t>(schedule.compute.level + 1));
        }
        for (const StageNest& stage : schedule.stages) {
            hash = depth > 3 ? hash_trips(stage, depth - 3, hash) : hash;
        }
    }
    return hash;
}

}  // namespace metol
