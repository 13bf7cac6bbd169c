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

namespace metol {

// For each Func, in order of id: the Funcs of whose points it needs some that move apart, directly or through others.
// A way of reading that is the same in every iteration, all over the place or along a whole reduction, does not count.
std::vector<std::vector<int32_t>> find_crosswise(const PipelineDag& dag);

}  // namespace metol
