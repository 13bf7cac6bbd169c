#include "schedule/tilings.hpp"

namespace metol {

std::vector<int32_t> log_spaced(int32_t trips, int32_t base) {
    std::vector<int32_t> sizes;
    for (int64_t size = 1; size < trips; size *= base) {
        sizes.push_back(static_cast<int32_t>(size));
    }
    sizes.push_back(trips);
    return sizes;
}

std::vector<std::vector<int32_t>> tilings(std::span<const int32_t> trips, int64_t cap) {
    // Past base 64 every loop offers only 1, 64 and all of it; coarser than that says nothing.
    constexpr int32_t kCoarsestBase = 64;
    std::vector<std::vector<int32_t>> lists;
    for (int32_t base = 2; base <= kCoarsestBase; base *= 2) {
        lists.clear();
        int64_t product = 1;
        for (int32_t count : trips) {
            lists.push_back(log_spaced(count, base));
            product *= static_cast<int64_t>(lists.back().size());
        }
        if (product <= cap) {
            break;
        }
    }
    return lists;
}

int32_t power_of_two_at_least(int64_t value) {
    constexpr int32_t kLargest = 1 << 30;  // extents of Halide are below 2^31
    int32_t power = 1;
    while (power < value && power < kLargest) {
        power *= 2;
    }
    return power;
}

}  // namespace metol
