// What feature rows of several sub-nests make together; group_featurizer.hpp makes the rows themselves.
#pragma once

#include <span>

#include "targets/base.hpp"

namespace metol::cpu {

// Adds `part`, the row of an inlined Func in one place, to its row: counts add up, sizes are the largest. Lanes are
// what counts of vectors stand for, so vectors of different widths are added as lanes.
void add_inlined_row(std::span<const float> part, std::span<float> row);

}  // namespace metol::cpu
