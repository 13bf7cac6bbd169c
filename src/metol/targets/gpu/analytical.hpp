// Seconds of each cost term under the analytical model of the GPU.
#pragma once

#include <span>

#include "targets/gpu/gpu_parameters.hpp"

namespace metol::gpu {

void analytical_coefficients(const GpuParameters& machine, int stage, std::span<double> out);

}  // namespace metol::gpu
