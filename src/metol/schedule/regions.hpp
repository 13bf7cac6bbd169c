// Which region of a Func is needed, and which part of a Stage's loops runs, in one iteration of any loop of a nest.
//
// Enters: a LoopNest. Leaves: boxes of integers. As in Adams et al. 2019, §4.1 and §7, one representative iteration of
// each loop is looked at: the middle one, unless another is asked for. What is needed of a Func depends on the Funcs
// that consume it, and on no other, so boxes are kept from one loop nest to the next, under a hash of the schedules of
// all these.
#pragma once

#include <algorithm>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"
#include "schedule/site_table.hpp"

namespace metol {

struct Box {
    int8_t dimensions = 0;
    bool is_empty = true;
    int8_t skipped_dim = -1;  // along which a loop goes over some of the places in it; -1 for none
    float share = 1;          // of those places
    std::array<Interval, kMaxLoops> intervals;

    Box() = default;
    Box(const Box& other) { *this = other; }
    // Copies the intervals that there are.
    Box& operator=(const Box& other) {
        dimensions = other.dimensions;
        is_empty = other.is_empty;
        skipped_dim = other.skipped_dim;
        share = other.share;
        std::copy_n(other.intervals.begin(), dimensions, intervals.begin());
        return *this;
    }

    const Interval& operator[](int d) const { return intervals[static_cast<size_t>(d)]; }
    Interval& operator[](int d) { return intervals[static_cast<size_t>(d)]; }
    int64_t points() const;
    void include(const Box& other);
};

// Iterations of each loop that there are to look at where they differ, numbered from 1; number 0 is the middle one.
inline constexpr int kIterations = 4;

// Number of the iteration that is at the beginning of all loops, where tiles at root are whole even of loops that are
// estimated to be shorter: what a block may come to hold of a larger output.
inline constexpr int kWholeTile = -1;

// Number of the iteration that is at borders of the Func at root (borders.hpp), and in the middle of all other loops:
// two bits a dimension, for its beginning and its end.
inline int iteration_at_borders(uint32_t ends) {
    return kIterations + static_cast<int>(ends);
}
inline uint32_t border_bit(int dimension, bool is_at_end) {
    return 1U << (2 * dimension + (is_at_end ? 1 : 0));
}

class Regions {
  public:
    Regions(const PipelineIndex& index, const LoopNest& nest, int iteration = 0)
        : index_(index), nest_(nest), iteration_(iteration), seed_(mix(index.id) + static_cast<uint64_t>(iteration)) {}

    // Region of `func` that the Stages inside `site` read in one iteration of it; empty where none does.
    const Box& required(int func, const Site& site);
    // The same, with what its update definitions need besides (Func::computed).
    const Box& computed(int func, const Site& site);
    // What one production of `func` computes: at its compute site, less what slides in from the last iteration.
    const Box& production(int func);
    // The loops of a Stage in one iteration of a site that is one of its own levels, encloses it, or is its
    // compute site.
    const Box& loops(int stage, const Site& site);
    // Where a Stage writes in one iteration of such a site; all that is computed where that is not told apart.
    Box written(int stage, const Site& site);
    // Iterations of `site` in a run of the whole pipeline (1 for the root).
    int64_t iterations(const Site& site);
    // Does a Stage run every tile of every task, where tasks and tiles cover more than there is? One at root that is
    // shifted inwards or rounded up does; what is guarded or computed inside others stops at the end.
    bool runs_whole_tiles(int stage) const;
    // Is `func`, which is computed, inside an iteration of `site`?
    bool is_inside(int func, const Site& site) const;
    // Adds, from the root to the innermost tile's body, every loop (not only every level) that encloses a Stage.
    void chain(int stage, std::vector<Site>& sites) const;
    // Hashes all that decides where in the loop nest the loops of `func` are, and which part of them runs.
    uint64_t surroundings(int func);

  private:
    enum class Table : uint8_t { Required, Computed, Production, Loops, RootLoops, Iterations };
    // More boxes than a search needs of one sub-nest and its siblings, and few enough to stay in a cache.
    static constexpr size_t kKept = 1024;

    Box loops_of(int stage, const Box& needed) const;
    Box loops_at(int stage, const Site& site);
    Box required_at(int func, const Site& site);
    void narrow(int stage, const Site& site, Box& box) const;
    // How far from the beginning of a loop the tile is that is looked at, of those of `size` that cover `extent`.
    int64_t offset_of(int stage, int loop, int64_t extent, int64_t size) const;
    int64_t turns_of(const Site& site) const;

    // Hashes all that decides which part of `func` is needed anywhere: what consumes it, and what consumes that.
    uint64_t readers(int func);
    uint64_t key(Table table, int id, const Site& site, uint64_t dependencies) const {
        return site_key(static_cast<int>(table), id, site) ^ combine(seed_, dependencies);
    }

    const PipelineIndex& index_;
    const LoopNest& nest_;
    const int iteration_;
    const uint64_t seed_;  // of all keys
    Borrowed<SiteTable<Box, kKept>> boxes_;
    Borrowed<SiteTable<int64_t, kKept>> iterations_;
    Borrowed<FuncTable> readers_;
};

// The region of the producer that `edge` reads while the consumer's loops cover `loops`.
Box read_box(const Edge& edge, const Box& loops);
// What of it the loads of one of its Accesses read; the region of all where that is not told apart.
Box read_box(const Edge& edge, const Access& access, const Box& loops);

}  // namespace metol
