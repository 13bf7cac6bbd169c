// Whether a reduction can have partial results of nothing.
#pragma once

#include "halide_reader.hpp"

namespace metol {

// Does Halide 21 compare the identities of an associative update rightly with what it reduces? The place of an extremum
// is found by comparing, and a partial result of no points is the least or greatest number of its type. Signed integers
// of 32 bits and more are taken never to overflow, so that x + 1 < y becomes x < y - 1, which is wrong of the least
// number. Only what is read, or made of narrower types, is compared as it is: Funcs may be inlined.
bool has_safe_identities(const hi::AssociativeOp& proof, const std::map<std::string, hi::Function>& environment);

}  // namespace metol
