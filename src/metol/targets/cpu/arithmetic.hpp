// What moves with some loops of a Stage alone: how much of the arithmetic of its points an unrolled tile does. Each
// value is computed once for all points that share it: of exp(-y) and the places y / 2 along x, and of values that c
// picks among in `select(c == 0, a, b)`. Nothing is left of the picking where Halide knows the place of each point as a
// number.
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

// The innermost loop around a tile: what moves neither with it nor with the loops inside is computed before its turns.
struct Repeats {
    int loop = -1;  // -1: there is none
    double turns = 1;
    DimSet inside;
};

// The share that a tile computes of what its points would, one by one.
double own_share(const CpuParameters& machine, int stage, const TileShape& tile, DimSet known,
                 const Repeats& repeats = {});

// The same of an inlined Func, of `vectors` of the tile that read it; `known` are loops of what it is inlined into, and
// along dimensions that are `untold` the compiler takes no two points for the same.
double inlined_share(const CpuParameters& machine, const PipelineIndex& index, const TileShape& tile, double vectors,
                     const InlinedUse& use, DimSet known, DimSet untold);

}  // namespace metol::cpu
