#include "schedule/structural_hash.hpp"

#include <algorithm>
#include <bit>

#include "schedule/hashing.hpp"

namespace metol {

namespace {

// The depth from which on sizes of levels are told apart.
constexpr int kFirstSizes = 4;

int root_ancestor(const PipelineIndex& index, const LoopNest& nest, int func) {
    while (nest[func].placement == Placement::At) {
        func = index.stage(nest[func].compute.stage).func;
    }
    return func;
}

// The sizes of one level of every Stage, to a power of two.
uint64_t hash_level(const FuncSchedule& schedule, size_t level) {
    uint64_t hash = level;
    for (size_t s = 0; s < schedule.stages.size(); s++) {
        const auto& levels = schedule.stages[s].levels;
        for (size_t loop = 0; level < levels.size() && loop < kMaxLoops; loop++) {
            if (const int32_t count = levels[level][loop]; count != 1) {
                const auto size = static_cast<uint64_t>(std::bit_width(static_cast<uint32_t>(count)));
                hash = mix(hash + ((s * kMaxLoops + loop) << 8) + size);
            }
        }
    }
    return hash;
}

// The iterations of the outermost level of every Stage, to a power of two.
uint64_t hash_outermost(const LoopNest& nest) {
    uint64_t sum = 0;
    for (const FuncSchedule* schedule : nest.funcs) {
        uint64_t hash = static_cast<uint64_t>(schedule->func);
        for (const StageNest& stage : schedule->stages) {
            int64_t iterations = 1;
            for (size_t loop = 0; !stage.levels.empty() && loop < kMaxLoops; loop++) {
                iterations *= stage.levels.front()[loop];
            }
            hash = combine(hash, static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(iterations))));
        }
        sum += hash;
    }
    return sum;
}

}  // namespace

void coarse_hashes(const FuncSchedule& schedule, std::span<uint64_t> hashes) {
    uint64_t hash = combine(static_cast<uint64_t>(schedule.func), static_cast<uint64_t>(schedule.placement));
    for (size_t depth = 0; depth < hashes.size(); depth++) {
        if (depth == 1 && schedule.placement == Placement::At) {
            hash = combine(hash, schedule.slide_dim >= 0 ? 1 : 0);
        } else if (depth == 2) {
            hash = mix(hash + static_cast<uint64_t>(schedule.compute.stage + 1));
            for (const StageNest& stage : schedule.stages) {
                hash = mix(hash + static_cast<uint64_t>(stage.vector_loop + 1));
                hash = stage.leader >= 0 ? combine(hash, static_cast<uint64_t>(stage.leader)) : hash;
            }
        } else if (depth == 3) {
            hash = mix(hash + static_cast<uint64_t>(schedule.compute.level + 1));
        } else if (depth >= kFirstSizes) {
            hash = mix(hash + hash_level(schedule, depth - kFirstSizes));
        }
        hashes[depth] = hash;
    }
}

uint64_t structural_hash(const PipelineIndex& index, const LoopNest& nest, int depth) {
    // A sum, because it needs no order: the share of each Func holds the Func's number.
    uint64_t sum = static_cast<uint64_t>(depth);
    std::vector<uint64_t> deep(depth < kCoarseDepths ? 0 : static_cast<size_t>(depth) + 1);
    for (const FuncSchedule* schedule : nest.funcs) {
        if (deep.empty()) {
            sum += schedule->coarse_hashes[static_cast<size_t>(std::max(0, depth))];
        } else {
            coarse_hashes(*schedule, deep);
            sum += deep.back();
        }
        if (depth >= 1 && schedule->placement == Placement::At) {
            const auto root = static_cast<uint64_t>(root_ancestor(index, nest, schedule->func));
            sum += mix((static_cast<uint64_t>(schedule->func) << 32) | root);
        }
    }
    return mix(sum);
}

uint64_t sampling_hash(const PipelineIndex& index, const LoopNest& nest, int depth) {
    if (depth < kFirstSizes) {
        return structural_hash(index, nest, depth);
    }
    if (depth == kFirstSizes) {
        return combine(structural_hash(index, nest, kFirstSizes - 1), hash_outermost(nest));
    }
    return structural_hash(index, nest, depth - 1);
}

}  // namespace metol
