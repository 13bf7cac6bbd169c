// Operations on bits, and on predicates (PTX ISA, §9.7.1 and §9.7.8).
#include <bit>

#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

struct And {
    template <typename T>
    static T of(T a, T b) {
        return static_cast<T>(a & b);
    }
};

struct Or {
    template <typename T>
    static T of(T a, T b) {
        return static_cast<T>(a | b);
    }
};

struct ExclusiveOr {
    template <typename T>
    static T of(T a, T b) {
        return static_cast<T>(a ^ b);
    }
};

template <typename F>
struct Bitwise {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        set<T>(thread, i.out[0], F::template of<T>(get<T>(thread, i.in[0]), get<T>(thread, i.in[1])));
    }
};

struct Not {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        set<T>(thread, i.out[0], static_cast<T>(~get<T>(thread, i.in[0])));
    }
};

// Shifts by more than there are bits shift everything out (§9.7.8.7).
struct ShiftLeft {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto by = get<uint32_t>(thread, i.in[1]);
        const auto value = static_cast<uint64_t>(get<T>(thread, i.in[0]));
        set<T>(thread, i.out[0], by < kBits<T> ? static_cast<T>(value << by) : T(0));
    }
};

struct ShiftRight {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto by = std::min<uint32_t>(get<uint32_t>(thread, i.in[1]), kBits<T>);
        const T value = get<T>(thread, i.in[0]);
        const T rest = static_cast<T>(std::is_signed_v<T> && value < T(0) ? ~T(0) : T(0));
        set<T>(thread, i.out[0], by < kBits<T> ? static_cast<T>(value >> by) : rest);
    }
};

// The upper, or the lower, half of what 64 bits are when they are shifted (§9.7.8.4).
enum Funnel : uint8_t { kLeft, kLeftClamped, kRight, kRightClamped };

struct FunnelShift {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto low = get<uint32_t>(thread, i.in[0]);
        const auto high = get<uint32_t>(thread, i.in[1]);
        const uint64_t both = static_cast<uint64_t>(high) << 32U | low;
        const auto asked = get<uint32_t>(thread, i.in[2]);
        const bool is_clamped = i.mode == kLeftClamped || i.mode == kRightClamped;
        const uint32_t by = is_clamped ? std::min<uint32_t>(asked, 32) : asked & 31U;
        const bool is_left = i.mode == kLeft || i.mode == kLeftClamped;
        thread.registers[i.out[0]] = (is_left ? both << by >> 32U : both >> by) & 0xffffffffU;
    }
};

struct CountOnes {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        set<int32_t>(thread, i.out[0], std::popcount(static_cast<std::make_unsigned_t<T>>(get<T>(thread, i.in[0]))));
    }
};

struct CountLeadingZeros {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        set<int32_t>(thread, i.out[0], std::countl_zero(static_cast<std::make_unsigned_t<T>>(get<T>(thread, i.in[0]))));
    }
};

struct ReverseBits {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto value = static_cast<std::make_unsigned_t<T>>(get<T>(thread, i.in[0]));
        uint64_t reversed = 0;
        for (int bit = 0; bit < kBits<T>; bit++) {
            reversed |= static_cast<uint64_t>(value >> static_cast<unsigned>(bit) & 1U) << (kBits<T> - 1 - bit);
        }
        thread.registers[i.out[0]] = reversed;
    }
};

struct ExtractBits {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto begin = get<uint32_t>(thread, i.in[1]) & 0xffU;
        const auto length = get<uint32_t>(thread, i.in[2]) & 0xffU;
        const T value = get<T>(thread, i.in[0]);
        const bool is_negative =
            std::is_signed_v<T> && length > 0 &&
            (static_cast<uint64_t>(value) >> std::min<uint32_t>(begin + length - 1, kBits<T> - 1) & 1U) != 0;
        uint64_t field = is_negative ? ~uint64_t{0} : 0;
        for (uint32_t bit = 0; bit < length && bit < kBits<T>; bit++) {
            const bool is_set =
                begin + bit < kBits<T> ? (static_cast<uint64_t>(value) >> (begin + bit) & 1U) != 0 : is_negative;
            field = (field & ~(uint64_t{1} << bit)) | static_cast<uint64_t>(is_set) << bit;
        }
        set<T>(thread, i.out[0], static_cast<T>(field));
    }
};

struct InsertBits {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const auto begin = get<uint32_t>(thread, i.in[2]) & 0xffU;
        const auto length = get<uint32_t>(thread, i.in[3]) & 0xffU;
        const auto from = static_cast<uint64_t>(get<T>(thread, i.in[0]));
        auto into = static_cast<uint64_t>(get<T>(thread, i.in[1]));
        for (uint32_t bit = 0; bit < length && begin + bit < kBits<T>; bit++) {
            into = (into & ~(uint64_t{1} << (begin + bit))) | (from >> bit & 1U) << (begin + bit);
        }
        set<T>(thread, i.out[0], static_cast<T>(into));
    }
};

// Four bytes of eight, each with its own bits or with its sign repeated (§9.7.9.7).
struct Permute {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const uint64_t both =
            static_cast<uint64_t>(get<uint32_t>(thread, i.in[1])) << 32U | get<uint32_t>(thread, i.in[0]);
        const auto selector = get<uint32_t>(thread, i.in[2]);
        uint64_t chosen = 0;
        for (unsigned byte = 0; byte < 4; byte++) {
            const unsigned control = selector >> (4 * byte) & 15U;
            const uint64_t value = both >> (8 * (control & 7U)) & 0xffU;
            const uint64_t sign = (value & 0x80U) != 0 ? 0xffU : 0;
            chosen |= ((control & 8U) != 0 ? sign : value) << (8 * byte);
        }
        thread.registers[i.out[0]] = chosen;
    }
};

void not_predicate(Thread& thread, const Instruction& i) {
    thread.registers[i.out[0]] = thread.registers[i.in[0]] != 0 ? 0 : 1;
}

template <typename Op>
Execute decode_integer(Parts, Type type, Instruction&) {
    return of_integer<Op>(type);
}

// A predicate is true whatever it is but 0: compilers write -1 for true.
template <typename F>
struct OfPredicates {
    static void run(Thread& thread, const Instruction& i) {
        const bool first = thread.registers[i.in[0]] != 0;
        const bool second = thread.registers[i.in[1]] != 0;
        thread.registers[i.out[0]] = F::template of<bool>(first, second) ? 1 : 0;
    }
};

template <typename F>
Execute decode_logical(Parts, Type type, Instruction&) {
    return type == Type::Pred ? &OfPredicates<F>::run : of_integer<Bitwise<F>>(type);
}

Execute decode_funnel(Parts parts, Type, Instruction& instruction) {
    const bool is_clamped = has_part(parts, "clamp");
    instruction.mode = has_part(parts, "l") ? (is_clamped ? kLeftClamped : kLeft) : is_clamped ? kRightClamped : kRight;
    return &FunnelShift::run<uint32_t>;
}

}  // namespace

void add_bits(OperationTable& table) {
    table["and"] = {decode_logical<And>, 2, 2};
    table["or"] = {decode_logical<Or>, 2, 2};
    table["xor"] = {decode_logical<ExclusiveOr>, 2, 2};
    table["not"] = {
        [](Parts, Type type, Instruction&) { return type == Type::Pred ? &not_predicate : of_integer<Not>(type); }, 1,
        1};
    table["shl"] = {decode_integer<ShiftLeft>, 2, 2};
    table["shr"] = {decode_integer<ShiftRight>, 2, 2};
    table["shf"] = {decode_funnel, 3, 3, "l r wrap clamp"};
    table["popc"] = {decode_integer<CountOnes>, 1, 1};
    table["clz"] = {decode_integer<CountLeadingZeros>, 1, 1};
    table["brev"] = {decode_integer<ReverseBits>, 1, 1};
    table["bfe"] = {decode_integer<ExtractBits>, 3, 3};
    table["bfi"] = {decode_integer<InsertBits>, 4, 4};
    table["prmt"] = {decode_integer<Permute>, 3, 3};
}

}  // namespace metol::emulated
