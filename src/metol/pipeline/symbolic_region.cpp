#include "symbolic_region.hpp"

#include <algorithm>

#include "extract.hpp"

namespace metol {

SymbolicRegion identity_region(int32_t dimensions) {
    SymbolicRegion region;
    for (int32_t d = 0; d < dimensions; d++) {
        region.push_back({bound_loop(d, false), bound_loop(d, true)});
    }
    return region;
}

SymbolicRegion unite(SymbolicRegion a, const SymbolicRegion& b) {
    for (size_t d = 0; d < std::min(a.size(), b.size()); d++) {
        a[d].min = bound_apply(BoundOp::Min, {a[d].min, b[d].min});
        a[d].max = bound_apply(BoundOp::Max, {a[d].max, b[d].max});
    }
    return a;
}

SymbolicRegion substitute(const SymbolicRegion& region, const SymbolicRegion& loops) {
    SymbolicRegion result;
    for (const BoundRefPair& bounds : region) {
        result.push_back({bound_substitute(bounds.min, loops), bound_substitute(bounds.max, loops)});
    }
    return result;
}

BoundPair finish(const BoundRefPair& bounds, const std::string& what) {
    auto min = finish_bound(bounds.min), max = finish_bound(bounds.max);
    if (!min || !max) {
        throw PipelineError(PipelineError::Kind::Extraction,
                            "The bounds of " + what + " are too complicated; clamp coordinates to simpler ranges.");
    }
    return {std::move(*min), std::move(*max)};
}

std::vector<BoundPair> finish(const SymbolicRegion& region, const std::string& func_name) {
    std::vector<BoundPair> result;
    for (size_t d = 0; d < region.size(); d++) {
        result.push_back(finish(region[d], "Func `" + func_name + "` in dimension " + std::to_string(d)));
    }
    return result;
}

}  // namespace metol
