// Whether a Func may be inlined, and how often its values are evaluated where it is.
#pragma once

#include "schedule/regions.hpp"

namespace metol {

// Is every value of a Func read once, by one point of the only Stage that reads it? One that is inlined itself reads as
// often as it is asked.
bool is_read_pointwise(const PipelineIndex& index, const LoopNest& nest, int func);

// Asked of `func`, which is inlined in `nest`: None where each of its values is evaluated at most `max_recompute` times
// as often as when it is computed once (Adams et al. 2019, §3.2).
Pruned check_inline(const PipelineIndex& index, const LoopNest& nest, int func, int64_t max_recompute);

// Asked of the same: None where no Stage that `func` is inlined into has more than `most` loads once every call of what
// is inlined is written out. So Halide lowers it, whether or not these are calls at the same place.
Pruned check_expression(const PipelineIndex& index, const LoopNest& nest, int func, int64_t most);

}  // namespace metol
