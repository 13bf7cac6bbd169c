// What the search asks of a PipelineDag again and again, precomputed: who consumes whom, in which order Funcs are
// scheduled, which may be inlined.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/dag.hpp"
#include "schedule/borders.hpp"
#include "schedule/crosswise.hpp"
#include "schedule/growth.hpp"
#include "schedule/scans.hpp"

namespace metol {

// A Stage that reads a Func, and which of the Stage's edges does so.
struct Consumer {
    int16_t stage;
    int16_t edge;
};

// The innermost reduction loop of a Stage that has one.
size_t innermost_reduction(const Stage& stage);

// Can an instruction add up so many products of a sum for each lane? Of words two, of bytes two pairs.
bool may_add_products(const Stage& stage, int64_t steps);

struct PipelineIndex {
    // `closed`: Funcs whose loops are not known; `at_root`: Funcs that nothing makes inline but that Halide compiles
    // them no other way.
    explicit PipelineIndex(std::shared_ptr<const PipelineDag> pipeline, std::span<const int32_t> closed = {},
                           bool are_sizes_fixed = false, std::span<const int32_t> at_root = {});

    std::shared_ptr<const PipelineDag> dag;
    uint64_t id;                                   // of this object, in this process: no other has it, ever
    bool has_fixed_sizes;                          // outputs are always as large as estimated, and Halide is told so
    std::vector<std::vector<Consumer>> consumers;  // [Funcs]
    std::vector<int32_t> order;                    // Func ids, outputs first: every consumer before its producers
    std::vector<uint8_t> must_inline;              // [Funcs] a single load, or asked for points without bounds
    std::vector<uint8_t> is_closed;                // [Funcs] nothing may be computed in its loops
    std::vector<uint8_t> is_at_root;               // [Funcs] is to be computed at root
    std::vector<uint8_t> has_identity_computed;    // [Funcs] the region computed is the region required
    std::vector<int64_t> minimum_points;           // [Stages] points that must be computed once, at root
    std::vector<int64_t> root_points;              // [Funcs] points of the region required at root
    std::vector<std::optional<Scan>> scans;        // [Stages]
    // [Stages] reads an output whose place Halide knows. It takes a buffer that a pipeline computes for one that it
    // has allocated itself, so vectors of it are loaded as if they were aligned, and fault on the user's memory.
    std::vector<uint8_t> reads_as_aligned;
    std::vector<std::vector<int32_t>> crosswise;         // [Funcs] what each needs at places that move apart
    std::vector<uint8_t> is_read_crosswise;              // [Funcs] some Func needs it so
    std::vector<std::vector<MovingApart>> moving_apart;  // [Funcs]
    std::vector<std::vector<Border>> borders;            // [Funcs] where each needs far more than in its middle
    // [Funcs] some Func, or one that reads that, reads it at a fraction of its own coordinates, or nobody knows where.
    std::vector<uint8_t> is_read_by_fractions;
    // [Funcs] of partial sums of narrow products, each of a few that follow each other: the dimension along which these
    // sums do; -1 of others.
    std::vector<int32_t> lane_dims;
    Growth growth;

    const Func& func(int id) const { return dag->funcs[static_cast<size_t>(id)]; }
    const Stage& stage(int id) const { return dag->stages[static_cast<size_t>(id)]; }
    // Of which of its ends a border along a dimension of a Func is to be looked at: the first, unless it has none
    // there.
    bool is_border_at_end(int func, int dimension) const;
    // Is far more of a producer needed at a border of a Func?
    bool has_border(int func, int producer) const;
    int func_count() const { return static_cast<int>(dag->funcs.size()); }
    int stage_count() const { return static_cast<int>(dag->stages.size()); }
    // Loops of a Stage from outermost to innermost, as its levels nest them, with `vector_loop` innermost of the pure.
    const std::vector<int>& nest_order(int stage, int vector_loop) const {
        return nest_orders[static_cast<size_t>(stage)][static_cast<size_t>(vector_loop + 1)];
    }

    std::vector<std::vector<std::vector<int>>> nest_orders;  // [Stages][vector loop + 1]

  private:
    void find_aligned_reads();
    void find_fractions();
    void find_lane_dims();
};

}  // namespace metol
