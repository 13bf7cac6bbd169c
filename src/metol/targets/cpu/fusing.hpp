// Stages that share their outer loops, as Halide's `compute_with` makes them: the last decisions of a search.
//
// A follower runs in the loops of its leader down to the body of one level, after it: what both read comes into a cache
// once, and one parallel loop is started instead of two. Halide 21 wants both Funcs computed in the same place, no path
// from one to the other, loops of the same names and types down to the shared body, and no specialization of the
// follower; extents, tails, vectors and what lies further in may differ. Offered at root alone: inside another Func
// what both read is in a cache already, and the guards of shared loops cost more than that brings (0.8 to 1.1 times as
// fast).
#pragma once

#include "schedule/regions.hpp"
#include "targets/base.hpp"

namespace metol::cpu {

// Stages that could lead `stage`, whatever becomes of either: of Funcs earlier in the order, with loops of the same
// names, that read something that `stage` reads, too, and neither depends on the other.
std::vector<int> possible_leaders(const PipelineIndex& index, int stage);

// Sharing the loops of each possible leader down to each of its levels, and not sharing any.
std::vector<DecisionFamily> fuse_families(const PipelineIndex& index, const LoopNest& nest, const DecisionStep& step);

// Where the outermost trips of the follower differ from those of its leader, it gets those of the leader, unless
// something is computed inside it.
Pruned apply_fuse(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child);

// Is a Func computed inside outputs that share all their loops, and does what it loads from an input, itself or through
// others, grow with it, unclamped? Where the outputs end at different places, what is inside is computed for the turns
// of each, or rounded up for them, and Halide 21 asks the input for more than is needed.
bool asks_for_more_in_joint(const PipelineIndex& index, const LoopNest& nest, int func);

// Do others share the loops of a Func?
bool is_leader(const PipelineIndex& index, const LoopNest& nest, int func);

// The Stages that share loops with `stage`, itself included, in the order in which they run in a shared body.
std::vector<int> sharing_stages(const PipelineIndex& index, const LoopNest& nest, std::span<const int32_t> group,
                                int stage);

}  // namespace metol::cpu
