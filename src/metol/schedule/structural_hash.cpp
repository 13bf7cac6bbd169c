#include "schedule/structural_hash.hpp"

#include <algorithm>
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
        const Trips& trips = nest.levels[static_cast<size_t>(level)];
        for (size_t loop = 0; loop < kMaxLoops; loop++) {
            if (trips[loop] != 1) {
                const auto place = static_cast<uint64_t>(level) * kMaxLoops + loop;
                const auto size = static_cast<uint64_t>(std::bit_width(static_cast<uint32_t>(trips[loop])));
                hash = combine(hash, (place << 8) | size);
            }
        }
    }
    return hash;
}

}  // namespace

uint64_t coarse_hash(const FuncSchedule& schedule, int depth) {
    uint64_t hash = combine(static_cast<uint64_t>(schedule.func), static_cast<uint64_t>(schedule.placement));
    if (depth >= 1 && schedule.placement == Placement::At) {
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
        hash = depth > 3 ? combine(hash_trips(stage, depth - 3, hash), 0) : hash;
    }
    return hash;
}

uint64_t structural_hash(const PipelineIndex& index, const LoopNest& nest, int depth) {
    // A sum, because it needs no order: the share of each Func holds the Func's number.
    uint64_t sum = static_cast<uint64_t>(depth);
    for (const FuncSchedule* schedule : nest.funcs) {
        sum += depth < kCoarseDepths ? schedule->coarse_hashes[static_cast<size_t>(std::max(0, depth))]
                                     : coarse_hash(*schedule, depth);
        if (depth >= 1 && schedule->placement == Placement::At) {
            const auto root = static_cast<uint64_t>(root_ancestor(index, nest, schedule->func));
            sum += mix((static_cast<uint64_t>(schedule->func) << 32) | root);
        }
    }
    return mix(sum);
}

}  // namespace metol
