// Costs of sub-nests of the root, remembered. A child differs from its parent in one or two of them.
//
// The key of a sub-nest hashes every FuncSchedule in it, what is inlined into it, and where the Funcs that it reads
// from outside are and how they are laid out: all that its feature rows depend on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol {

// The computed Funcs of one sub-nest of the root, consumers before producers.
struct Group {
    std::vector<int32_t> funcs;
    uint64_t key = 0;
};

std::vector<Group> groups_of(const PipelineIndex& index, const LoopNest& nest);

class GroupMemo {
  public:
    bool find(uint64_t key, double& cost) const;
    void store(uint64_t key, double cost);
    void clear();

  private:
    static constexpr size_t kShards = 32;
    struct Shard {
        mutable std::mutex mutex;
        std::unordered_map<uint64_t, double> costs;
    };
    std::array<Shard, kShards> shards_;
};

}  // namespace metol
