#include "targets/gpu/transactions.hpp"

#include <algorithm>
#include <cmath>

namespace metol::gpu {

namespace {

constexpr int64_t kWordBytes = 4;
// Far enough from all other lanes to share nothing with them.
constexpr int64_t kApartBytes = int64_t{1} << 40;

// Where the active lanes of the first warp go, in bytes from some start that is aligned to anything.
std::vector<int64_t> addresses(const Lanes& lanes, const LaneStrides& strides) {
    std::vector<int64_t> found;
    for (int32_t lane = 0; lane < lanes.warp_threads; lane++) {
        int32_t left = lane;
        int64_t address = 0;
        bool is_active = true;
        for (size_t d = 0; d < kBlockDimensions; d++) {
            const int32_t at = d + 1 < kBlockDimensions ? left % lanes.block[d] : left;
            left = d + 1 < kBlockDimensions ? left / lanes.block[d] : 0;
            is_active = is_active && at < lanes.active[d];
            address += std::isnan(strides[d]) ? at * kApartBytes : static_cast<int64_t>(std::floor(at * strides[d]));
        }
        if (is_active) {
            found.push_back(address);
        }
    }
    return found;
}

// Keeps one of each.
void make_distinct(std::vector<int64_t>& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
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

}  // namespace

int64_t active_warps(const Lanes& lanes) {
    int64_t warps = 0;
    int64_t last = -1;
    for (int64_t z = 0; z < lanes.active[2]; z++) {
        for (int64_t y = 0; y < lanes.active[1]; y++) {
            const int64_t first = static_cast<int64_t>(lanes.block[0]) * (y + lanes.block[1] * z);
            const int64_t begin = std::max(last + 1, first / lanes.warp_threads);
            const int64_t end = (first + lanes.active[0] - 1) / lanes.warp_threads;
            warps += std::max<int64_t>(0, end - begin + 1);
            last = std::max(last, end);
        }
    }
    return warps;
}

double sectors_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int sector_bytes) {
    return static_cast<double>(pieces_of(addresses(lanes, strides), element_bytes, sector_bytes).size());
}

double bank_turns_of_access(const Lanes& lanes, const LaneStrides& strides, int element_bytes, int banks) {
    std::vector<int32_t> turns(static_cast<size_t>(banks), 0);
    for (int64_t word : pieces_of(addresses(lanes, strides), element_bytes, kWordBytes)) {
        turns[static_cast<size_t>(((word % banks) + banks) % banks)]++;
    }
    return *std::ranges::max_element(turns);
}

}  // namespace metol::gpu
