// The deliberately coarse hash of coarse-to-fine search (Adams et al. 2019, §3.2), and what each depth tells apart.
//
//   depth 0: for each Func, whether it is inlined, at root, or inside another
//   depth 1: and into which Func at root it is fused, and whether it slides
//   depth 2: and which Stage hosts it, and which loop is vectorized
//   depth 3: and at which level of the host
//   depth d > 3: and log2 of the trips of the d - 3 outermost levels of every Stage
#pragma once

#include <span>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol {

// The share of one Func, without the Func at root around it, at depth 0, 1, ...
void coarse_hashes(const FuncSchedule& schedule, std::span<uint64_t> hashes);

uint64_t structural_hash(const PipelineIndex& index, const LoopNest& nest, int depth);

// What hierarchical sampling tells apart (Anderson et al. 2021, §3.1): the same, but depth 4 has the iterations of the
// outermost level of every Stage alone, such as the blocks of a kernel, and what is above is one deeper. Sizes of each
// loop are nearly all of what is left to choose: beside depth 3, what tells them apart samples nothing.
uint64_t sampling_hash(const PipelineIndex& index, const LoopNest& nest, int depth);

}  // namespace metol
