#include "cost/network.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>

// One version for each kind of vectors that processors have, chosen when the library is loaded. Without fused
// operations, and adding up in the same order, all of them give the same numbers.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define METOL_FOR_EACH_VECTOR_WIDTH __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define METOL_FOR_EACH_VECTOR_WIDTH
#endif

namespace metol {

namespace {

// log(1 + x) of numbers from 0, to the last bits of a float: a branch-free loop, which std::log1p would not be. With
// 1 + x = 2^e m and m about 1, log m is the series of 2 artanh((m - 1) / (m + 1)), whose next term is below 1e-8.
METOL_FOR_EACH_VECTOR_WIDTH
void log_of_next(const float* x, float* out, size_t count) {
    constexpr int32_t kExponentBias = 127;
    constexpr int32_t kMantissaBits = 23;
    constexpr int32_t kMantissa = (1 << kMantissaBits) - 1;
    constexpr int32_t kOne = kExponentBias << kMantissaBits;
    // sqrt(2) as a mantissa: above it, m is halved.
    constexpr int32_t kRootOfTwo = 0x3504F3;
    for (size_t i = 0; i < count; i++) {
        const auto bits = std::bit_cast<int32_t>(1.0F + x[i]);
        const int32_t mantissa = bits & kMantissa;
        const int32_t is_high = mantissa > kRootOfTwo ? 1 : 0;
        const auto exponent = static_cast<float>((bits >> kMantissaBits) - kExponentBias + is_high);
        const auto m = std::bit_cast<float>((mantissa | kOne) - (is_high << kMantissaBits));
        const float t = (m - 1.0F) / (m + 1.0F);
        const float s = t * t;
        const float series = 1.0F + s * (1.0F / 3 + s * (1.0F / 5 + s * (1.0F / 7 + s * (1.0F / 9))));
        out[i] = exponent * 0.693147180559945F + 2.0F * t * series;
    }
}

// Inputs whose rows of weights are added to the outputs at once, so that these are read and written less often.
constexpr size_t kAtOnce = 4;

// Adds weights * inputs to `out`, [outputs]. Many inputs are 0, and are passed over.
METOL_FOR_EACH_VECTOR_WIDTH
void add_product(const float* weights, const float* inputs, size_t input_count, float* out, size_t output_count) {
    std::array<const float*, kAtOnce> rows{};
    std::array<float, kAtOnce> x{};
    size_t count = 0;
    for (size_t i = 0; i < input_count; i++) {
        if (inputs[i] == 0) {
            continue;
        }
        rows[count] = weights + i * output_count;
        x[count++] = inputs[i];
        if (count == kAtOnce) {
            for (size_t j = 0; j < output_count; j++) {
                out[j] += (rows[0][j] * x[0] + rows[1][j] * x[1]) + (rows[2][j] * x[2] + rows[3][j] * x[3]);
            }
            count = 0;
        }
    }
    for (size_t k = 0; k < count; k++) {
        for (size_t j = 0; j < output_count; j++) {
            out[j] += rows[k][j] * x[k];
        }
    }
}

METOL_FOR_EACH_VECTOR_WIDTH
void multiply_by_gains(const float* z, const double* units, double* coefficients, size_t count) {
    for (size_t t = 0; t < count; t++) {
        const float a = std::abs(z[t]);
        const float up = a + std::sqrt(a * a + 1.0F);
        // exp(asinh(z)): about exp(z) near 0, and never steeper than a straight line.
        const float gain = z[t] < 0 ? 1.0F / up : up;
        const float learned = z[t] < 0 ? 0.0F : z[t];
        coefficients[t] =
            units[t] > 0 ? units[t] * static_cast<double>(learned) : coefficients[t] * static_cast<double>(gain);
    }
}

void rectify(std::span<float> values) {
    for (float& value : values) {
        value = std::max(value, 0.0F);
    }
}

void require(bool condition) {
    if (!condition) {
        throw std::invalid_argument("these layers do not fit each other");
    }
}

bool is_whole(const Layer& layer) {
    return layer.inputs > 0 && layer.outputs > 0 &&
           layer.weights.size() == static_cast<size_t>(layer.inputs) * static_cast<size_t>(layer.outputs) &&
           layer.biases.size() == static_cast<size_t>(layer.outputs);
}

}  // namespace

Network::Network(Layer schedule, Layer algorithm, Layer gains, std::vector<double> units)
    : schedule_(std::move(schedule)),
      algorithm_(std::move(algorithm)),
      gains_(std::move(gains)),
      units_(std::move(units)) {
    require(is_whole(schedule_) && is_whole(algorithm_) && is_whole(gains_));
    require(gains_.inputs == schedule_.outputs + algorithm_.outputs);
    require(units_.size() == static_cast<size_t>(gains_.outputs));
}

std::vector<float> Network::stage_part(std::span<const float> op_histogram) const {
    require(op_histogram.size() == static_cast<size_t>(algorithm_.inputs));
    std::vector<float> logs(op_histogram.size());
    log_of_next(op_histogram.data(), logs.data(), logs.size());
    std::vector<float> hidden = algorithm_.biases;
    add_product(algorithm_.weights.data(), logs.data(), logs.size(), hidden.data(), hidden.size());
    rectify(hidden);
    std::vector<float> part = gains_.biases;
    const auto skipped = static_cast<size_t>(schedule_.outputs) * part.size();
    add_product(gains_.weights.data() + skipped, hidden.data(), hidden.size(), part.data(), part.size());
    return part;
}

void Network::apply(std::span<const float> row, std::span<const float> stage_part,
                    std::span<double> coefficients) const {
    thread_local std::vector<float> logs;
    thread_local std::vector<float> hidden;
    thread_local std::vector<float> z;
    logs.resize(row.size());
    log_of_next(row.data(), logs.data(), row.size());
    hidden = schedule_.biases;
    add_product(schedule_.weights.data(), logs.data(), logs.size(), hidden.data(), hidden.size());
    rectify(hidden);
    z.assign(stage_part.begin(), stage_part.end());
    add_product(gains_.weights.data(), hidden.data(), hidden.size(), z.data(), z.size());
    multiply_by_gains(z.data(), units_.data(), coefficients.data(), z.size());
}

}  // namespace metol
