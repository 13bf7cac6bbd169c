#include "emulated_cuda/operations.hpp"

#include <algorithm>
#include <string>

namespace metol::emulated {

namespace {

constexpr std::array<std::pair<std::string_view, Type>, 16> kTypes = {{
    {"pred", Type::Pred},
    {"b8", Type::B8},
    {"b16", Type::B16},
    {"b32", Type::B32},
    {"b64", Type::B64},
    {"u8", Type::U8},
    {"u16", Type::U16},
    {"u32", Type::U32},
    {"u64", Type::U64},
    {"s8", Type::S8},
    {"s16", Type::S16},
    {"s32", Type::S32},
    {"s64", Type::S64},
    {"f16", Type::F16},
    {"f32", Type::F32},
    {"f64", Type::F64},
}};

const OperationTable& operations() {
    static const OperationTable kTable = [] {
        OperationTable table;
        add_arithmetic(table);
        add_bits(table);
        add_carries(table);
        add_functions(table);
        add_conversions(table);
        add_memory_accesses(table);
        add_control(table);
        return table;
    }();
    return kTable;
}

std::vector<std::string_view> split(std::string_view opcode) {
    std::vector<std::string_view> parts;
    while (true) {
        const size_t dot = opcode.find('.');
        parts.push_back(opcode.substr(0, dot));
        if (dot == std::string_view::npos) {
            return parts;
        }
        opcode.remove_prefix(dot + 1);
    }
}

bool is_word_of(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (words.substr(0, end) == word) {
            return true;
        }
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

// Are all parts of an opcode and all its operands such as the operation has?
bool has_form(const Operation& operation, Parts parts, const Instruction& instruction) {
    const auto inputs = std::ranges::count_if(instruction.in, [](int32_t place) { return place != kNone; });
    const bool has_result = instruction.out[0] != kNone;
    const bool has_address = instruction.address != kNone;
    return inputs >= operation.least_inputs && inputs <= operation.most_inputs &&
           (has_result == operation.has_result) && has_address == operation.has_address &&
           type_of(parts.back()).has_value() == operation.has_type &&
           std::all_of(parts.begin() + 1, parts.end(), [&](std::string_view part) {
               return (operation.has_type && type_of(part)) || is_word_of(operation.modifiers, part);
           });
}

}  // namespace

std::optional<Type> type_of(std::string_view part) {
    const auto* const found = std::ranges::find(kTypes, part, &std::pair<std::string_view, Type>::first);
    return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

uint8_t mode_of(Parts parts, std::span<const Mode> modes, uint8_t otherwise) {
    for (const Mode& mode : modes) {
        if (has_part(parts, mode.part)) {
            return mode.mode;
        }
    }
    return otherwise;
}

bool has_part(Parts parts, std::string_view part) {
    return std::ranges::find(parts, part) != parts.end();
}

bool has_result(std::string_view opcode) {
    const auto found = operations().find(opcode.substr(0, opcode.find('.')));
    return found == operations().end() || found->second.has_result;
}

void decode_opcode(std::string_view opcode, Instruction& instruction) {
    const std::vector<std::string_view> parts = split(opcode);
    const auto found = operations().find(parts.front());
    if (found != operations().end() && has_form(found->second, parts, instruction)) {
        const Type type = type_of(parts.back()).value_or(Type::B32);
        instruction.is_saturating = has_part(parts, "sat");
        instruction.execute = found->second.decode(parts, type, instruction);
    }
    if (instruction.execute == nullptr) {
        throw EmulationError(std::string("`").append(opcode).append("` is not known"));
    }
}

}  // namespace metol::emulated
