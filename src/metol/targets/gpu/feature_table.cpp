#include "targets/gpu/feature_table.hpp"

#include <array>

#include "targets/term_functions.hpp"

namespace metol::gpu {

std::span<const FeatureColumn> feature_columns() {
    static constexpr std::array<FeatureColumn, kFeatureCount> kColumns = {{
#define METOL_FEATURE(name, unit, meaning) {#name, unit, meaning},
#include "targets/gpu/features.def"
#undef METOL_FEATURE
    }};
    return kColumns;
}

std::span<const FeatureColumn> term_columns() {
    static constexpr std::array<FeatureColumn, kTermCount> kColumns = {{
#define METOL_TERM(name, expression, meaning) {#name, #expression, meaning},
#include "targets/gpu/terms.def"
    }};
    return kColumns;
}

std::span<const FeatureColumn> quantity_columns() {
    static constexpr auto kColumns = std::to_array<FeatureColumn>({
#define METOL_QUANTITY(name, expression, meaning) {#name, #expression, meaning},
#include "targets/gpu/terms.def"
    });
    return kColumns;
}

void evaluate_terms(int multiprocessors, std::span<const float> row, std::span<double> out) {
    using namespace term_functions;
#define METOL_FEATURE(name, unit, meaning) [[maybe_unused]] const double name = static_cast<double>(row[k_##name]);
#include "targets/gpu/features.def"
#undef METOL_FEATURE
#define METOL_QUANTITY(name, expression, meaning) const double name = expression;
#define METOL_TERM(name, expression, meaning) out[t_##name] = expression;
#include "targets/gpu/terms.def"
}

}  // namespace metol::gpu
