// Adds the parameters of every target to the Python module.
#pragma once

#include <pybind11/pybind11.h>

void bind_targets(pybind11::module_& m);
