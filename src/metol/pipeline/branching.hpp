// How many registers an expression needs at least.
#pragma once

#include <cstdint>
#include <span>

#include "expr_graph.hpp"

namespace metol {

// The most of the Strahler numbers of some nodes, as trees: of a node whose arguments need so many registers each, the
// greediest is evaluated first, and each that follows while one more result waits (Sethi and Ullman 1970). Constants,
// loop variables and loads need one.
int32_t strahler_number(const ExprGraph& graph, std::span<const int32_t> nodes);

}  // namespace metol
