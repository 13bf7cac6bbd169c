// Where a Func may be computed on any machine.
#pragma once

#include "targets/base.hpp"

namespace metol {

// Inline, where that is allowed and possible, and at root, unless it can be nowhere but inline.
std::vector<DecisionFamily> inline_and_root(const PipelineIndex& index, int func, const SpaceOptions& options);

// Of these places of a Func, those that are left where it is to be inline, or not at root.
std::vector<DecisionFamily> without_what_is_denied(std::vector<DecisionFamily> families, int func,
                                                   const SpaceOptions& options);

// May a Func be inline, as far as it alone is concerned?
bool may_be_inline(const PipelineIndex& index, int func);

// May a Func be computed in loops of others?
bool may_be_computed_inside(const PipelineIndex& index, int func);

}  // namespace metol
