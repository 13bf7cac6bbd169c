// What a Stage that stands for several outputs evaluates.
//
// Enters: the Stages of the outputs, and one of all their values. Leaves: that one with the work of each. In Halide
// they stay apart, each with coordinates of its own: no compiler shares what two of them evaluate or load. No Halide
// here.
#pragma once

#include <span>

#include "dag.hpp"

namespace metol {

// Gives `whole`, which was read as one Func, the operations and the loads of all `parts`.
void add_up(std::span<const Stage> parts, Stage& whole);

}  // namespace metol
