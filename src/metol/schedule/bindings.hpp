// Adds loop nests to the Python module.
#pragma once

#include <pybind11/pybind11.h>

void bind_loop_nest(pybind11::module_& m);
