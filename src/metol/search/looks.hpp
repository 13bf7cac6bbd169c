// Which iterations of a sub-nest its rows are the average of, and how much each counts.
//
// The middle one alone, unless others need more: where a Func is read along and across (schedule/crosswise.hpp),
// several that count alike; where far more is needed at borders (schedule/borders.hpp), those at each of them, for as
// many of the iterations that are so.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "targets/base.hpp"

namespace metol {

struct Look {
    int iteration = 0;           // as Regions numbers them
    std::vector<float> weights;  // [stages], which add up to 1 over all looks
};

// Empty if the middle iteration tells all.
std::vector<Look> looks_at(const SubNest& sub_nest, std::span<const int32_t> stages);

}  // namespace metol
