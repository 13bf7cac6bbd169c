// Functions that devices have instructions for (PTX ISA, §9.7.3 and §9.7.4). Those that are approximate there are as
// exact here as their type is.
#include <cmath>

#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

template <typename F>
struct Unary {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        set<T>(thread, i.out[0], static_cast<T>(F::of(static_cast<double>(get<T>(thread, i.in[0])))));
    }
};

// A double is wide enough for one rounding of what is worked out of a float.
struct SquareRoot {
    static double of(double x) { return std::sqrt(x); }
};

struct ReciprocalSquareRoot {
    static double of(double x) { return 1 / std::sqrt(x); }
};

struct Reciprocal {
    static double of(double x) { return 1 / x; }
};

struct Sine {
    static double of(double x) { return std::sin(x); }
};

struct Cosine {
    static double of(double x) { return std::cos(x); }
};

struct PowerOfTwo {
    static double of(double x) { return std::exp2(x); }
};

struct BinaryLogarithm {
    static double of(double x) { return std::log2(x); }
};

struct HyperbolicTangent {
    static double of(double x) { return std::tanh(x); }
};

// The sign is of the first, all else of the second.
struct CopySign {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto sign = static_cast<double>(get<T>(thread, i.in[0]));
        set<T>(thread, i.out[0], static_cast<T>(std::copysign(static_cast<double>(get<T>(thread, i.in[1])), sign)));
    }
};

template <typename F>
Execute decode_function(Parts, Type type, Instruction&) {
    return of_float<Unary<F>>(type);
}

}  // namespace

void add_functions(OperationTable& table) {
    table["sqrt"] = {decode_function<SquareRoot>, 1, 1, "rn approx ftz"};
    table["rsqrt"] = {decode_function<ReciprocalSquareRoot>, 1, 1, "approx ftz"};
    table["rcp"] = {decode_function<Reciprocal>, 1, 1, "rn approx ftz"};
    table["sin"] = {decode_function<Sine>, 1, 1, "approx ftz"};
    table["cos"] = {decode_function<Cosine>, 1, 1, "approx ftz"};
    table["ex2"] = {decode_function<PowerOfTwo>, 1, 1, "approx ftz"};
    table["lg2"] = {decode_function<BinaryLogarithm>, 1, 1, "approx ftz"};
    table["tanh"] = {decode_function<HyperbolicTangent>, 1, 1, "approx"};
    table["copysign"] = {[](Parts, Type type, Instruction&) { return of_float<CopySign>(type); }, 2, 2};
}

}  // namespace metol::emulated
