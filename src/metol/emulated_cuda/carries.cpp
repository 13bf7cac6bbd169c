// Arithmetic of integers that are longer than a register, a register at a time (PTX ISA, §9.7.2): what overflows is the
// carry, or the borrow, of the next instruction.
#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

// What an instruction does, as bits of `Instruction::mode`.
constexpr uint8_t kWrites = 1;  // the carry: `add.cc`
constexpr uint8_t kReads = 2;   // the carry: `addc`
constexpr uint8_t kSubtracts = 4;
constexpr uint8_t kIsHigh = 8;  // of a product, its upper half

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// `first` plus or minus `second` and what was carried.
template <typename T>
void carry_on(Thread& thread, const Instruction& i, Unsigned<T> first, Unsigned<T> second) {
    using Long = unsigned __int128;
    const Long carried = (i.mode & kReads) != 0 ? thread.carry : 0;
    const Long other = Long{second} + carried;
    const bool is_less = (i.mode & kSubtracts) != 0;
    const Long result = is_less ? Long{first} - other : Long{first} + other;
    if ((i.mode & kWrites) != 0) {
        thread.carry = static_cast<uint8_t>(is_less ? Long{first} < other : result >> kBits<T> != 0);
    }
    set<Unsigned<T>>(thread, i.out[0], static_cast<Unsigned<T>>(result));
}

struct CarriedSum {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        carry_on<T>(thread, i, get<Unsigned<T>>(thread, i.in[0]), get<Unsigned<T>>(thread, i.in[1]));
    }
};

struct CarriedProduct {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        using Long = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
        const Long product = static_cast<Long>(get<T>(thread, i.in[0])) * static_cast<Long>(get<T>(thread, i.in[1]));
        const auto half = static_cast<Unsigned<T>>((i.mode & kIsHigh) != 0 ? product >> kBits<T> : product);
        carry_on<T>(thread, i, half, get<Unsigned<T>>(thread, i.in[2]));
    }
};

// There are such of 32 and 64 bits alone.
template <typename Operation>
Execute of_long_integer(Type type) {
    switch (type) {
        case Type::U32:
        case Type::S32:
        case Type::U64:
        case Type::S64:
            return of_integer<Operation>(type);
        default:
            return nullptr;
    }
}

template <typename Operation, uint8_t kMode>
Execute decode(Parts parts, Type type, Instruction& instruction) {
    const bool writes = has_part(parts, "cc");
    const bool is_high = has_part(parts, "hi");
    instruction.mode = static_cast<uint8_t>(kMode | (writes ? kWrites : 0) | (is_high ? kIsHigh : 0));
    return of_long_integer<Operation>(type);
}

}  // namespace

Execute decode_carrying_sum(Parts parts, Type type, Instruction& instruction) {
    return parts.front() == "sub" ? decode<CarriedSum, kSubtracts>(parts, type, instruction)
                                  : decode<CarriedSum, 0>(parts, type, instruction);
}

Execute decode_carrying_product(Parts parts, Type type, Instruction& instruction) {
    return decode<CarriedProduct, 0>(parts, type, instruction);
}

void add_carries(OperationTable& table) {
    table["addc"] = {decode<CarriedSum, kReads>, 2, 2, "cc"};
    table["subc"] = {decode<CarriedSum, kReads | kSubtracts>, 2, 2, "cc"};
    table["madc"] = {decode<CarriedProduct, kReads>, 3, 3, "lo hi cc"};
}

}  // namespace metol::emulated
