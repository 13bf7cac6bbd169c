// The one column that depends on all sub-nests at once: what a whole pipeline allocates.
#pragma once

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol {

// Puts the storage of all Funcs that are computed and no outputs, `of_func` in the rows of their first Stages, into the
// column `of_all` of the rows of everything computed.
inline void patch_working_set_at_root(const PipelineIndex& index, const LoopNest& nest, int of_func, int of_all,
                                      std::span<float> rows) {
    const size_t columns = rows.size() / static_cast<size_t>(index.stage_count());
    double total = 0;
    for (int32_t func : index.order) {
        if (nest[func].is_computed() && !index.func(func).is_output) {
            const auto stage = static_cast<size_t>(index.func(func).stages.front());
            total += static_cast<double>(rows[stage * columns + static_cast<size_t>(of_func)]);
        }
    }
    for (int32_t func : index.order) {
        for (int32_t stage : index.func(func).stages) {
            if (nest[func].is_computed()) {
                rows[static_cast<size_t>(stage) * columns + static_cast<size_t>(of_all)] = static_cast<float>(total);
            }
        }
    }
}

}  // namespace metol
