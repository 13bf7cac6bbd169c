// Conversions between types, and between registers of different widths (PTX ISA, §9.7.9.1 and §9.7.9.21).
#include <cmath>

#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

enum Rounding : uint8_t { kNearest, kTowardsZero, kDown, kUp, kToInteger };

// With an `i` what is rounded becomes a whole number, which it stays.
constexpr std::array<Mode, 8> kRoundings = {{
    {"rn", kNearest},
    {"rz", kTowardsZero},
    {"rm", kDown},
    {"rp", kUp},
    {"rni", kToInteger | kNearest},
    {"rzi", kToInteger | kTowardsZero},
    {"rmi", kToInteger | kDown},
    {"rpi", kToInteger | kUp},
}};

double rounded(double value, uint8_t mode) {
    switch (mode & ~kToInteger) {
        case kTowardsZero:
            return std::trunc(value);
        case kDown:
            return std::floor(value);
        case kUp:
            return std::ceil(value);
        default:
            return std::nearbyint(value);
    }
}

// Whole numbers beyond the ends of a type become its ends, and no number becomes 0.
template <typename To>
To clamped(double value) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(value)) {
        return 0;
    }
    // The next number above the greatest, which a double always holds.
    const double end = std::ldexp(1.0, Limits::digits);
    return value >= end                                 ? Limits::max()
           : value < static_cast<double>(Limits::min()) ? Limits::min()
                                                        : static_cast<To>(value);
}

template <typename From, typename To>
To converted(From value, const Instruction& i) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        using Limits = std::numeric_limits<To>;
        if (!i.is_saturating) {
            return static_cast<To>(value);
        }
        const auto wide = static_cast<__int128>(value);
        return wide > Limits::max() ? Limits::max() : wide < Limits::min() ? Limits::min() : static_cast<To>(value);
    } else if constexpr (std::is_integral_v<To>) {
        return clamped<To>(rounded(static_cast<double>(value), i.mode));
    } else if constexpr (std::is_integral_v<From>) {
        return static_cast<To>(value);
    } else {
        To result = static_cast<To>(value);
        if ((i.mode & kToInteger) != 0) {
            result = static_cast<To>(rounded(static_cast<double>(value), i.mode));
        }
        if (i.is_saturating) {
            result = result > To(1) ? To(1) : result >= To(0) ? result : To(0);
        }
        return result;
    }
}

template <typename From>
struct ConvertFrom {
    template <typename To>
    static void run(Thread& thread, const Instruction& i) {
        const To value = converted<From, To>(get<From>(thread, i.in[0]), i);
        // A narrow integer fills the register that it goes to.
        if constexpr (std::is_integral_v<To>) {
            thread.registers[i.out[0]] = static_cast<uint64_t>(static_cast<int64_t>(value));
        } else {
            set<To>(thread, i.out[0], value);
        }
    }
};

Execute decode_conversion(Parts parts, Type from, Instruction& instruction) {
    constexpr size_t kLeastParts = 3;
    const auto to = parts.size() < kLeastParts ? std::nullopt : type_of(parts[parts.size() - 2]);
    if (!to) {
        return nullptr;
    }
    instruction.mode = mode_of(parts, kRoundings);
    // What becomes a float is rounded to the nearest, or was rounded to a whole number.
    if (of_float<ConvertFrom<float>>(*to) != nullptr && instruction.mode != kNearest &&
        (instruction.mode & kToInteger) == 0) {
        return nullptr;
    }
    switch (from) {
        case Type::U8:
            return of_number<ConvertFrom<uint8_t>>(*to);
        case Type::U16:
            return of_number<ConvertFrom<uint16_t>>(*to);
        case Type::U32:
            return of_number<ConvertFrom<uint32_t>>(*to);
        case Type::U64:
            return of_number<ConvertFrom<uint64_t>>(*to);
        case Type::S8:
            return of_number<ConvertFrom<int8_t>>(*to);
        case Type::S16:
            return of_number<ConvertFrom<int16_t>>(*to);
        case Type::S32:
            return of_number<ConvertFrom<int32_t>>(*to);
        case Type::S64:
            return of_number<ConvertFrom<int64_t>>(*to);
        case Type::F16:
            return of_number<ConvertFrom<_Float16>>(*to);
        case Type::F32:
            return of_number<ConvertFrom<float>>(*to);
        case Type::F64:
            return of_number<ConvertFrom<double>>(*to);
        default:
            return nullptr;
    }
}

// Between a generic address and one of a space: global addresses are the same in both.
template <Space kSpace, bool kIsGeneric>
void convert_address(Thread& thread, const Instruction& i) {
    constexpr uint64_t kWindow = kSpace == Space::Shared ? kSharedWindow : kSpace == Space::Local ? kLocalWindow : 0;
    const uint64_t address = thread.registers[i.in[0]];
    thread.registers[i.out[0]] = kIsGeneric ? address + kWindow : address - kWindow;
}

Execute decode_address(Parts parts, Type, Instruction&) {
    const bool is_generic = !has_part(parts, "to");
    if (has_part(parts, "shared")) {
        return is_generic ? &convert_address<Space::Shared, true> : &convert_address<Space::Shared, false>;
    }
    if (has_part(parts, "local")) {
        return is_generic ? &convert_address<Space::Local, true> : &convert_address<Space::Local, false>;
    }
    return &convert_address<Space::Global, true>;
}

void move(Thread& thread, const Instruction& i) {
    thread.registers[i.out[0]] = thread.registers[i.in[0]];
}

void move_predicate(Thread& thread, const Instruction& i) {
    thread.registers[i.out[0]] = thread.registers[i.in[0]] != 0 ? 1 : 0;
}

// Several registers as one, the first the lowest bits; and one as several.
template <int kPartBits>
void pack(Thread& thread, const Instruction& i) {
    uint64_t value = 0;
    for (int k = i.count - 1; k >= 0; k--) {
        const uint64_t part = thread.registers[i.in[static_cast<size_t>(k)]];
        value = value << kPartBits | (part & ((uint64_t{1} << kPartBits) - 1));
    }
    thread.registers[i.out[0]] = value;
}

template <int kPartBits>
void unpack(Thread& thread, const Instruction& i) {
    const uint64_t value = thread.registers[i.in[0]];
    for (int k = 0; k < i.count; k++) {
        thread.registers[i.out[static_cast<size_t>(k)]] = value >> (kPartBits * k) & ((uint64_t{1} << kPartBits) - 1);
    }
}

// A tuple of registers is one operand, of `count` elements, on one of both sides.
Execute decode_move(Parts, Type type, Instruction& instruction) {
    if (instruction.count == 1) {
        return type == Type::Pred ? &move_predicate : &move;
    }
    const bool packs = instruction.in[1] != kNone;
    const int bits = type == Type::B64 ? 64 : type == Type::B32 ? 32 : 0;
    switch (bits / instruction.count) {
        case 32:
            return packs ? &pack<32> : &unpack<32>;
        case 16:
            return packs ? &pack<16> : &unpack<16>;
        case 8:
            return packs ? &pack<8> : &unpack<8>;
        default:
            return nullptr;
    }
}

}  // namespace

void add_conversions(OperationTable& table) {
    table["cvt"] = {decode_conversion, 1, 1, "rn rz rm rp rni rzi rmi rpi sat ftz"};
    table["cvta"] = {decode_address, 1, 1, "to global shared local const"};
    table["mov"] = {decode_move, 1, 4};
}

}  // namespace metol::emulated
