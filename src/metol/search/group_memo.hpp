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

// What one sub-nest costs: the seconds of its own Stages, and the rows of what is inlined into it. Those are kept
// apart, because several sub-nests can inline the same Func, and its row is the sum over them.
struct GroupCost {
    double seconds = 0;
    struct Inlined {
        int32_t stage;
        std::vector<float> row;
    };
    std::vector<Inlined> inlined;
};

class GroupMemo {
  public:
    // Null where the key is new. What is returned stays as long as the memo.
    const GroupCost* find(uint64_t key) const;
    const GroupCost* store(uint64_t key, GroupCost cost);

  private:
    static constexpr size_t kShards = 32;
    struct Shard {
        mutable std::mutex mutex;
        std::unordered_map<uint64_t, GroupCost> costs;  // never moves its values
    };
    std::array<Shard, kShards> shards_;
};

}  // namespace metol
