// What is worked out once for each place of a loop nest: a hash table that keeps its memory, and may keep its contents.
//
// A search looks at many thousands of loop nests a second, each for microseconds: allocating and freeing the nodes of a
// std::unordered_map takes longer than what they hold takes to compute. A table here is emptied by counting up, and
// lent to one owner at a time from a stack that each thread keeps. Where the keys hash all that the values depend on,
// the next owner finds what the last one made: loop nests looked at one after the other differ in little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "schedule/hashing.hpp"
#include "schedule/loop_nest.hpp"

namespace metol {

// One number for a site and the Func or Stage that is looked at from it; `table` tells several uses of a table apart.
inline uint64_t site_key(int table, int id, const Site& site) {
    return (static_cast<uint64_t>(table) << 56) | (static_cast<uint64_t>(static_cast<uint32_t>(id)) << 32) |
           (static_cast<uint64_t>(static_cast<uint16_t>(site.stage)) << 16) |
           (static_cast<uint64_t>(static_cast<uint8_t>(site.level)) << 8) | static_cast<uint8_t>(site.loops);
}

// A new owner finds the table empty, or, if `kKept` is not 0, filled by those before it with up to so many values.
template <typename Value, size_t kKept = 0>
class SiteTable {
  public:
    SiteTable() : slots_(kFirstSlots) {}

    void lend() {
        if (count_ > kKept) {
            generation_++;
            count_ = 0;
        }
    }

    // Null where the key is new.
    Value* find(uint64_t key) {
        for (size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
            const Slot& slot = slots_[i];
            if (slot.generation != generation_) {
                return nullptr;
            }
            if (slot.key == key) {
                return &value(slot.position);
            }
        }
    }

    // A value for a key that is new, as its last owner left it. It stays where it is until the table is lent again.
    Value& add(uint64_t key) {
        if (2 * (count_ + 1) > slots_.size()) {
            grow();
        }
        const auto position = static_cast<uint32_t>(count_++);
        place({key, generation_, position});
        if (position / kChunk >= chunks_.size()) {
            chunks_.push_back(std::make_unique<Value[]>(kChunk));
        }
        return value(position);
    }

    // The value for a key, made where that is new. Making it may ask for others, which are added before it.
    template <typename Make>
    const Value& find_or_make(uint64_t key, const Make& make) {
        if (const Value* found = find(key)) {
            return *found;
        }
        Value made = make();
        return add(key) = std::move(made);
    }

  private:
    static constexpr size_t kFirstSlots = 256;
    static constexpr size_t kChunk = 32;

    struct Slot {
        uint64_t key = 0;
        uint32_t generation = 0;
        uint32_t position = 0;
    };

    size_t home(uint64_t key) const { return mix(key) & (slots_.size() - 1); }
    Value& value(uint32_t position) { return chunks_[position / kChunk][position % kChunk]; }

    void place(const Slot& slot) {
        size_t i = home(slot.key);
        while (slots_[i].generation == generation_) {
            i = (i + 1) & (slots_.size() - 1);
        }
        slots_[i] = slot;
    }

    void grow() {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.generation == generation_) {
                place(slot);
            }
        }
    }

    std::vector<Slot> slots_;  // a power of two
    std::vector<std::unique_ptr<Value[]>> chunks_;
    size_t count_ = 0;
    uint32_t generation_ = 1;
};

// Numbers of the Funcs of one loop nest, each worked out when it is asked for; 0 where it has not been.
class FuncTable {
  public:
    void lend() { values_.clear(); }
    uint64_t& of(int func, int func_count) {
        if (values_.empty()) {
            values_.resize(static_cast<size_t>(func_count));
        }
        return values_[static_cast<size_t>(func)];
    }

  private:
    std::vector<uint64_t> values_;
};

// A table, lent for the life of this object.
template <typename Table>
class Borrowed {
  public:
    Borrowed() {
        auto& idle = idle_tables();
        if (idle.empty()) {
            table_ = std::make_unique<Table>();
            return;
        }
        table_ = std::move(idle.back());
        idle.pop_back();
        table_->lend();
    }
    ~Borrowed() { idle_tables().push_back(std::move(table_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    Table* operator->() { return table_.get(); }
    Table& operator*() { return *table_; }

  private:
    static std::vector<std::unique_ptr<Table>>& idle_tables() {
        thread_local std::vector<std::unique_ptr<Table>> tables;
        return tables;
    }

    std::unique_ptr<Table> table_;
};

}  // namespace metol
