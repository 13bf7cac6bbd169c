#include "search/group_memo.hpp"

#include <algorithm>

#include "schedule/hashing.hpp"
#include "schedule/nest_queries.hpp"

namespace metol {

namespace {

// What a reader sees of a Func that is not inlined.
uint64_t seen_from_outside(int func, const FuncSchedule& schedule) {
    return mix((static_cast<uint64_t>(func) << 32) | (static_cast<uint64_t>(schedule.row_alignment) << 16) |
               (static_cast<uint64_t>(schedule.placement) << 8) |
               static_cast<uint64_t>(static_cast<uint8_t>(schedule.innermost_dim)));
}

}  // namespace

uint64_t Groups::producers_hash(const PipelineIndex& index, const LoopNest& nest, int func) const {
    uint64_t hash = 0;
    for (int32_t stage : index.func(func).stages) {
        for (const Edge& edge : index.stage(stage).edges) {
            const FuncSchedule& producer = nest[edge.producer];
            const bool is_inline = producer.placement == Placement::Inline;
            hash = mix(hash + (is_inline ? inlined_[static_cast<size_t>(edge.producer)]
                                         : seen_from_outside(edge.producer, producer)));
        }
    }
    return mix(hash + static_cast<uint64_t>(func));
}

void Groups::find(const PipelineIndex& index, const LoopNest& nest) {
    const size_t count = nest.funcs.size();
    keys_.clear();
    group_of_.assign(count, -1);
    is_host_.assign(static_cast<size_t>(index.stage_count()), 0);
    inlined_.resize(count);
    producers_.resize(count);
    // Producers before consumers: what is inlined into an inlined Func is known before it.
    for (auto func = index.order.rbegin(); func != index.order.rend(); ++func) {
        const auto f = static_cast<size_t>(*func);
        if (nest[*func].placement == Placement::Inline) {
            inlined_[f] = producers_hash(index, nest, *func);
        } else if (nest[*func].is_computed()) {
            producers_[f] = producers_hash(index, nest, *func);
        }
    }
    for (int32_t func : index.order) {
        const FuncSchedule& schedule = nest[func];
        if (!schedule.is_computed()) {
            continue;
        }
        const auto f = static_cast<size_t>(func);
        if (schedule.leader() >= 0) {
            // Each sees what the other brings into a cache. The leader was scheduled before it.
            const int32_t leader = index.stage(schedule.leader()).func;
            for (const int32_t one : {func, leader}) {
                for (const int32_t stage : index.func(one).stages) {
                    is_host_[static_cast<size_t>(stage)] = 1;
                }
            }
            group_of_[f] = group_of_[static_cast<size_t>(leader)];
        } else if (schedule.placement == Placement::Root) {
            group_of_[f] = static_cast<int32_t>(keys_.size());
            keys_.push_back(0);
        } else {
            // Its host was scheduled before it, so it already has a group.
            const auto host = static_cast<size_t>(index.stage(schedule.compute.stage).func);
            is_host_[static_cast<size_t>(schedule.compute.stage)] = 1;
            group_of_[f] = group_of_[host];
        }
        uint64_t& key = keys_[static_cast<size_t>(group_of_[f])];
        key += combine(schedule.hash, producers_[f]);
    }
}

void Groups::members(const PipelineIndex& index, size_t group, std::vector<int32_t>& funcs) const {
    funcs.clear();
    for (int32_t func : index.order) {
        if (group_of_[static_cast<size_t>(func)] == static_cast<int32_t>(group)) {
            funcs.push_back(func);
        }
    }
}

uint64_t Groups::context_of(const PipelineIndex& index, const LoopNest& nest, std::span<const int32_t> members,
                            bool rows_see_siblings) const {
    uint64_t sum = 0;
    for (int32_t func : members) {
        const FuncSchedule& schedule = nest[func];
        uint64_t hash = schedule.outline_hash;
        const std::vector<int32_t>& stages = index.func(func).stages;
        for (size_t i = 0; i < stages.size(); i++) {
            if (is_host_[static_cast<size_t>(stages[i])] || rows_see_siblings) {
                hash = combine(hash, combine(schedule.stages[i].hash, i));
            }
        }
        sum += combine(hash, producers_[static_cast<size_t>(func)]);
    }
    return sum;
}

uint64_t Groups::row_key(const PipelineIndex& index, const LoopNest& nest, int stage, uint64_t context) const {
    return combine(context, combine(nest_of(index, nest, stage).hash, static_cast<uint64_t>(stage)));
}

GroupMemo::Slot& GroupMemo::Shard::slot(uint64_t key) {
    // The low bits chose the shard.
    size_t i = (key / kShards) & (slots.size() - 1);
    while (slots[i].key != 0 && slots[i].key != key) {
        i = (i + 1) & (slots.size() - 1);
    }
    return slots[i];
}

void GroupMemo::Shard::grow() {
    std::vector<Slot> old(2 * slots.size());
    old.swap(slots);
    mask.store(0, std::memory_order_relaxed);
    first.store(slots.data(), std::memory_order_relaxed);
    mask.store(slots.size() - 1, std::memory_order_relaxed);
    for (const Slot& filled : old) {
        if (filled.key != 0) {
            slot(filled.key) = filled;
        }
    }
}

bool GroupMemo::find(uint64_t key, GroupCost& cost) const {
    const Shard& shard = shards_[key % kShards];
    const std::lock_guard lock(shard.mutex);
    const Slot& slot = shard.slot(key);
    cost = slot.cost;
    return slot.key != 0;
}

void GroupMemo::prefetch(uint64_t key) const {
    const Shard& shard = shards_[key % kShards];
    // Another thread may move the slots meanwhile: then the wrong memory is fetched, or none, and nothing else happens.
    const Slot* slots = shard.first.load(std::memory_order_relaxed);
    const size_t mask = shard.mask.load(std::memory_order_relaxed);
    __builtin_prefetch(slots + ((key / kShards) & mask));
}

GroupCost GroupMemo::store(uint64_t key, double seconds, std::vector<const InlinedRow*> inlined) {
    Shard& shard = shards_[key % kShards];
    const std::lock_guard lock(shard.mutex);
    if (2 * (shard.count + 1) > shard.slots.size()) {
        shard.grow();
    }
    Slot& slot = shard.slot(key);
    if (slot.key == 0) {
        shard.count++;
        slot.key = key;
        slot.cost.seconds = seconds;
        if (!inlined.empty()) {
            slot.cost.inlined = &shard.lists.emplace_back(std::move(inlined));
        }
    }
    return slot.cost;
}

const InlinedRow* GroupMemo::keep(InlinedRow row) {
    Shard& shard = shards_[row.key % kShards];
    const std::lock_guard lock(shard.mutex);
    return &shard.rows.emplace_back(std::move(row));
}

void GroupMemo::clear() {
    for (Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        if (shard.count > 0) {
            std::fill(shard.slots.begin(), shard.slots.end(), Slot{});
        }
        shard.count = 0;
        shard.lists.clear();
        shard.rows.clear();
    }
}

}  // namespace metol
