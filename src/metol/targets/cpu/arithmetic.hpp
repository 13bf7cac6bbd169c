// Loops that pick among values, as c does of `select(c == 0, a, b)`: how much of the arithmetic of its points an
// unrolled tile does that has all of their turns. Each value is computed once, and nothing is left of the picking where
// Halide knows the place of each point as a number.
#pragma once

#include "schedule/reads.hpp"
#include "schedule/regions.hpp"
#include "targets/cpu/cpu_parameters.hpp"
#include "targets/cpu/loads.hpp"

namespace metol::cpu {

// Loops of a Stage that pick among its values and may be unrolled whole; none of reductions, whose steps the arithmetic
// of an unrolled tile is counted by otherwise.
DimSet picking_loops(const PipelineIndex& index, int stage);

// The same, and those that pick among the values of what is inlined into the Stage.
DimSet picking_loops(const PipelineIndex& index, const LoopNest& nest, int stage);

// [Stages] The same of each, as numbers.
std::vector<std::vector<int>> picking_loops(const PipelineIndex& index, const LoopNest& nest);

// Does a loop pick among the values of a Stage that is inlined into `reader`, which reduces nothing?
bool is_picked_among(const PipelineIndex& index, int reader, int stage);

// Loops of a Stage that a tile has all turns of, at places that Halide knows as numbers. Those of an output it knows in
// the version for their estimated ends.
DimSet known_loops(const PipelineIndex& index, int stage, const TileShape& tile, const Box& loops);

// The share that a tile computes of what its points would, one by one; 1 where no loop picks.
double own_share(const CpuParameters& machine, const PipelineIndex& index, int stage, const TileShape& tile,
                 DimSet known);

// The same of an inlined Func that is picked among, of `vectors` of the tile that read it; `known` are loops of what it
// is inlined into, and along dimensions that are `untold` the compiler takes no two points for the same.
double picked_share(const CpuParameters& machine, const PipelineIndex& index, const TileShape& tile, double vectors,
                    const InlinedUse& use, DimSet known, DimSet untold);

}  // namespace metol::cpu
