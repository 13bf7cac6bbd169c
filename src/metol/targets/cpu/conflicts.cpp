#include "targets/cpu/conflicts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

namespace {

// A page of 4 KiB is a way of the first-level data cache of every x86 core, so that it need not wait for addresses to
// be translated. The second level has many such pages in a way, and which one a page is in is chance: what crowds in a
// few of the 64 lines of all pages has that share of it, too.
constexpr int64_t kSets = 64;

}  // namespace

double conflicting_bytes(const StorageShape& shape, const Box& part) {
    if (part.is_empty || part.dimensions < 2) {
        return 0;
    }
    double run = static_cast<double>(part[shape.innermost].extent()) * shape.bytes_per_point;
    double stride =
        static_cast<double>(shape.whole[static_cast<size_t>(shape.innermost)].extent()) * shape.bytes_per_point;
    double rows = 1;
    double starts = 1;  // sets that rows begin in
    for (int dim = 0; dim < part.dimensions; dim++) {
        if (dim == shape.innermost) {
            continue;
        }
        const auto count = static_cast<double>(part[dim].extent());
        if (rows == 1 && run >= stride) {
            run += stride * (count - 1);
        } else if (count > 1) {
            const bool is_whole = std::fmod(stride, kLineBytes) == 0;
            const int64_t lines = is_whole ? static_cast<int64_t>(stride / kLineBytes) : 1;
            rows *= count;
            starts *= std::min(count, static_cast<double>(kSets / std::gcd(lines, kSets)));
        }
        stride *= static_cast<double>(shape.whole[static_cast<size_t>(dim)].extent());
    }
    const double lines = std::ceil(run / kLineBytes);
    const double sets = std::min(static_cast<double>(kSets), lines * starts);
    return (lines * rows / sets - 1) * static_cast<double>(kSets) * kLineBytes;
}

}  // namespace metol::cpu
