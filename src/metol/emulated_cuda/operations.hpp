// From the opcode of a PTX instruction to what runs it.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>

#include "emulated_cuda/code.hpp"
#include "emulated_cuda/typed.hpp"

namespace metol::emulated {

template <typename T>
constexpr int kBits = static_cast<int>(8 * sizeof(T));

using Parts = std::span<const std::string_view>;

struct Operation {
    // Returns what runs an opcode, given its parts and its type, and notes its modes in the instruction, whose operands
    // are there; nullptr where it has no such form.
    using Decode = Execute (*)(Parts parts, Type type, Instruction& instruction);
    Decode decode = nullptr;
    int least_inputs = 0;
    int most_inputs = 0;
    // Parts that it may have beside its name and its types, with spaces between: whatever else there is may change
    // what it does.
    std::string_view modifiers = {};
    bool has_result = true;    // its first operand is written to
    bool has_type = true;      // its last part is one
    bool has_address = false;  // one operand is
};

using OperationTable = std::unordered_map<std::string_view, Operation>;

void add_arithmetic(OperationTable& table);
void add_bits(OperationTable& table);
void add_carries(OperationTable& table);
void add_functions(OperationTable& table);
void add_conversions(OperationTable& table);
void add_memory_accesses(OperationTable& table);
void add_control(OperationTable& table);

// `add.cc`, `sub.cc` and `mad.cc`: forms of what is also done without a carry.
Execute decode_carrying_sum(Parts parts, Type type, Instruction& instruction);
Execute decode_carrying_product(Parts parts, Type type, Instruction& instruction);

// Is the first operand of an opcode written to?
bool has_result(std::string_view opcode);

// Fills in what runs an instruction whose operands are there, given its opcode.
//
// Throws EmulationError where nothing does.
void decode_opcode(std::string_view opcode, Instruction& instruction);

}  // namespace metol::emulated
