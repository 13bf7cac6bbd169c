// The kernels that lowered code launches, with the numbers it launches them with.
//
// Enters: the functions that Halide made of a pipeline for a target with a GPU, sizes of its buffers. Leaves: one
// KernelLaunch a launch. These numbers are what Halide hands to the driver: what a compiler of kernels never sees.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "halide_reader.hpp"
#include "lowered.hpp"

namespace metol {

// In the order of the code. `funcs` are those of the pipeline.
std::vector<KernelLaunch> read_launches(const std::vector<hi::Stmt>& code, const std::vector<hi::Function>& funcs,
                                        const BufferRegions& regions, const std::map<std::string, double>& scalars);

}  // namespace metol
