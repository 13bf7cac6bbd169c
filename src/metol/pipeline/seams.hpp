// Where along its loops the code of a Stage becomes another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expr_graph.hpp"

namespace metol {

// Values of each loop at which a comparison or a clamp of it turns, [loops], in order and each once: the first value
// after it has turned. x < 5, min(x, 4) and max(x, 5) turn at 5.
std::vector<std::vector<int64_t>> find_seams(const ExprGraph& graph, size_t loops);

}  // namespace metol
