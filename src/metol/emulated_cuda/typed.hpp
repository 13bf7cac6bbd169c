// Registers as values of PTX types, and operations chosen by type.
#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "emulated_cuda/block.hpp"

namespace metol::emulated {

// A predicate; all else are types of C++.
struct Predicate {
    uint8_t is_true = 0;
};

enum class Type : uint8_t { Pred, B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F16, F32, F64 };

// The type that a part of an opcode names, if it names one.
std::optional<Type> type_of(std::string_view part);

template <typename T>
T get(const Thread& thread, int32_t place) {
    T value;
    std::memcpy(&value, &thread.registers[place], sizeof value);
    return value;
}

template <typename T>
void set(Thread& thread, int32_t place, T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    thread.registers[place] = bits;
}

// What is chosen by a type is a class with a member `run<T>`. Each of these returns the one for a type of its kind,
// and nullptr for a type of another; without a sign, bits are numbers.
template <typename Operation>
Execute of_integer(Type type) {
    switch (type) {
        case Type::B8:
        case Type::U8:
            return &Operation::template run<uint8_t>;
        case Type::B16:
        case Type::U16:
            return &Operation::template run<uint16_t>;
        case Type::B32:
        case Type::U32:
            return &Operation::template run<uint32_t>;
        case Type::B64:
        case Type::U64:
            return &Operation::template run<uint64_t>;
        case Type::S8:
            return &Operation::template run<int8_t>;
        case Type::S16:
            return &Operation::template run<int16_t>;
        case Type::S32:
            return &Operation::template run<int32_t>;
        case Type::S64:
            return &Operation::template run<int64_t>;
        default:
            return nullptr;
    }
}

template <typename Operation>
Execute of_float(Type type) {
    switch (type) {
        case Type::F16:
            return &Operation::template run<_Float16>;
        case Type::F32:
            return &Operation::template run<float>;
        case Type::F64:
            return &Operation::template run<double>;
        default:
            return nullptr;
    }
}

template <typename Operation>
Execute of_number(Type type) {
    const Execute found = of_integer<Operation>(type);
    return found != nullptr ? found : of_float<Operation>(type);
}

// A part of an opcode, and what it stands for in `Instruction::mode`.
struct Mode {
    std::string_view part;
    uint8_t mode;
};

// The mode of the first part that is among `modes`, `otherwise` where there is none.
uint8_t mode_of(std::span<const std::string_view> parts, std::span<const Mode> modes, uint8_t otherwise = 0);

bool has_part(std::span<const std::string_view> parts, std::string_view part);

}  // namespace metol::emulated
