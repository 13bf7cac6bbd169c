// The memories of the emulated device: every access is held against what was allocated, and to the order of barriers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "emulated_cuda/code.hpp"

namespace metol::emulated {

// What is in memory that nothing was written to: all ones, a NaN or -1. What reads it gets something that shows.
constexpr uint8_t kUnwritten = 0xff;

// Global memory: the process's own, of which only what was allocated may be touched.
class GlobalMemory {
  public:
    GlobalMemory() = default;
    ~GlobalMemory();
    GlobalMemory(const GlobalMemory&) = delete;
    GlobalMemory& operator=(const GlobalMemory&) = delete;

    // Aligned as cuMemAlloc does, and filled with what no one should use.
    uint64_t allocate(size_t bytes);
    // False where nothing starts there.
    bool release(uint64_t address);
    // Makes memory that is not ours known: variables of a module.
    void add(std::span<uint8_t> bytes);
    void forget(std::span<uint8_t> bytes);
    // Does all of it lie in one allocation?
    bool holds(uint64_t address, size_t bytes);

  private:
    struct Range {
        uint64_t begin = 1;
        uint64_t end = 0;
        bool is_own = false;
        bool holds(uint64_t address, size_t bytes) const {
            return address >= begin && address < end && bytes <= end - address;
        }
    };
    std::map<uint64_t, Range> ranges_;
    Range last_;
};

// The shared memory of a block. Two threads may not go to one byte between two barriers, unless both read, or write
// what is there already: the outcome would be an accident (§9.7.13).
class SharedMemory {
  public:
    explicit SharedMemory(size_t bytes) : bytes_(bytes), uses_(bytes) {}

    // Forgets everything, for another block.
    void clear();
    // What was done before a barrier is done for all after it.
    void pass_barrier() { turn_++; }
    size_t size() const { return bytes_.size(); }
    uint8_t* at(uint64_t offset) { return bytes_.data() + offset; }
    // Notes an access of a thread; false where it races with that of another.
    bool note_load(uint64_t offset, size_t bytes, int32_t thread);
    bool note_store(uint64_t offset, const uint8_t* value, size_t bytes, int32_t thread);
    bool note_update(uint64_t offset, size_t bytes, int32_t thread);

  private:
    // Those that went to a byte since some barrier; of more than two it is not known who.
    struct Threads {
        int32_t turn = -1;
        int32_t first = kNone;
        int32_t second = kNone;
        bool are_more = false;
        void add(int32_t now, int32_t thread);
        // Has no other thread been there? Has, where any has, this one, as far as is known?
        bool is_by(int32_t now, int32_t thread) const;
        bool is_of(int32_t now, int32_t thread) const;
    };
    struct Use {
        Threads written;
        Threads read;
        Threads updated;  // atomically
    };
    std::vector<uint8_t> bytes_;
    std::vector<Use> uses_;
    int32_t turn_ = 0;
};

}  // namespace metol::emulated
