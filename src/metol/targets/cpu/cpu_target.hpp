// The CPU target: the search space of Adams et al. 2019, §3, the features of appendix A and the terms of appendix B.
#pragma once

#include <memory>

#include "targets/base.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol {

std::unique_ptr<const Target> make_cpu_target(CpuParameters parameters);

}  // namespace metol
