// A loop nest to feature rows: how busy each kernel keeps the machine, and what it moves to and from memory.
#pragma once

#include <span>

#include "targets/base.hpp"
#include "targets/gpu/gpu_parameters.hpp"

namespace metol::gpu {

// Makes the rows of `stages`, and what each adds to those of what is inlined into it.
// A Func that is not scheduled yet costs nothing to read. Rows for the analytical model lack what it does not look at.
// Ends early where the reader wants no more.
void featurize(const GpuParameters& machine, const SubNest& sub_nest, std::span<const int32_t> stages,
               bool is_analytical, std::span<StageRow> rows, const RowReader& read);

void add_inlined_row(std::span<const float> part, std::span<float> row);

}  // namespace metol::gpu
