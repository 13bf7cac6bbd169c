// How many blocks a multiprocessor holds at once, as NVIDIA's occupancy calculator reckons: the twin of
// occupancy.py, which says what limits them.
#pragma once

#include "targets/gpu/gpu_parameters.hpp"

namespace metol::gpu {

// Blocks of so many threads, registers a thread (1 at least) and bytes of shared memory; 0 where not even one fits.
int64_t blocks_held(const GpuParameters& machine, int64_t threads, double registers, double shared_bytes);

// Blocks of so much shared memory that a multiprocessor has room for, whatever else they take.
int64_t blocks_with_shared(const GpuParameters& machine, double shared_bytes);

}  // namespace metol::gpu
