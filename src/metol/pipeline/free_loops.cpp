#include "free_loops.hpp"

#include <algorithm>

namespace metol {
namespace {

// What is shorter than a vector of floats with AVX2 is as well unrolled, or outside.
constexpr int64_t kFewTurns = 8;

bool is_short(const LoopDim& loop) {
    const auto& [first, last] = loop.bounds;
    const bool is_known = loop.has_constant_extent && first.is_affine() && last.is_affine();
    return is_known && last.constant - first.constant + 1 < kFewTurns;
}

// Does a coordinate move with one loop, point by point, and with no other?
bool walks_alone(const JacobianRow& row, size_t loop) {
    for (size_t i = 0; i < row.numerator.size(); i++) {
        const int32_t wanted = i == loop ? row.denominator[i] : 0;
        if (!row.is_known[i] || row.has_phase[i] || row.numerator[i] != wanted) {
            return false;
        }
    }
    return true;
}

}  // namespace

void free_loops(Stage& stage) {
    if (stage.stores.size() != 1 || stage.stores.front().count != 1) {
        return;
    }
    const Access& store = stage.stores.front();
    for (size_t i = 0; i < stage.loops.size() && store.step_ways == 0 && !store.has_floats; i++) {
        LoopDim& loop = stage.loops[i];
        const auto walked =
            std::ranges::find_if(store.jacobian, [&](const JacobianRow& row) { return walks_alone(row, i); });
        const bool is_ended = stage.has_predicate && stage.ended_loops[i] != 0;
        if (loop.is_reduction && loop.is_parallelizable && !is_ended && !is_short(loop) &&
            walked != store.jacobian.end()) {
            loop.is_reduction = false;
            loop.pure_dim = static_cast<int32_t>(walked - store.jacobian.begin());
        }
    }
}

}  // namespace metol
