// What lowered code touches beyond its buffers, found by walking through it with numbers.
//
// Enters: code as Halide would compile it, and sizes and strides of its buffers. Leaves: the first access that lies
// outside of what it is to, at the first or the last iteration of the loops around it. Nothing that only a run can tell
// is judged: what is reported is certain.
#pragma once

#include <map>
#include <string>

#include "halide_reader.hpp"
#include "lowered.hpp"

namespace metol {

// "element 312 of `f`, which has 300", or nothing.
std::string access_beyond(const hi::Stmt& code, const BufferRegions& regions, const BufferStrides& strides,
                          const std::map<std::string, double>& scalars);

}  // namespace metol
