#include "schedule/scans.hpp"

#include <cstdlib>

namespace metol {

namespace {

// How many steps of a reduction loop after a place is stored it is loaded, if it is ever; both move alike.
std::optional<int64_t> steps_back(const Access& store, const Offset& loaded, size_t loop) {
    std::optional<int64_t> back;
    for (size_t d = 0; d < store.jacobian.size(); d++) {
        const JacobianRow& row = store.jacobian[d];
        if (!row.is_known[loop]) {
            return std::nullopt;
        }
        const int64_t apart = d < kOffsetDims ? store.offsets.front()[d] - loaded[d] : 0;
        const int64_t step = row.numerator[loop];
        if (step == 0) {
            if (apart != 0) {
                return std::nullopt;
            }
            continue;
        }
        if (row.denominator[loop] != 1 || apart % step != 0 || (back && *back != apart / step)) {
            return std::nullopt;
        }
        back = apart / step;
    }
    return back && *back > 0 ? back : std::nullopt;
}

int stepped_dim(const Access& store, size_t loop) {
    int stepped = -1;
    for (size_t d = 0; d < store.jacobian.size(); d++) {
        const int32_t step = store.jacobian[d].numerator[loop];
        if (step != 0 && (stepped >= 0 || std::abs(step) != 1)) {
            return -1;
        }
        stepped = step != 0 ? static_cast<int>(d) : stepped;
    }
    return stepped;
}

}  // namespace

std::optional<Scan> find_scan(const Stage& stage) {
    std::optional<Scan> found;
    for (size_t loop = 0; loop < stage.loops.size() && !found; loop++) {
        if (!stage.loops[loop].is_reduction) {
            continue;
        }
        for (const Access& store : stage.stores) {
            for (const Access& load : stage.self_accesses) {
                if (store.offsets.size() != 1 || store.jacobian != load.jacobian) {
                    continue;
                }
                for (const Offset& loaded : load.offsets) {
                    const auto back = steps_back(store, loaded, loop);
                    if (back && (!found || *back < found->back)) {
                        found = Scan{loop, *back, stepped_dim(store, loop)};
                    }
                }
            }
        }
    }
    return found;
}

}  // namespace metol
