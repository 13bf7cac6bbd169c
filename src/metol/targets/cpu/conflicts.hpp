// Lines that evict each other from a cache because few of its sets are theirs.
#pragma once

#include <span>

#include "schedule/regions.hpp"

namespace metol::cpu {

// Memory that a Func lies in: its extents, from the dimension whose neighbours are neighbours there.
struct StorageShape {
    std::span<const Interval> whole;
    int innermost;
    double bytes_per_point;
};

// The bytes of a cache of the core that a part of a Func leaves to nothing else, as a cache of as many ways as it needs
// of its fullest set has: more than it holds where its rows begin a multiple of many lines apart. 0 where each line has
// a set of its own.
double conflicting_bytes(const StorageShape& shape, const Box& part);

}  // namespace metol::cpu
