// What a Space and those restricted from it share; private to the Space.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "search/space.hpp"

namespace metol {

struct Space::Shared {
    explicit Shared(int threads) : workers(threads) {}
    Pool pool;
    Workers workers;
    std::array<std::atomic<int64_t>, static_cast<size_t>(Pruned::Count)> pruned{};
    std::mutex memo_mutex;
    // What one cost model has found out about this pipeline.
    struct Known {
        explicit Known(size_t stages) : latest(stages) {}
        GroupMemo memo;
        std::vector<std::vector<float>> stage_parts;  // [stages][terms], of a network
        std::vector<std::atomic<float>> latest;       // [stages] seconds of the row that was made last
    };
    std::unordered_map<uint64_t, std::unique_ptr<Known>> known;  // by cost model

    Known& known_of(const CostModelWeights& model, const PipelineDag& dag) {
        const std::lock_guard lock(memo_mutex);
        auto& slot = known[model.id];
        if (!slot) {
            slot = std::make_unique<Known>(dag.stages.size());
            if (model.network != nullptr) {
                for (const Stage& stage : dag.stages) {
                    slot->stage_parts.push_back(model.network->stage_part(stage.op_histogram));
                }
            }
        }
        return *slot;
    }
};

}  // namespace metol
