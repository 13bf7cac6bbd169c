// Which loops of an RDom are as free as those over points: in parallel, in vectors, in tiles, in any order.
//
// f(r.x, r.y) = ... writes each point once. Halide proves that no turn reads what another writes, and lets such loops
// be anything; what is found here is which dimension of the Func each of them walks, as a pure loop does.
//
// Enters: a Stage with its stores, and its loops with their bounds. Leaves: `is_reduction` and `pure_dim` of the loops.
#pragma once

#include "dag.hpp"

namespace metol {

// Not where a `where` says which turns are left out: Halide asks for whole parts of such a loop if it is split. And not
// a loop of few turns: it has nothing to be tiled, and unrolled or around the others it is as a reduction is.
void free_loops(Stage& stage);

}  // namespace metol
