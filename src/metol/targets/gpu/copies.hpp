// Copies of what the Stages of a kernel read, as Halide's `in` makes them: a block keeps its own in shared memory,
// which its threads load together; a thread in registers.
//
// What a block reads along a reduction loop mostly is too much for shared memory. The decision where a copy goes may
// cut such a loop of the Stage that reads it into chunks, which the block goes through one after the other: the copy
// holds what one chunk reads.
//
//     for blocks: for threads: for k: sums += f(k)
//     --> for blocks: for chunks of k: { for threads: copy = f; for threads: for k of the chunk: sums += copy(k) }
#pragma once

#include "targets/base.hpp"
#include "targets/gpu/tiling.hpp"

namespace metol::gpu {

// Copies in the blocks of a Stage of which a reduction loop is cut: At with `is_split`, and as `trips` the iterations
// of a chunk.
std::vector<DecisionFamily> chunk_families(const PipelineIndex& index, const LoopNest& nest, int func);

// Is this one of them?
bool is_chunk_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision);

// Cuts the loop that such a decision names.
void cut_into_chunks(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child);

// The tile of a copy in blocks until the search decides: neighbouring threads load neighbours, and a block gets no more
// threads than it has for what reads the copy, as far as the points of a thread allow.
Tile default_copy_tile(const PipelineIndex& index, const LoopNest& nest, const Stage& stage, const Box& loops,
                       const Site& site);

// Are the values of a copy, which has a place, loaded often enough: by several threads of a block, or by one thread?
Pruned check_copy(const PipelineIndex& index, const LoopNest& nest, int func);

}  // namespace metol::gpu
