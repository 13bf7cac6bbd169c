#include "schedule/borders.hpp"

#include <algorithm>
#include <ranges>

#include "pipeline/bounds.hpp"

namespace metol {

namespace {

// What is needed at a border is far more if it is so many times what is needed in the middle, and so many points.
constexpr int64_t kFarMoreTimes = 4;
constexpr int64_t kFarMorePoints = 64;

// [Funcs], empty where nothing is needed
using Needed = std::vector<std::vector<Interval>>;

// Can a region fold back? Sums, products, and clamps keep the order of places.
bool can_fold(const BoundExpr& bound) {
    return !bound.is_affine() && std::ranges::any_of(bound.program, [](const BoundInstruction& instruction) {
        return instruction.op == BoundOp::Mod || instruction.op == BoundOp::Select;
    });
}

bool reads_folded(const PipelineDag& dag, const Func& func) {
    return std::ranges::any_of(func.stages, [&](int32_t stage) {
        return std::ranges::any_of(dag.stages[static_cast<size_t>(stage)].edges, [](const Edge& edge) {
            return std::ranges::any_of(edge.bounds,
                                       [](const BoundPair& pair) { return can_fold(pair.min) || can_fold(pair.max); });
        });
    });
}

// The Funcs of which some points are needed through reads that can fold back, [Funcs].
std::vector<uint8_t> find_folding(const PipelineDag& dag) {
    std::vector<uint8_t> folds(dag.funcs.size());
    for (size_t f = 0; f < folds.size(); f++) {
        const Func& func = dag.funcs[f];
        folds[f] = reads_folded(dag, func);
        for (const int32_t stage : func.stages) {
            for (const Edge& edge : dag.stages[static_cast<size_t>(stage)].edges) {
                folds[f] = folds[f] || folds[static_cast<size_t>(edge.producer)];
            }
        }
    }
    return folds;
}

// Looks at a Func along one of its dimensions.
class Side {
  public:
    Side(const PipelineDag& dag, size_t host, size_t dimension)
        : dag_(dag), host_(host), dimension_(dimension), side_(dag.funcs[host].root_region[dimension]) {
        middle_ = needed(side_.min + (side_.extent() - 1) / 2);
    }

    void find(std::vector<Border>& borders) const {
        const Needed first = needed(side_.min), last = needed(side_.max);
        for (size_t f = 0; f < host_; f++) {
            Border border;
            border.producer = static_cast<int32_t>(f);
            border.dimension = static_cast<int8_t>(dimension_);
            border.first = is_far_more(first, f) ? depth(f, side_.min, 1) : 0;
            border.last = is_far_more(last, f) ? depth(f, side_.max, -1) : 0;
            if (border.first + border.last > 0) {
                borders.push_back(border);
            }
        }
    }

  private:
    // What is needed of all for one place.
    Needed needed(int64_t place) const {
        Needed regions(dag_.funcs.size());
        std::vector<Interval> slice = dag_.funcs[host_].root_region;
        slice[dimension_] = {place, place};
        grow_by_reads(dag_, dag_.funcs[host_], slice, regions);
        for (size_t f = host_; f-- > 0;) {
            if (!regions[f].empty()) {
                grow_by_reads(dag_, dag_.funcs[f], regions[f], regions);
            }
        }
        return regions;
    }

    bool is_far_more(const Needed& regions, size_t func) const {
        for (size_t d = 0; d < std::min(regions[func].size(), middle_[func].size()); d++) {
            const int64_t here = regions[func][d].extent(), there = middle_[func][d].extent();
            if (here >= kFarMoreTimes * there && here >= there + kFarMorePoints) {
                return true;
            }
        }
        return false;
    }

    // How many places from an end on, up to the middle, need so much: by halves, for these are next to each other.
    int64_t depth(size_t func, int64_t end, int64_t step) const {
        int64_t far = 0, near = std::max<int64_t>(1, side_.extent() / 2);
        while (near - far > 1) {
            const int64_t between = far + (near - far) / 2;
            (is_far_more(needed(end + step * between), func) ? far : near) = between;
        }
        return near;
    }

    const PipelineDag& dag_;
    const size_t host_;
    const size_t dimension_;
    const Interval side_;
    Needed middle_;
};

}  // namespace

std::vector<std::vector<Border>> find_borders(const PipelineDag& dag) {
    std::vector<std::vector<Border>> borders(dag.funcs.size());
    const std::vector<uint8_t> folds = find_folding(dag);
    for (size_t host = 0; host < dag.funcs.size(); host++) {
        for (size_t d = 0; d < dag.funcs[host].root_region.size() && folds[host]; d++) {
            Side(dag, host, d).find(borders[host]);
        }
    }
    return borders;
}

}  // namespace metol
