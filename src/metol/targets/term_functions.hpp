// The functions that the expressions of every terms.def may call; cost/terms.py has the same for Python.
#pragma once

#include <algorithm>
#include <cmath>

namespace metol::term_functions {

inline double ceil(double x) {
    return std::ceil(x);
}
inline double m(double x) {
    return std::max(x, 1.0);
}
inline double select(bool condition, double t, double f) {
    return condition ? t : f;
}
inline double minimum(double a, double b) {
    return std::min(a, b);
}

}  // namespace metol::term_functions
