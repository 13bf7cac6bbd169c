// Which Funcs never reach memory, for their values go from unrolled code to unrolled code.
#pragma once

#include "schedule/regions.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// Is a Func computed in the body of an unrolled tile, as unrolled as its readers there, in vectors like theirs? LLVM
// then replaces the loads of a small array by the values stored to it, and the array is gone.
bool is_in_registers(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                     int func);

}  // namespace metol::cpu
