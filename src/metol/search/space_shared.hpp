// What a Space and those restricted from it share; private to the Space.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "search/space.hpp"

namespace metol {

struct Space::Shared {
    explicit Shared(int threads) : workers(threads) {}
    Pool pool;
    Workers workers;
    std::mutex memo_mutex;
    std::unordered_map<uint64_t, std::unique_ptr<GroupMemo>> memos;  // by cost model

    GroupMemo& memo(uint64_t model) {
        const std::lock_guard lock(memo_mutex);
        auto& slot = memos[model];
        if (!slot) {
            slot = std::make_unique<GroupMemo>();
        }
        return *slot;
    }
};

}  // namespace metol
