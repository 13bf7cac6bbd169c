#include "targets/locations.hpp"

namespace metol {

std::vector<DecisionFamily> inline_and_root(const PipelineIndex& index, int func, const SpaceOptions& options) {
    std::vector<DecisionFamily> families;
    Decision decision;
    decision.func = static_cast<int16_t>(func);
    const auto f = static_cast<size_t>(func);
    if (options.allow_inline && index.func(func).is_inlinable) {
        decision.kind = DecisionKind::Inline;
        families.push_back({decision, {}});
        if (index.must_inline[f]) {
            return families;
        }
    }
    decision.kind = DecisionKind::Root;
    families.push_back({decision, {}});
    return families;
}

}  // namespace metol
