// The analytical cost model of the CPU: coefficients of terms.def from measured rates of the machine.
#pragma once

#include <span>

#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// Seconds per unit of each term, for one row of `stage`. Terms that only a trained model can weigh get 0.
void analytical_coefficients(const CpuParameters& machine, int stage, std::span<const float> row,
                             std::span<double> out);

}  // namespace metol::cpu
