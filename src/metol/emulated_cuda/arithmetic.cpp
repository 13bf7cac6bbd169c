// Arithmetic of integers and floating point, comparisons and choices (PTX ISA, §9.7.1 to §9.7.7).
#include <algorithm>
#include <cmath>

#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

// Holds quotients of the greatest and least of a type, too.
template <typename T>
using Wider = std::conditional_t<sizeof(T) < sizeof(int64_t), int64_t, __int128>;

// Integers wrap around.
template <typename T>
T wrapped(uint64_t value) {
    return static_cast<T>(value);
}

template <typename T>
T saturated(T value) {
    return value > T(1) ? T(1) : value >= T(0) ? value : T(0);
}

struct Add {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            return wrapped<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        } else {
            return a + b;
        }
    }
};

struct Subtract {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            return wrapped<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
        } else {
            return a - b;
        }
    }
};

struct Multiply {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            return wrapped<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        } else {
            return a * b;
        }
    }
};

struct MultiplyHigh {
    template <typename T>
    static T of(T a, T b) {
        return static_cast<T>(static_cast<__int128>(a) * static_cast<__int128>(b) >> kBits<T>);
    }
};

// In double precision the product of two floats is exact.
struct MultiplyTowardsZero {
    template <typename T>
    static T of(T a, T b) {
        const double exact = static_cast<double>(a) * static_cast<double>(b);
        const auto nearest = static_cast<T>(exact);
        return std::abs(static_cast<double>(nearest)) > std::abs(exact) ? std::nextafter(nearest, T(0)) : nearest;
    }
};

// What division by zero gives is not specified; ours is all ones, as it is on devices.
struct Divide {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            if (b == 0) {
                return static_cast<T>(~T(0));
            }
            return static_cast<T>(static_cast<Wider<T>>(a) / static_cast<Wider<T>>(b));
        } else {
            return a / b;
        }
    }
};

struct Remainder {
    template <typename T>
    static T of(T a, T b) {
        return b == 0 ? a : static_cast<T>(static_cast<Wider<T>>(a) % static_cast<Wider<T>>(b));
    }
};

// Of a NaN and a number the number (§9.7.3.11).
struct Minimum {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            return std::min(a, b);
        } else {
            return std::isnan(static_cast<double>(a)) || b < a ? b : a;
        }
    }
};

struct Maximum {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (kIsInteger<T>) {
            return std::max(a, b);
        } else {
            return std::isnan(static_cast<double>(a)) || b > a ? b : a;
        }
    }
};

template <typename F>
struct Binary {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        T value = F::template of<T>(get<T>(thread, i.in[0]), get<T>(thread, i.in[1]));
        if constexpr (!kIsInteger<T>) {
            value = i.is_saturating ? saturated(value) : value;
        }
        set<T>(thread, i.out[0], value);
    }
};

// The same of a wider integer for what two of half its width give.
template <typename F, bool kAdds>
struct Wide {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        if constexpr (sizeof(T) < sizeof(uint64_t)) {
            using Both = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
            uint64_t value = static_cast<uint64_t>(Both{get<T>(thread, i.in[0])}) *
                             static_cast<uint64_t>(Both{get<T>(thread, i.in[1])});
            value += kAdds ? thread.registers[i.in[2]] : 0;
            thread.registers[i.out[0]] = sizeof(T) == 4 ? value : value & 0xffffffffU;
        }
    }
};

template <typename F>
struct MultiplyAdd {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const T product = F::template of<T>(get<T>(thread, i.in[0]), get<T>(thread, i.in[1]));
        set<T>(thread, i.out[0], Add::of<T>(product, get<T>(thread, i.in[2])));
    }
};

struct FusedMultiplyAdd {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const T a = get<T>(thread, i.in[0]);
        const T b = get<T>(thread, i.in[1]);
        const T c = get<T>(thread, i.in[2]);
        // A product of two halves is exact in single precision, and in double precision so is the sum, nearly always.
        T value;
        if constexpr (sizeof(T) == 2) {
            value = static_cast<T>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
        } else {
            value = std::fma(a, b, c);
        }
        set<T>(thread, i.out[0], i.is_saturating ? saturated(value) : value);
    }
};

struct Negate {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const T value = get<T>(thread, i.in[0]);
        if constexpr (kIsInteger<T>) {
            set<T>(thread, i.out[0], wrapped<T>(0 - static_cast<uint64_t>(value)));
        } else {
            set<T>(thread, i.out[0], -value);
        }
    }
};

struct Absolute {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const T value = get<T>(thread, i.in[0]);
        if constexpr (kIsInteger<T>) {
            set<T>(thread, i.out[0], value < 0 ? wrapped<T>(0 - static_cast<uint64_t>(value)) : value);
        } else {
            set<T>(thread, i.out[0], static_cast<T>(std::fabs(static_cast<double>(value))));
        }
    }
};

enum Comparison : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

constexpr std::array<Mode, 18> kComparisons = {{
    {"eq", kEq},
    {"ne", kNe},
    {"lt", kLt},
    {"le", kLe},
    {"gt", kGt},
    {"ge", kGe},
    {"lo", kLt},
    {"ls", kLe},
    {"hi", kGt},
    {"hs", kGe},
    {"equ", kEqu},
    {"neu", kNeu},
    {"ltu", kLtu},
    {"leu", kLeu},
    {"gtu", kGtu},
    {"geu", kGeu},
    {"num", kNum},
    {"nan", kNan},
}};

template <typename T>
bool is_unordered(T a, T b) {
    if constexpr (kIsInteger<T>) {
        return false;
    } else {
        return std::isnan(static_cast<double>(a)) || std::isnan(static_cast<double>(b));
    }
}

template <typename T>
bool compares(uint8_t mode, T a, T b) {
    const bool is_nan = is_unordered(a, b);
    switch (mode) {
        case kEq:
            return a == b;
        case kNe:
            return !is_nan && a != b;
        case kLt:
            return a < b;
        case kLe:
            return a <= b;
        case kGt:
            return a > b;
        case kGe:
            return a >= b;
        case kEqu:
            return is_nan || a == b;
        case kNeu:
            return is_nan || a != b;
        case kLtu:
            return is_nan || a < b;
        case kLeu:
            return is_nan || a <= b;
        case kGtu:
            return is_nan || a > b;
        case kGeu:
            return is_nan || a >= b;
        case kNum:
            return !is_nan;
        default:
            return is_nan;
    }
}

struct SetPredicate {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const bool is_so = compares(i.mode, get<T>(thread, i.in[0]), get<T>(thread, i.in[1]));
        thread.registers[i.out[0]] = is_so ? 1 : 0;
        if (i.out[1] != kNone) {
            thread.registers[i.out[1]] = is_so ? 0 : 1;
        }
    }
};

void select(Thread& thread, const Instruction& i) {
    thread.registers[i.out[0]] = thread.registers[thread.registers[i.in[2]] != 0 ? i.in[0] : i.in[1]];
}

// Integers neither round nor saturate here.
template <typename F>
Execute decode_sum(Parts parts, Type type, Instruction& instruction) {
    if (has_part(parts, "cc")) {
        return decode_carrying_sum(parts, type, instruction);
    }
    constexpr size_t kPlainParts = 2;
    const Execute of_integers = of_integer<Binary<F>>(type);
    return of_integers == nullptr ? of_float<Binary<F>>(type) : parts.size() == kPlainParts ? of_integers : nullptr;
}

template <typename Op>
Execute decode_number(Parts, Type type, Instruction&) {
    return of_number<Op>(type);
}

Execute decode_multiply(Parts parts, Type type, Instruction&) {
    if (has_part(parts, "wide")) {
        return of_integer<Wide<Multiply, false>>(type);
    }
    if (has_part(parts, "rz")) {
        return type == Type::F32 ? &Binary<MultiplyTowardsZero>::run<float> : nullptr;
    }
    return has_part(parts, "hi") ? of_integer<Binary<MultiplyHigh>>(type) : of_number<Binary<Multiply>>(type);
}

Execute decode_multiply_add(Parts parts, Type type, Instruction& instruction) {
    if (has_part(parts, "cc")) {
        return decode_carrying_product(parts, type, instruction);
    }
    if (has_part(parts, "wide")) {
        return of_integer<Wide<Multiply, true>>(type);
    }
    return has_part(parts, "hi") ? of_integer<MultiplyAdd<MultiplyHigh>>(type)
                                 : of_integer<MultiplyAdd<Multiply>>(type);
}

Execute decode_comparison(Parts parts, Type type, Instruction& instruction) {
    instruction.mode = mode_of(parts, kComparisons);
    return of_number<SetPredicate>(type);
}

}  // namespace

void add_arithmetic(OperationTable& table) {
    table["add"] = {decode_sum<Add>, 2, 2, "rn ftz sat cc"};
    table["sub"] = {decode_sum<Subtract>, 2, 2, "rn ftz sat cc"};
    table["mul"] = {decode_multiply, 2, 2, "lo hi wide rn rz ftz sat"};
    table["mad"] = {decode_multiply_add, 3, 3, "lo hi wide cc"};
    table["fma"] = {[](Parts, Type type, Instruction&) { return of_float<FusedMultiplyAdd>(type); }, 3, 3,
                    "rn ftz sat"};
    table["div"] = {decode_number<Binary<Divide>>, 2, 2, "rn full approx ftz"};
    table["rem"] = {[](Parts, Type type, Instruction&) { return of_integer<Binary<Remainder>>(type); }, 2, 2};
    table["min"] = {decode_number<Binary<Minimum>>, 2, 2, "ftz"};
    table["max"] = {decode_number<Binary<Maximum>>, 2, 2, "ftz"};
    table["neg"] = {decode_number<Negate>, 1, 1, "ftz"};
    table["abs"] = {decode_number<Absolute>, 1, 1, "ftz"};
    table["setp"] = {decode_comparison, 2, 2, "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan ftz"};
    table["selp"] = {[](Parts, Type, Instruction&) -> Execute { return &select; }, 3, 3};
}

}  // namespace metol::emulated
