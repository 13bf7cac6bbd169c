// In which order the loops of an unrolled tile nest, and how many registers what it loads takes in it.
//
// A value that several points of a tile share stays in a register from the first to the last of them. Which are first
// and last is a matter of order: of a tile of four by three sums that each multiply one of four values by one of three,
// row after row holds the four of a row and one of the three; column after column the three and one of the four. Where
// sums and values do not fit together, compilers store a sum and load it again at every step of the reduction, and each
// addition waits for that.
#pragma once

#include <vector>

#include "schedule/reads.hpp"

namespace metol::cpu {

struct TileOrder {
    std::vector<int> loops;  // pure, of which the tile has more than one step, innermost first
    double registers = 0;    // that loaded values take at once
};

// The order in which the fewest values are alive at once; of several, the first in that of the Stage, with its vectors
// innermost. `registers_per_vector` is what a vector of the Stage takes.
TileOrder tile_order(const Stage& stage, const StageNest& nest, const StageReads& reads, double registers_per_vector);

// [Stages] The loops of tiles, as lowering nests them, innermost first; none where they nest as all others do. Those of
// reductions are outside. What picks among values goes innermost: what it picks among is all computed for each of the
// other points, and takes registers until the last is stored.
std::vector<std::vector<int>> tile_orders(const PipelineIndex& index, const LoopNest& nest);

}  // namespace metol::cpu
