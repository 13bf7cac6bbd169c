#include "emulated_cuda/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace metol::emulated {

namespace {

// cuMemAlloc aligns for every type and more.
constexpr std::align_val_t kAlignment{256};

}  // namespace

GlobalMemory::~GlobalMemory() {
    for (const auto& [begin, range] : ranges_) {
        if (range.is_own) {
            ::operator delete(reinterpret_cast<void*>(begin), kAlignment);
        }
    }
}

uint64_t GlobalMemory::allocate(size_t bytes) {
    void* memory = ::operator new(std::max<size_t>(1, bytes), kAlignment);
    std::memset(memory, kUnwritten, bytes);
    const auto begin = reinterpret_cast<uint64_t>(memory);
    ranges_[begin] = {begin, begin + bytes, true};
    return begin;
}

bool GlobalMemory::release(uint64_t address) {
    const auto found = ranges_.find(address);
    if (found == ranges_.end() || !found->second.is_own) {
        return false;
    }
    ranges_.erase(found);
    last_ = {};
    ::operator delete(reinterpret_cast<void*>(address), kAlignment);
    return true;
}

void GlobalMemory::add(std::span<uint8_t> bytes) {
    const auto begin = reinterpret_cast<uint64_t>(bytes.data());
    ranges_[begin] = {begin, begin + bytes.size(), false};
}

void GlobalMemory::forget(std::span<uint8_t> bytes) {
    ranges_.erase(reinterpret_cast<uint64_t>(bytes.data()));
    last_ = {};
}

bool GlobalMemory::holds(uint64_t address, size_t bytes) {
    if (last_.holds(address, bytes)) {
        return true;
    }
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) {
        return false;
    }
    const Range& range = (--after)->second;
    if (!range.holds(address, bytes)) {
        return false;
    }
    last_ = range;
    return true;
}

void SharedMemory::clear() {
    std::ranges::fill(bytes_, kUnwritten);
    std::ranges::fill(uses_, Use{});
    turn_ = 0;
}

bool SharedMemory::note_load(uint64_t offset, size_t bytes, int32_t thread) {
    bool is_alone = true;
    for (size_t i = offset; i < offset + bytes; i++) {
        Use& use = uses_[i];
        is_alone = is_alone && use.written.is_of(turn_, thread) && use.updated.is_by(turn_, thread);
        use.read.add(turn_, thread);
    }
    return is_alone;
}

bool SharedMemory::note_store(uint64_t offset, const uint8_t* value, size_t bytes, int32_t thread) {
    bool is_alone = true;
    for (size_t i = offset; i < offset + bytes; i++) {
        Use& use = uses_[i];
        const bool is_changed = bytes_[i] != value[i - offset];
        const bool is_free = use.written.is_by(turn_, thread) && use.read.is_by(turn_, thread);
        is_alone = is_alone && (!is_changed || is_free) && use.updated.is_by(turn_, thread);
        use.written.add(turn_, thread);
    }
    return is_alone;
}

bool SharedMemory::note_update(uint64_t offset, size_t bytes, int32_t thread) {
    bool is_alone = true;
    for (size_t i = offset; i < offset + bytes; i++) {
        Use& use = uses_[i];
        is_alone = is_alone && use.written.is_by(turn_, thread) && use.read.is_by(turn_, thread);
        use.updated.add(turn_, thread);
    }
    return is_alone;
}

void SharedMemory::Threads::add(int32_t now, int32_t thread) {
    if (turn != now) {
        *this = {now, thread, kNone, false};
    } else if (thread != first && thread != second) {
        are_more = second != kNone;
        second = second == kNone ? thread : second;
    }
}

bool SharedMemory::Threads::is_by(int32_t now, int32_t thread) const {
    return turn != now || (first == thread && second == kNone);
}

bool SharedMemory::Threads::is_of(int32_t now, int32_t thread) const {
    return turn != now || first == thread || second == thread || are_more;
}

}  // namespace metol::emulated
