// Code for CUDA as the emulator runs it: instructions whose operands are all registers, and what a kernel is launched
// with.
//
// Enters: PTX (parser.hpp). Leaves: kernels (block.hpp runs them). Source: NVIDIA, Parallel Thread Execution ISA 8.5;
// sections are named where they decide something.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace metol::emulated {

struct Thread;
struct Instruction;

// What an instruction does to the thread that runs it.
using Execute = void (*)(Thread& thread, const Instruction& instruction);

inline constexpr int32_t kNone = -1;

// Where an address leads. A generic address leads to one of the others (§5.2): windows of it are set aside for shared
// and local memory, all else is global.
enum class Space : uint8_t { Generic, Global, Shared, Local, Parameter };

struct Instruction {
    Execute execute = nullptr;
    std::array<int32_t, 4> out = {kNone, kNone, kNone, kNone};  // registers
    std::array<int32_t, 4> in = {kNone, kNone, kNone, kNone};
    int32_t address = kNone;  // the register that an address is counted from
    int32_t guard = kNone;    // the predicate it depends on
    bool is_guard_negated = false;
    bool is_saturating = false;
    uint8_t mode = 0;   // how to round, compare or shuffle: of the enumeration that belongs to the operation
    uint8_t count = 1;  // elements that are loaded, stored, packed or unpacked
    Space space = Space::Generic;
    int64_t offset = 0;  // of an address
    int32_t target = 0;  // the instruction that is jumped to
    int32_t line = 0;    // of the PTX
};

struct Parameter {
    int64_t offset = 0;
    int64_t bytes = 0;
};

struct Kernel {
    std::string name;
    std::vector<Parameter> parameters;
    int64_t parameter_bytes = 0;
    int64_t static_shared_bytes = 0;
    int64_t local_bytes = 0;
    std::vector<uint64_t> registers;  // what each thread starts with: constants, and zeros
    std::vector<Instruction> code;
};

// The registers that a launch fills in, the same in every kernel: numbers of the thread and of its block, and how many
// there are of both, x, y and z of each; then the lane and the warp.
enum SpecialRegister : int32_t { kTid = 0, kNtid = 3, kCtaid = 6, kNctaid = 9, kLane = 12, kWarp = 13, kSpecials = 14 };

struct Module {
    std::map<std::string, Kernel> kernels;
    // Variables in global and constant memory, by name.
    std::map<std::string, std::vector<uint8_t>> variables;
};

inline constexpr int32_t kWarpThreads = 32;

// Windows of generic addresses. No pointer of a process lies in either.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = uint64_t{0x7e} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{0x7f} << 56;

// What is wrong with PTX, or with what it does: its text names the place.
class EmulationError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// What a device would refuse, or must not be asked: the codes are those of CUresult.
enum class Fault : int32_t {
    InvalidPtx = 218,
    IllegalAddress = 700,
    MisalignedAddress = 716,
    IllegalInstruction = 715,
    LaunchFailed = 719,
};

class FaultError : public EmulationError {
  public:
    FaultError(Fault fault, const std::string& text) : EmulationError(text), fault(fault) {}
    Fault fault;
};

}  // namespace metol::emulated
