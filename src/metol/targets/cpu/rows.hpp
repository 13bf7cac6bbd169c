// Whether the rows of a computed Func are padded (Halide's `align_storage`): offered where SpaceOptions asks for it.
//
// Rows are runs along the dimension that is innermost in storage, and follow each other without a gap. Where their
// length is no multiple of a native vector, vectors that start with the first row are off in most others, and cross
// from one cache line into the next as often as a vector is long: such a vector costs two accesses. Padded rows all
// start as the first does, and take more memory. Until this is decided, rows are taken to need no padding.
#pragma once

#include "schedule/regions.hpp"
#include "targets/base.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// How many rows after one that starts on a native vector the next does: 1 where all of them do.
double row_period(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                  int func);

// Rows as they are, and padded; empty where padding would change nothing, or nothing that runs in vectors.
std::vector<DecisionFamily> align_families(const CpuParameters& machine, const PipelineIndex& index,
                                           const LoopNest& nest, int func);

Pruned apply_align(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                   LoopNest& child);

}  // namespace metol::cpu
