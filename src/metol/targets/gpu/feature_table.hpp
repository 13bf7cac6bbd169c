// The columns of features.def and terms.def as enums, so that code names a column and never a number.
#pragma once

#include "targets/base.hpp"

namespace metol::gpu {

enum Feature : int {
#define METOL_FEATURE(name, unit, meaning) k_##name,
#include "targets/gpu/features.def"
#undef METOL_FEATURE
    kFeatureCount
};

enum Term : int {
#define METOL_TERM(name, expression, meaning) t_##name,
#include "targets/gpu/terms.def"
    kTermCount
};

std::span<const FeatureColumn> feature_columns();
std::span<const FeatureColumn> term_columns();
// What the expressions of several terms share; each may use those before it.
std::span<const FeatureColumn> quantity_columns();

// Evaluates terms.def on one row.
void evaluate_terms(int multiprocessors, std::span<const float> row, std::span<double> out);

}  // namespace metol::gpu
