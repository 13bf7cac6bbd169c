// In which order a reduction may be computed, and whether it can have partial results of nothing.
#pragma once

#include <string>

#include "halide_reader.hpp"

namespace metol {

struct Associativity {
    bool is_proven = false;            // of every value of an update: its terms may be grouped in any way
    bool is_commutative = false;       // and come in any order
    bool has_safe_identities = false;  // partial results may be of nothing
    int32_t lane_bytes = 0;            // as in `Stage`
};

// What can be proven of an update, where floats keep their order or not.
Associativity associativity_of(const hi::Function& function, const hi::Definition& update,
                               const std::map<std::string, hi::Function>& environment, bool is_strict);

// Does a Halide target, or none, say that floats keep their order?
bool has_strict_floats(const std::string& target);

}  // namespace metol
