// Evaluates the bounds of a PipelineDag on integer intervals: the part of bounds inference that the search repeats.
//
// Enters: BoundExprs and the intervals of the loops they range over. Leaves: the intervals of the regions. No Halide
// here: an affine bound costs one multiply-add a term, anything else runs a short postfix program. Source: Adams et al.
// 2019, §4.1 (regions from Halide's own symbolic interval arithmetic).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dag.hpp"

namespace metol {

// Deepest operand stack of any program; extraction refuses to emit a deeper one.
inline constexpr int kBoundStackDepth = 32;

int64_t run_bound_program(std::span<const BoundInstruction> program, std::span<const Interval> loops);

inline int64_t evaluate(const BoundExpr& bound, std::span<const Interval> loops) {
    if (!bound.is_affine()) {
        return run_bound_program(bound.program, loops);
    }
    int64_t value = bound.constant;
    for (const BoundTerm& term : bound.terms) {
        const Interval& loop = loops[static_cast<size_t>(term.loop)];
        value += term.coefficient * (term.is_max ? loop.max : loop.min);
    }
    return value;
}

// An empty region (a clamp or a predicate that nothing in the block meets) counts as one point: extents are always
// positive.
inline Interval evaluate(const BoundPair& bounds, std::span<const Interval> loops) {
    const int64_t min = evaluate(bounds.min, loops), max = evaluate(bounds.max, loops);
    return {min, max < min ? min : max};
}

// Writes one interval a dimension to `region`, which has the size of `bounds`.
inline void evaluate(std::span<const BoundPair> bounds, std::span<const Interval> loops, std::span<Interval> region) {
    for (size_t d = 0; d < bounds.size(); d++) {
        region[d] = evaluate(bounds[d], loops);
    }
}

// Grows `a` to hold `b`.
inline void include(Interval& a, const Interval& b) {
    a.min = a.min < b.min ? a.min : b.min;
    a.max = a.max > b.max ? a.max : b.max;
}

// The same of whole regions; `whole` may be empty yet.
void grow(std::vector<Interval>& whole, std::span<const Interval> region);

// Does one region lie in another? An empty one lies in all.
bool is_within(std::span<const Interval> part, std::span<const Interval> whole);

// The intervals of the loops of `stage` when `required` is the region required of its Func.
std::vector<Interval> loop_intervals(const Stage& stage, std::span<const Interval> required);

// Grows `required`, one region a Func (empty where nothing is required yet), by what the Stages of `func` read while
// they compute `computed` of it.
void grow_by_reads(const PipelineDag& dag, const Func& func, std::span<const Interval> computed,
                   std::vector<std::vector<Interval>>& required);

// The range of a loop that may turn anywhere; bounds stay far from overflowing.
constexpr Interval kAnywhere{-(int64_t{1} << 24), int64_t{1} << 24};

// Fills `root_region` and `fixed_dims` of every Func, consumers first, from the `estimate` of the outputs.
void propagate_root_regions(PipelineDag& dag);

}  // namespace metol
