// What turns the cost terms of a row into seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost/network.hpp"

namespace metol {

// Coefficients a [stages, terms] matrix fixes, or the analytical ones of the target where it is empty. `factors`, where
// there are any, one a term, multiply the analytical ones; a network corrects them.
struct CostModelWeights {
    uint64_t id = 0;
    std::vector<double> coefficients;
    std::vector<double> factors;
    std::shared_ptr<const Network> network;

    // Do coefficients that the analytical model has at zero stay there?
    bool is_analytical() const { return coefficients.empty() && network == nullptr; }
};

}  // namespace metol
