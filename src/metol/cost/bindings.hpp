// Adds cost models to the Python module.
#pragma once

#include <pybind11/pybind11.h>

void bind_cost(pybind11::module_& m);
