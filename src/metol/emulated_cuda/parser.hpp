// From the text of PTX to kernels that can be run.
#pragma once

#include <string_view>

#include "emulated_cuda/code.hpp"

namespace metol::emulated {

// Reads what LLVM writes: kernels, with variables of a module or of their own. Functions that are called are skipped.
//
// Throws EmulationError, with the line, where something is not known.
Module parse_module(std::string_view ptx);

}  // namespace metol::emulated
