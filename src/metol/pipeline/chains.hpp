// How long a step of an update takes at least: from what it loads of its own Func to what it stores there.
#pragma once

#include <cstdint>
#include <span>

#include "expr_graph.hpp"

namespace metol {

struct ChainOfSteps {
    // That one step of an update waits for the one before, where it loads what that has stored: of the longest chain of
    // operations between them. Where one value of a Tuple hands over to another, as in (b, a + b), it is the mean of
    // the steps until it comes back. 0 where nothing that is stored depends on what is loaded.
    float cycles = 0;
    float operations = 0;  // of all chains; each sum is one
};

// `values` are the nodes that an update of `func` stores, one a tuple element.
ChainOfSteps chain_of_steps(const ExprGraph& graph, std::span<const int32_t> values, int32_t func);

}  // namespace metol
