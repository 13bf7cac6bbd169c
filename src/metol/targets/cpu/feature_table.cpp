#include "targets/cpu/feature_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace metol::cpu {

std::span<const FeatureColumn> feature_columns() {
    static constexpr std::array<FeatureColumn, kFeatureCount> kColumns = {{
#define METOL_FEATURE(name, unit, meaning) {#name, unit, meaning},
#include "targets/cpu/features.def"
#undef METOL_FEATURE
    }};
    return kColumns;
}

std::span<const FeatureColumn> term_columns() {
    static constexpr std::array<FeatureColumn, kTermCount> kColumns = {{
#define METOL_TERM(name, expression, meaning) {#name, #expression, meaning},
#include "targets/cpu/terms.def"
#undef METOL_TERM
    }};
    return kColumns;
}

namespace {

double m(double x) {
    return std::max(x, 1.0);
}
double select(bool condition, double t, double f) {
    return condition ? t : f;
}
double minimum(double a, double b) {
    return std::min(a, b);
}

}  // namespace

void evaluate_terms(int cores, std::span<const float> row, std::span<double> out) {
#define METOL_FEATURE(name, unit, meaning) [[maybe_unused]] const double name = static_cast<double>(row[k_##name]);
#include "targets/cpu/features.def"
#undef METOL_FEATURE
    const double tasks = m(inner_parallelism * outer_parallelism);
    const double tasks_per_core = tasks / cores;
    const double imbalance = std::ceil(tasks_per_core) / m(tasks_per_core);
    const double lines_written = inner_parallelism * bytes_at_task / m(innermost_bytes_at_task);
    const double lanes = vector_size * num_vectors;
#define METOL_TERM(name, expression, meaning) out[t_##name] = expression;
#include "targets/cpu/terms.def"
#undef METOL_TERM
}

}  // namespace metol::cpu
