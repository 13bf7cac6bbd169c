#include "targets/locations.hpp"

namespace metol {

std::vector<DecisionFamily> inline_and_root(const PipelineIndex& index, int func, const SpaceOptions& options) {
    std::vector<DecisionFamily> families;
    Decision decision;
    decision.func = static_cast<int16_t>(func);
    if (options.allow_inline && may_be_inline(index, func)) {
        decision.kind = DecisionKind::Inline;
        families.push_back({decision, {}});
        if (index.must_inline[static_cast<size_t>(func)]) {
            return families;
        }
    }
    decision.kind = DecisionKind::Root;
    families.push_back({decision, {}});
    return families;
}

bool may_be_inline(const PipelineIndex& index, int func) {
    return index.func(func).is_inlinable && !index.is_at_root[static_cast<size_t>(func)];
}

bool may_be_computed_inside(const PipelineIndex& index, int func) {
    const Func& described = index.func(func);
    return !described.is_output && !described.is_extern && !index.is_at_root[static_cast<size_t>(func)];
}

}  // namespace metol
