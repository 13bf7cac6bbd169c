// Decisions as numbers, as Python sees them and records keep them.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "schedule/decision.hpp"

// The integers of a decision, in the order that DECISION_VERSION stands for.
pybind11::tuple encode(const metol::Decision& decision);

// Raises ValueError where the integers are none.
metol::Decision decode(const std::vector<int>& numbers);

// Adds what Python does with encoded decisions.
void bind_decisions(pybind11::module_& m);
