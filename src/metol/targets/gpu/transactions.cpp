#include "targets/gpu/transactions.hpp"

#include <algorithm>
#include <cmath>

namespace metol::gpu {

namespace {

constexpr int64_t kWordBytes = 4;
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

int32_t active_lanes(const Lanes& lanes, int64_t warp) {
    int32_t count = 0;
    for (int32_t lane = 0; lane < lanes.warp_threads; lane++) {
        count += is_active(lanes, place_of(lanes, warp, lane)) ? 1 : 0;
    }
    return count;
}

// Where the active lanes of a warp go, each place once, in bytes from some start that is aligned to anything.
std::vector<int64_t> addresses(const Lanes& lanes, const LaneStrides& strides, int64_t warp) {
    std::vector<int64_t> found;
    for (int32_t lane = 0; lane < lanes.warp_threads; lane++) {
        const auto place = place_of(lanes, warp, lane);
        if (!is_active(lanes, place)) {
            continue;
        }
        int64_t address = 0;
        int64_t apart = kApartBytes;
        for (size_t d = 0; d < kBlockDimensions; d++) {
            const auto steps = static_cast<double>(place[d]);
            address += std::isnan(strides[d]) ? place[d] * apart : static_cast<int64_t>(std::floor(steps * strides[d]));
            apart *= lanes.block[d];
        }
        found.push_back(address);
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

// Adds up what `count_of(addresses)` says of each warp.
template <typename CountOf>
Transactions of_block(const Lanes& lanes, const LaneStrides& strides, int element_bytes, const CountOf& count_of) {
    const ActiveWarps warps = active_warps(lanes);
    Transactions total;
    const auto add = [&](int64_t warp, int64_t times) {
        const std::vector<int64_t> places = addresses(lanes, strides, warp);
        total.count += static_cast<double>(times) * count_of(places);
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

Transactions sectors_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int sector_bytes) {
    return of_block(lanes, strides, element_bytes, [&](const std::vector<int64_t>& places) {
        return static_cast<double>(pieces_of(places, element_bytes, sector_bytes).size());
    });
}

Transactions bank_turns_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int banks) {
    return of_block(lanes, strides, element_bytes, [&](const std::vector<int64_t>& places) {
        std::vector<int32_t> turns(static_cast<size_t>(banks), 0);
        for (int64_t word : pieces_of(places, element_bytes, kWordBytes)) {
            turns[static_cast<size_t>(((word % banks) + banks) % banks)]++;
        }
        return static_cast<double>(*std::ranges::max_element(turns));
    });
}

}  // namespace metol::gpu
