// Tile sizes: log-spaced, and coarser where there would be too many (Adams et al. 2019, §6.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace metol {

// 1, base, base^2, ... below `trips`, and `trips` itself.
std::vector<int32_t> log_spaced(int32_t trips, int32_t base);

// One list of sizes a loop; the base grows (2, 4, 8, ...) until the product of the lengths is at most `cap`.
std::vector<std::vector<int32_t>> tilings(std::span<const int32_t> trips, int64_t cap);

inline int32_t divide_up(int64_t a, int64_t b) {
    return static_cast<int32_t>((a + b - 1) / b);
}

int32_t power_of_two_at_least(int64_t value);

}  // namespace metol
