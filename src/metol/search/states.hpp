// What Python holds of a Space: a batch of loop nests.
#pragma once

#include <memory>
#include <vector>

#include "search/space.hpp"

namespace metol {

// A batch of loop nests: an opaque, immutable handle. The Space it came from is kept alive with it.
struct States {
    std::shared_ptr<Space> space;
    std::vector<State> values;
};

}  // namespace metol
