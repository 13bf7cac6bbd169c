#include "targets/gpu/transactions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace metol::gpu {

namespace {

constexpr int64_t kWordBytes = 4;
constexpr double kRounding = 1e-6;
// Far enough from all other lanes to share nothing with them.
constexpr int64_t kApartBytes = int64_t{1} << 40;

// Keeps one of each.
void make_distinct(std::vector<int64_t>& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Where a lane of a warp is in its block, by dimension.
std::array<int64_t, kBlockDimensions> place_of(const Lanes& lanes, int64_t warp, int32_t lane) {
    const int64_t thread = warp * lanes.warp_threads + lane;
    return {thread % lanes.block[0], thread / lanes.block[0] % lanes.block[1],
            thread / lanes.block[0] / lanes.block[1]};
}

bool is_active(const Lanes& lanes, const std::array<int64_t, kBlockDimensions>& place) {
    return place[0] < lanes.active[0] && place[1] < lanes.active[1] && place[2] < lanes.active[2];
}

// Where a thread goes, in bytes from some start that is aligned to anything.
int64_t address_of(const Lanes& lanes, const LaneStrides& strides, const std::array<int64_t, kBlockDimensions>& place) {
    double address = 0;
    std::array<bool, kBlockDimensions> is_unknown{};
    int64_t alike = std::numeric_limits<int64_t>::max();
    for (const LaneStride& stride : strides) {
        double coordinate = 0;
        for (size_t k = 0; k < kBlockDimensions; k++) {
            const bool is_known = !std::isnan(stride.steps[k]);
            coordinate += is_known ? static_cast<double>(place[k]) * stride.steps[k] : 0;
            is_unknown[k] = is_unknown[k] || !is_known;
            alike = is_known ? alike : std::min<int64_t>(alike, stride.alike_lanes);
        }
        // Thirds add up to a little less than a whole.
        address += std::floor(coordinate + kRounding) * stride.bytes;
    }
    auto bytes = static_cast<int64_t>(address);
    int64_t apart = kApartBytes;
    for (size_t k = 0; k < kBlockDimensions; k++) {
        bytes += is_unknown[k] ? place[k] / (k == 0 ? alike : 1) * apart : 0;
        apart *= lanes.block[k];
    }
    return bytes;
}

int32_t active_lanes(const Lanes& lanes, int64_t warp) {
    int32_t count = 0;
    for (int32_t lane = 0; lane < lanes.warp_threads; lane++) {
        count += is_active(lanes, place_of(lanes, warp, lane)) ? 1 : 0;
    }
    return count;
}

// Where the active lanes of a warp go, each place once.
std::vector<int64_t> addresses(const Lanes& lanes, const LaneStrides& strides, int64_t warp) {
    std::vector<int64_t> found;
    for (int32_t lane = 0; lane < lanes.warp_threads; lane++) {
        const auto place = place_of(lanes, warp, lane);
        if (!is_active(lanes, place)) {
            continue;
        }
        found.push_back(address_of(lanes, strides, place));
    }
    make_distinct(found);
    return found;
}

// The numbers of all pieces of `unit` bytes that the elements at these addresses lie in.
std::vector<int64_t> pieces_of(const std::vector<int64_t>& addresses, int element_bytes, int64_t unit) {
    std::vector<int64_t> pieces;
    for (int64_t address : addresses) {
        const auto piece_of = [&](int64_t byte) { return byte >= 0 ? byte / unit : -((-byte + unit - 1) / unit); };
        for (int64_t piece = piece_of(address); piece <= piece_of(address + element_bytes - 1); piece++) {
            pieces.push_back(piece);
        }
    }
    make_distinct(pieces);
    return pieces;
}

// Adds up what `count_of(addresses)` says of each warp, all of which take as long as `least` of it.
template <typename CountOf>
Transactions of_block(const Lanes& lanes, const LaneStrides& strides, int element_bytes, double least,
                      const CountOf& count_of) {
    const ActiveWarps warps = active_warps(lanes);
    Transactions total;
    const auto add = [&](int64_t warp, int64_t times) {
        const std::vector<int64_t> places = addresses(lanes, strides, warp);
        const double count = count_of(places);
        total.count += static_cast<double>(times) * count;
        total.waits += static_cast<double>(times) * std::max(0.0, least - count);
        total.bytes += static_cast<double>(times) * static_cast<double>(places.size()) * element_bytes;
    };
    const bool has_tail = warps.count > 1 && active_lanes(lanes, warps.last) != active_lanes(lanes, 0);
    add(0, warps.count - (has_tail ? 1 : 0));
    if (has_tail) {
        add(warps.last, 1);
    }
    return total;
}

}  // namespace

ActiveWarps active_warps(const Lanes& lanes) {
    ActiveWarps warps;
    int64_t last = -1;
    for (int64_t z = 0; z < lanes.active[2]; z++) {
        for (int64_t y = 0; y < lanes.active[1]; y++) {
            const int64_t first = static_cast<int64_t>(lanes.block[0]) * (y + lanes.block[1] * z);
            const int64_t begin = std::max(last + 1, first / lanes.warp_threads);
            const int64_t end = (first + lanes.active[0] - 1) / lanes.warp_threads;
            warps.count += std::max<int64_t>(0, end - begin + 1);
            last = std::max(last, end);
        }
    }
    warps.last = last;
    return warps;
}

Transactions sectors_of_access(const GpuParameters& machine, const Lanes& lanes, const LaneStrides& strides,
                               int element_bytes) {
    return of_block(lanes, strides, element_bytes, machine.sectors_per_turn, [&](const std::vector<int64_t>& places) {
        return static_cast<double>(pieces_of(places, element_bytes, machine.sector_bytes).size());
    });
}

Transactions bank_turns_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int banks) {
    return of_block(lanes, strides, element_bytes, 1, [&](const std::vector<int64_t>& places) {
        std::vector<int32_t> turns(static_cast<size_t>(banks), 0);
        for (int64_t word : pieces_of(places, element_bytes, kWordBytes)) {
            turns[static_cast<size_t>(((word % banks) + banks) % banks)]++;
        }
        return static_cast<double>(*std::ranges::max_element(turns));
    });
}

}  // namespace metol::gpu
