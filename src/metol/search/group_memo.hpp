// Costs of sub-nests of the root, and of single rows in them, remembered. A child differs from its parent in one or two
// sub-nests, and in each of those often in the tiling of one Func.
//
// The key of a sub-nest hashes every FuncSchedule in it, what is inlined into it, and where the Funcs that it reads
// from outside are and how they are laid out: all that its feature rows depend on. The row of a Stage depends on less:
// the tiling of another one that nothing is computed inside does not matter to it, be it of the same Func, because
// nobody looks at regions or traffic from within those loops; unless its target says that all rows see all tilings.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"
#include "targets/base.hpp"

namespace metol {

// The sub-nests of the root of one loop nest: each a Func at root with all that is computed inside it, and the Funcs
// that share its loops. An object is used for one loop nest after another, and keeps its memory.
class Groups {
  public:
    void find(const PipelineIndex& index, const LoopNest& nest);

    size_t count() const { return keys_.size(); }
    uint64_t key(size_t group) const { return keys_[group]; }
    // Finds the computed Funcs of a sub-nest, consumers before producers.
    void members(const PipelineIndex& index, size_t group, std::vector<int32_t>& funcs) const;
    // Hashes all that the row of `stage` depends on; `context` is the `context_of` its sub-nest.
    uint64_t row_key(const PipelineIndex& index, const LoopNest& nest, int stage, uint64_t context) const;
    // Hashes what is common to the row keys of a sub-nest.
    uint64_t context_of(const PipelineIndex& index, const LoopNest& nest, std::span<const int32_t> members,
                        bool rows_see_siblings) const;

  private:
    uint64_t producers_hash(const PipelineIndex& index, const LoopNest& nest, int func) const;

    std::vector<uint64_t> keys_;       // [sub-nests]
    std::vector<int32_t> group_of_;    // [Funcs] -1 where not computed
    std::vector<uint8_t> is_host_;     // [Stages] is a Func computed inside it, or in loops that it shares?
    std::vector<uint64_t> inlined_;    // [Funcs] of one that is inlined: all that it reads
    std::vector<uint64_t> producers_;  // [Funcs] of one that is computed: all that it reads
};

// What a Stage, or a sub-nest, adds to the row of a Func that is inlined into it.
struct InlinedRow {
    int32_t stage;
    uint64_t key;  // equal where the row is
    std::vector<float> row;
};

// What one sub-nest or one row costs: the seconds of its own Stages, and the rows of what is inlined into it (null for
// none). Those are kept apart, because several sub-nests can inline the same Func, and its row is the sum over them.
struct GroupCost {
    double seconds = 0;
    const std::vector<const InlinedRow*>* inlined = nullptr;
};

// A hash table from key to cost, of which nothing is ever taken out: what it points to stays as long as it does. Keys
// are hashes of many bits already. Open addressing, because a lookup that misses the caches once is what costs here.
class GroupMemo {
  public:
    bool find(uint64_t key, GroupCost& cost) const;
    // Tells the processor that a key will be looked for soon: nearly all of the time of a lookup is waiting for memory.
    void prefetch(uint64_t key) const;
    GroupCost store(uint64_t key, double seconds, std::vector<const InlinedRow*> inlined);
    // Keeps a row for as long as the memo.
    const InlinedRow* keep(InlinedRow row);
    // Forgets everything; what it pointed to is gone.
    void clear();

  private:
    static constexpr size_t kShards = 32;
    static constexpr size_t kFirstSlots = 64;
    struct Slot {
        uint64_t key = 0;  // 0: empty
        GroupCost cost;
    };
    struct Shard {
        mutable std::mutex mutex;
        std::vector<Slot> slots = std::vector<Slot>(kFirstSlots);
        // Of `slots`, for who only prefetches, without the lock.
        std::atomic<const Slot*> first{slots.data()};
        std::atomic<size_t> mask{kFirstSlots - 1};
        size_t count = 0;
        std::deque<std::vector<const InlinedRow*>> lists;
        std::deque<InlinedRow> rows;

        Slot& slot(uint64_t key);
        const Slot& slot(uint64_t key) const { return const_cast<Shard*>(this)->slot(key); }
        void grow();
    };
    std::array<Shard, kShards> shards_;
};

}  // namespace metol
