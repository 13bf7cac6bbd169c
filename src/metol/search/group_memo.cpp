#include "search/group_memo.hpp"

#include "schedule/hashing.hpp"

namespace metol {

namespace {

// Everything outside a Stage that its rows depend on: producers, through what is inlined.
uint64_t hash_producers(const PipelineIndex& index, const LoopNest& nest, int stage, uint64_t hash) {
    for (const Edge& edge : index.stage(stage).edges) {
        const FuncSchedule& producer = nest[edge.producer];
        hash = combine(hash, static_cast<uint64_t>(edge.producer));
        hash = combine(hash, (static_cast<uint64_t>(producer.placement) << 8) |
                                 static_cast<uint64_t>(static_cast<uint8_t>(producer.innermost_dim)));
        if (producer.placement == Placement::Inline) {
            hash = hash_producers(index, nest, index.func(edge.producer).stages.front(), hash);
        }
    }
    return hash;
}

}  // namespace

std::vector<Group> groups_of(const PipelineIndex& index, const LoopNest& nest) {
    std::vector<Group> groups;
    std::vector<int32_t> group_of(nest.funcs.size(), -1);
    for (int32_t func : index.order) {
        const FuncSchedule& schedule = nest[func];
        if (!schedule.is_computed()) {
            continue;
        }
        int32_t group;
        if (schedule.placement == Placement::Root) {
            group = static_cast<int32_t>(groups.size());
            groups.emplace_back();
        } else {
            // Its host was scheduled before it, so it already has a group.
            group = group_of[static_cast<size_t>(index.stage(schedule.compute.stage).func)];
        }
        group_of[static_cast<size_t>(func)] = group;
        Group& members = groups[static_cast<size_t>(group)];
        members.funcs.push_back(func);
        members.key = combine(members.key, schedule.hash);
        for (int32_t stage : index.func(func).stages) {
            members.key = hash_producers(index, nest, stage, members.key);
        }
    }
    return groups;
}

const GroupCost* GroupMemo::find(uint64_t key) const {
    const Shard& shard = shards_[key % kShards];
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.costs.find(key);
    return found == shard.costs.end() ? nullptr : &found->second;
}

const GroupCost* GroupMemo::store(uint64_t key, GroupCost cost) {
    Shard& shard = shards_[key % kShards];
    const std::lock_guard lock(shard.mutex);
    return &shard.costs.emplace(key, std::move(cost)).first->second;
}

}  // namespace metol
