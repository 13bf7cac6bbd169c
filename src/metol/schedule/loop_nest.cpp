#include "schedule/loop_nest.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

#include "schedule/hashing.hpp"
#include "schedule/structural_hash.hpp"

namespace metol {

namespace {

uint64_t hash_site(uint64_t seed, const Site& site) {
    const auto packed = (static_cast<uint64_t>(static_cast<uint16_t>(site.stage)) << 16) |
                        (static_cast<uint64_t>(static_cast<uint8_t>(site.level)) << 8) |
                        static_cast<uint64_t>(static_cast<uint8_t>(site.loops));
    return combine(seed, packed);
}

uint64_t hash_outline(const FuncSchedule& schedule) {
    uint64_t hash = combine(static_cast<uint64_t>(schedule.func), static_cast<uint64_t>(schedule.placement));
    hash = hash_site(hash, schedule.compute);
    hash = hash_site(hash, schedule.store);
    if (schedule.slide_dim >= 0) {
        hash = combine(hash, static_cast<uint64_t>(schedule.slide_step));
    }
    if (schedule.row_alignment > 0) {
        hash = combine(hash, static_cast<uint64_t>(schedule.row_alignment));
    }
    return combine(hash, (static_cast<uint64_t>(schedule.storage) << 32) |
                             (static_cast<uint64_t>(schedule.innermost_dim + 1) << 16) |
                             static_cast<uint64_t>(schedule.slide_dim + 1));
}

bool is_one_tile(const StageNest& nest) {
    return std::all_of(nest.levels.begin(), nest.levels.end() - 1, [](const Trips& level) {
        return std::all_of(level.begin(), level.end(), [](int32_t trips) { return trips == 1; });
    });
}

// A sum, whose parts do not wait for each other, for it is worked out for each candidate. The hash of a whole schedule
// is not made of these: what is sampled at random hangs on it, and stays as it was.
uint64_t hash_nest(const StageNest& nest) {
    uint64_t sum =
        (static_cast<uint64_t>(nest.levels.size()) << 48) | (static_cast<uint64_t>(nest.vector_loop + 1) << 32) |
        (static_cast<uint64_t>(nest.vector_width) << 2) | (nest.is_atomic ? 2U : 0U) | (nest.is_parallel ? 1U : 0U);
    sum = mix(sum) + combine(static_cast<uint64_t>(nest.leader), static_cast<uint64_t>(nest.shared_level)) +
          mix(combine(static_cast<uint64_t>(nest.prefetched),
                      (static_cast<uint64_t>(nest.prefetch_level) << 8) ^ static_cast<uint64_t>(nest.prefetch_loop)));
    for (size_t level = 0; level < nest.levels.size(); level++) {
        for (size_t loop = 0; loop < kMaxLoops; loop++) {
            if (const int32_t count = nest.levels[level][loop]; count != 1) {
                const uint64_t place = level * kMaxLoops + loop + 1;
                sum += mix((place << 32) | static_cast<uint32_t>(count));
            }
        }
    }
    return mix(sum);
}

uint64_t hash_schedule(const FuncSchedule& schedule) {
    uint64_t hash = schedule.outline_hash;
    for (const StageNest& nest : schedule.stages) {
        hash = combine(hash, (static_cast<uint64_t>(nest.levels.size()) << 48) |
                                 (static_cast<uint64_t>(nest.vector_loop + 1) << 32) |
                                 (static_cast<uint64_t>(nest.vector_width) << 2) | (nest.is_atomic ? 2U : 0U) |
                                 (nest.is_parallel ? 1U : 0U));
        if (nest.leader >= 0) {
            hash = combine(hash, (static_cast<uint64_t>(nest.leader) << 8) | static_cast<uint8_t>(nest.shared_level));
        }
        if (nest.prefetched >= 0) {
            hash = combine(hash, (static_cast<uint64_t>(nest.prefetched) << 16) |
                                     (static_cast<uint64_t>(nest.prefetch_level) << 8) |
                                     static_cast<uint64_t>(nest.prefetch_loop));
        }
        for (size_t level = 0; level < nest.levels.size(); level++) {
            for (size_t loop = 0; loop < kMaxLoops; loop++) {
                if (const int32_t count = nest.levels[level][loop]; count != 1) {
                    const uint64_t place = level * kMaxLoops + loop;
                    hash = combine(hash, (place << 32) | static_cast<uint32_t>(count));
                }
            }
        }
    }
    return hash;
}

// The same decisions; the hashes follow from these.
bool is_same(const FuncSchedule& a, const FuncSchedule& b) {
    return a.func == b.func && a.placement == b.placement && a.compute == b.compute && a.store == b.store &&
           a.slide_dim == b.slide_dim && a.slide_step == b.slide_step && a.innermost_dim == b.innermost_dim &&
           a.storage == b.storage && a.row_alignment == b.row_alignment && a.stages == b.stages;
}

}  // namespace

// Open addressing: a search interns several schedules for each candidate, nearly all of them known.
struct Pool::Shard {
    static constexpr size_t kFirstSlots = 64;
    struct Slot {
        uint64_t hash = 0;
        const FuncSchedule* schedule = nullptr;
    };

    mutable std::mutex mutex;
    std::deque<FuncSchedule> values;  // a deque never moves its elements
    std::vector<Slot> slots = std::vector<Slot>(kFirstSlots);

    // Where `schedule` is, or where it belongs.
    Slot& slot(const FuncSchedule& schedule) {
        // The low bits chose the shard.
        size_t i = (schedule.hash / kShards) & (slots.size() - 1);
        while (slots[i].schedule != nullptr &&
               !(slots[i].hash == schedule.hash && is_same(*slots[i].schedule, schedule))) {
            i = (i + 1) & (slots.size() - 1);
        }
        return slots[i];
    }

    void grow() {
        slots.assign(2 * slots.size(), {});
        for (const FuncSchedule& schedule : values) {
            slot(schedule) = {schedule.hash, &schedule};
        }
    }
};

Pool::Pool() : shards_(std::make_unique<std::array<Shard, kShards>>()) {}
Pool::~Pool() = default;

const FuncSchedule* Pool::intern(FuncSchedule schedule) {
    schedule.outline_hash = hash_outline(schedule);
    schedule.hash = hash_schedule(schedule);
    for (StageNest& nest : schedule.stages) {
        nest.hash = hash_nest(nest);
    }
    schedule.is_flat =
        schedule.placement == Placement::At && std::all_of(schedule.stages.begin(), schedule.stages.end(), is_one_tile);
    // The values of flat code can go straight to the code of those that read them, which therefore see its tile.
    schedule.outline_hash = schedule.is_flat ? schedule.hash : schedule.outline_hash;
    Shard& shard = (*shards_)[schedule.hash % kShards];
    const std::lock_guard lock(shard.mutex);
    Shard::Slot* slot = &shard.slot(schedule);
    if (slot->schedule != nullptr) {
        return slot->schedule;
    }
    if (2 * (shard.values.size() + 1) > shard.slots.size()) {
        shard.grow();
        slot = &shard.slot(schedule);
    }
    coarse_hashes(schedule, schedule.coarse_hashes);
    shard.values.push_back(std::move(schedule));
    *slot = {shard.values.back().hash, &shard.values.back()};
    return slot->schedule;
}

size_t Pool::size() const {
    size_t total = 0;
    for (const Shard& shard : *shards_) {
        const std::lock_guard lock(shard.mutex);
        total += shard.values.size();
    }
    return total;
}

uint64_t identity_hash(const LoopNest& nest) {
    uint64_t hash = mix(static_cast<uint64_t>(nest.decisions_made));
    for (const FuncSchedule* schedule : nest.funcs) {
        hash = combine(hash, schedule->hash);
    }
    return hash;
}

const char* pruned_name(Pruned reason) {
    switch (reason) {
        case Pruned::None:
            return "none";
        case Pruned::NotInlinable:
            return "not_inlinable";
        case Pruned::RecomputesTooMuch:
            return "recomputes_too_much";
        case Pruned::ExpressionTooLong:
            return "expression_too_long";
        case Pruned::NothingToSlide:
            return "nothing_to_slide";
        case Pruned::SlidesOverManyLoops:
            return "slides_over_many_loops";
        case Pruned::StackOverflows:
            return "stack_overflows";
        case Pruned::AsksForMore:
            return "asks_for_more";
        case Pruned::WarmsUpOutside:
            return "warms_up_outside";
        case Pruned::SplitsSlidingLoop:
            return "splits_sliding_loop";
        case Pruned::StorageOutsideParallel:
            return "storage_outside_parallel";
        case Pruned::DegenerateSplit:
            return "degenerate_split";
        case Pruned::TooFewTasks:
            return "too_few_tasks";
        case Pruned::TooManyTasks:
            return "too_many_tasks";
        case Pruned::CannotShareLoops:
            return "cannot_share_loops";
        case Pruned::NestTooDeep:
            return "nest_too_deep";
        case Pruned::TileTooLarge:
            return "tile_too_large";
        case Pruned::TooManyThreads:
            return "too_many_threads";
        case Pruned::TooMuchSharedMemory:
            return "too_much_shared_memory";
        case Pruned::TooManyRegisters:
            return "too_many_registers";
        case Pruned::IdleLanes:
            return "idle_lanes";
        case Pruned::NothingShared:
            return "nothing_shared";
        case Pruned::Restricted:
            return "restricted";
        case Pruned::InvalidDecision:
            return "invalid_decision";
        case Pruned::Count:
            break;
    }
    return "unknown";
}

}  // namespace metol
