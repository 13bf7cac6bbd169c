// Scans: updates that read what an earlier step of their own has stored, as in f(x, r) = a f(x, r) + b f(x, r - 1).
#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/dag.hpp"

namespace metol {

struct Scan {
    size_t loop = 0;       // along which it goes
    int64_t back = 0;      // steps from the store to the load
    int stepped_dim = -1;  // of its Func, along which each step stores next to the one before; -1 for none
};

// The innermost loop along which an update is a scan, and the nearest step that it goes back to there.
std::optional<Scan> find_scan(const Stage& stage);

}  // namespace metol
