// Which Funcs may be inlined without asking more of an input than the algorithm does.
//
// Of a Func that is computed, Halide computes what `select(c < 3, f(x, c), 1)` needs where the condition holds. Its
// checks of inputs do not look at conditions. So an image that `f` reads at `c` must have planes that nobody uses as
// soon as `f` is inlined there.
//
// Enters: a DAG, and what its Stages need by their conditions. Leaves: `is_inlinable` of every Func.
#pragma once

#include <cstdint>
#include <vector>

#include "dag.hpp"
#include "halide_reader.hpp"

namespace metol {

// What a Stage with conditions needs of a producer.
struct ConditionalRead {
    int32_t stage = -1;
    int32_t producer = -1;
    std::vector<BoundPair> bounds;  // [dimensions of the producer], over the loops of the Stage
};

// Those of a Stage; `reader` is of this Stage, and `exprs` are what it evaluates where `predicate` holds. None where a
// bound cannot be told.
std::vector<ConditionalRead> conditional_reads(int32_t stage, const std::vector<Halide::Expr>& exprs,
                                               const Halide::Expr& predicate, RegionReader& reader);

// Goes by the estimates of the outputs: what three channels are meant for need not work for five. A Func that must be
// inlined, may.
void mark_inlinable(PipelineDag& dag, const std::vector<ConditionalRead>& reads);

}  // namespace metol
