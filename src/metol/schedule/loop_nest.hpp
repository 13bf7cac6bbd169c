// The search state: what has been decided about each Func, as small immutable values that states share.
//
// Enters: decisions (schedule/decision.hpp). Leaves: a LoopNest, from which regions, features and directives derive.
// Source: Adams et al. 2019, §3.1: per stage a nested set of n-dimensional tilings, a compute and a storage
// granularity, and annotations of the tilings. A FuncSchedule is interned in a Pool, so that copying a LoopNest copies
// pointers and equal choices are equal pointers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "schedule/decision.hpp"

namespace metol {

enum class Placement : uint8_t { Unscheduled, Inline, Root, At };

// A place in the loop nest where a Func can be computed or stored: inside `loops` loops (outermost first) of level
// `level` of Stage `stage`; `loops` = kAllLoops is the body of the level. The root is {-1, -1}.
struct Site {
    static constexpr int8_t kAllLoops = -1;
    int16_t stage = -1;
    int8_t level = -1;
    int8_t loops = kAllLoops;
    bool is_root() const { return stage < 0; }
    bool operator==(const Site&) const = default;
};

// One level of the tiling of a Stage: a loop over each of its dimensions, many of them of extent 1.
// For the innermost level the numbers are points (a vector of 16 counts 16), otherwise iterations.
using Trips = std::array<int32_t, kMaxLoops>;

inline Trips unit_trips() {
    Trips trips;
    trips.fill(1);
    return trips;
}

// How the loops of one Stage are tiled. levels.front() is outermost; levels.back() is the tile that is vectorized
// along `vector_loop` and unrolled along the rest. All loops of a parallel level run as one fused parallel loop.
// On a GPU the levels are blocks, threads, and the points of one thread (targets/gpu/decisions.hpp).
struct StageNest {
    std::vector<Trips> levels;
    int8_t vector_loop = -1;  // -1: scalar code
    int16_t vector_width = 1;
    bool is_parallel = false;  // levels.front() is spread over threads
    bool is_atomic = false;    // and so are all reduction loops, whose updates are atomic
    int16_t leader = -1;       // the Stage whose loops this one shares, down to the body of `shared_level`
    int8_t shared_level = -1;
    int16_t prefetched = -1;  // the Func of which `prefetch_loop` of `prefetch_level` asks for what it reads next
    int8_t prefetch_level = -1;
    int8_t prefetch_loop = -1;
    uint64_t hash = 0;  // of all that is above, filled in by the Pool
    // Are they the same loops? The hash follows from these.
    bool operator==(const StageNest& other) const {
        const auto key = [](const StageNest& nest) {
            return std::tie(nest.levels, nest.vector_loop, nest.vector_width, nest.is_parallel, nest.is_atomic,
                            nest.leader, nest.shared_level, nest.prefetched, nest.prefetch_level, nest.prefetch_loop);
        };
        return key(*this) == key(other);
    }
    int inner_level() const { return static_cast<int>(levels.size()) - 1; }
};

// Depths of the structural hash that are worked out once for each FuncSchedule; coarse-to-fine search goes no deeper.
inline constexpr int kCoarseDepths = 8;

struct FuncSchedule {
    int16_t func = -1;
    Placement placement = Placement::Unscheduled;
    Site compute;
    Site store;                // equal to `compute`, or the body just outside the one loop that a window slides over
    int8_t slide_dim = -1;     // the dimension of this Func that slides, -1 without sliding
    int32_t slide_step = 0;    // points computed an iteration along slide_dim, in the mean
    int8_t innermost_dim = 0;  // the dimension that is innermost in storage
    Storage storage = Storage::Plain;
    int16_t row_alignment = 0;      // elements that rows are padded to a multiple of; 1: not padded, 0: not decided
    std::vector<StageNest> stages;  // [stages of the Func]; empty for Unscheduled and Inline
    // Filled in by the Pool, from the fields above.
    bool is_flat = false;                                 // computed inside another, in one tile a Stage
    uint64_t hash = 0;                                    // of everything
    uint64_t outline_hash = 0;                            // of everything but the tilings, unless it is flat
    std::array<uint64_t, kCoarseDepths> coarse_hashes{};  // by depth; see schedule/structural_hash.hpp
    bool is_computed() const { return placement == Placement::Root || placement == Placement::At; }
    // A Stage of the one Func whose loops those of this one share, -1 where they are its own.
    int leader() const {
        for (const StageNest& nest : stages) {
            if (nest.leader >= 0) {
                return nest.leader;
            }
        }
        return -1;
    }
};

// Decisions on the way to a state, after those of `previous`; shared by all descendants.
struct PathNode {
    std::shared_ptr<const PathNode> previous;
    std::vector<Decision> decisions;
};

// A state: one FuncSchedule a Func (Pool-owned, never null) and how many decisions have been made.
struct LoopNest {
    std::vector<const FuncSchedule*> funcs;
    int32_t decisions_made = 0;
    std::shared_ptr<const PathNode> path;  // all decisions but the last
    Decision last;                         // once a decision has been made

    const FuncSchedule& operator[](int func) const { return *funcs[static_cast<size_t>(func)]; }
};

// Owns every FuncSchedule of a Space and gives equal ones the same address. Thread-safe.
class Pool {
  public:
    Pool();
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    const FuncSchedule* intern(FuncSchedule schedule);
    size_t size() const;

  private:
    struct Shard;
    static constexpr size_t kShards = 16;
    std::unique_ptr<std::array<Shard, kShards>> shards_;
};

// Equal only for equal loop nests, up to 64-bit collisions.
uint64_t identity_hash(const LoopNest& nest);

}  // namespace metol
