// Where a Func may be computed on any machine.
#pragma once

#include "targets/base.hpp"

namespace metol {

// Inline, where that is allowed and possible, and at root, unless it can be nowhere but inline.
std::vector<DecisionFamily> inline_and_root(const PipelineIndex& index, int func, const SpaceOptions& options);

}  // namespace metol
