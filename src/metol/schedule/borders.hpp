// At which borders of a Func far more of another is needed than in its middle: where reads fold back.
//
// Of an image that is mirrored or repeated beyond its edge, Halide computes all between both ends for a tile that
// reaches over one. The middle iteration of a loop tells nothing of that (Adams et al. 2019, §7): mirrored by four
// rows, the first and the last four of 170 rows compute ten times as much as all others together.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/dag.hpp"

namespace metol {

// Two ends of a dimension of a Func, and how many places from there on need so much of a producer; none at one of them
// at most.
struct Border {
    int32_t producer = 0;
    int8_t dimension = 0;
    int64_t first = 0;
    int64_t last = 0;
};

// For each Func, in order of id: its borders, for all that it needs, directly or through others.
std::vector<std::vector<Border>> find_borders(const PipelineDag& dag);

}  // namespace metol
