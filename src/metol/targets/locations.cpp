#include "targets/locations.hpp"

#include <algorithm>
#include <functional>
#include <utility>

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

std::vector<DecisionFamily> without_what_is_denied(std::vector<DecisionFamily> families, int func,
                                                   const SpaceOptions& options) {
    const auto is = [](DecisionKind kind) {
        return [kind](const DecisionFamily& family) { return family.base.kind == kind; };
    };
    if (std::ranges::count(options.kept_inline, func) > 0 && std::ranges::any_of(families, is(DecisionKind::Inline))) {
        std::erase_if(families, std::not_fn(is(DecisionKind::Inline)));
    } else if (std::ranges::count(options.off_root, func) > 0 && families.size() > 1) {
        std::erase_if(families, is(DecisionKind::Root));
    }
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
