// Which Funcs may be inlined without asking more of an input than the algorithm does.
//
// Of a Func that is computed, Halide computes what `select(c < 3, f(x, c), 1)` needs where the condition holds. Its
// checks of inputs do not look at conditions. So an image that `f` reads at `c` must have planes that nobody uses as
// soon as `f` is inlined there.
//
// And of a Tuple that is inlined nothing is left but the values that are read. What only the others call is read by
// nobody then: Halide 21 follows a null pointer where such a Func reads one that is computed for somebody else.
//
// Enters: a DAG, what its Stages need by their conditions, and its Tuples. Leaves: `is_inlinable` of every Func.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
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

// The Funcs that a Tuple calls for the values that somebody reads, and for the others, by names.
struct ValueCalls {
    std::set<std::string> used;
    std::set<std::string> idle;
};

// The Tuples of which some values are idle and call something, by name; `funcs` are all there are.
std::map<std::string, ValueCalls> find_idle_calls(const std::map<std::string, hi::Function>& funcs);

// Goes by the estimates of the outputs: what three channels are meant for need not work for five. A Func that must be
// inlined, may.
void mark_inlinable(PipelineDag& dag, const std::vector<ConditionalRead>& reads,
                    const std::map<std::string, ValueCalls>& idle);

}  // namespace metol
