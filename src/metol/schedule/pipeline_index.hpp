// What the search asks of a PipelineDag again and again, precomputed: who consumes whom, in which order Funcs are
// scheduled, which may be inlined.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "pipeline/dag.hpp"

namespace metol {

// A Stage that reads a Func, and which of the Stage's edges does so.
struct Consumer {
    int16_t stage;
    int16_t edge;
};

struct PipelineIndex {
    // `closed`: Funcs whose loops are not known.
    explicit PipelineIndex(std::shared_ptr<const PipelineDag> pipeline, std::span<const int32_t> closed = {});

    std::shared_ptr<const PipelineDag> dag;
    std::vector<std::vector<Consumer>> consumers;  // [Funcs]
    std::vector<int32_t> order;                    // Func ids, outputs first: every consumer before its producers
    std::vector<uint8_t> is_inlinable;             // [Funcs] pure, internal, no updates, not extern
    std::vector<uint8_t> must_inline;              // [Funcs] a single load: computing it apart only copies
    std::vector<uint8_t> is_closed;                // [Funcs] nothing may be computed in its loops
    std::vector<uint8_t> has_identity_computed;    // [Funcs] the region computed is the region required
    std::vector<int64_t> minimum_points;           // [Stages] points that must be computed once, at root

    const Func& func(int id) const { return dag->funcs[static_cast<size_t>(id)]; }
    const Stage& stage(int id) const { return dag->stages[static_cast<size_t>(id)]; }
    int func_count() const { return static_cast<int>(dag->funcs.size()); }
    int stage_count() const { return static_cast<int>(dag->stages.size()); }
    // Loops of a Stage from outermost to innermost, as its levels nest them, with `vector_loop` innermost of the pure.
    std::vector<int> nest_order(int stage, int vector_loop) const;
};

}  // namespace metol
