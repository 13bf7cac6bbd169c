// Adds the search to the Python module.
#pragma once

#include <pybind11/pybind11.h>

void bind_search(pybind11::module_& m);
void bind_trees(pybind11::module_& m);
