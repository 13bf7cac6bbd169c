// Which Funcs are read along and across: at places that lie the further apart, the further a loop has come.
//
// The region that a tile of f(x, y) + f(y, x) needs is one tile on the diagonal and two, or the hull around two, off
// it. Of such Funcs no single iteration of a loop tells what the others need (Adams et al. 2019, §7), so that several
// are looked at, and what lies apart is not put into one box. For all others one iteration away from the borders is
// like any other.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/dag.hpp"
#include "schedule/growth.hpp"

namespace metol {

// What a Func needs of another at places that move apart, be it by a few points, as f(t) - f(2): Halide knows no
// constant extent where such a loop turns outside.
struct MovingApart {
    int32_t producer;
    std::vector<DimSet> coordinates;  // [dimensions of the producer] of the Func, whose loops move them apart
};

// The coordinate that a loop of a Func's Stage moves: its dimension, or for reductions one from the end, which no
// dimension reaches but where there are more of both than loops in all.
int coordinate_of(const Stage& stage, size_t loop);

// Of each Func, in order of id, and directly or through others.
struct Movements {
    // The Funcs of whose points it needs some that move far apart. A way of reading that is the same in every
    // iteration, all over the place or along a whole reduction, does not count.
    std::vector<std::vector<int32_t>> crosswise;
    std::vector<std::vector<MovingApart>> apart;
};

Movements find_movements(const PipelineDag& dag);

}  // namespace metol
