// Loads, stores, and updates that nobody interrupts (PTX ISA, §9.7.9.8 to §9.7.13.5).
#include <algorithm>

#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

uint64_t address_of(const Thread& thread, const Instruction& i) {
    return thread.registers[i.address] + static_cast<uint64_t>(i.offset);
}

constexpr std::array<Mode, 5> kSpaces = {{
    {"global", static_cast<uint8_t>(Space::Global)},
    {"const", static_cast<uint8_t>(Space::Global)},
    {"shared", static_cast<uint8_t>(Space::Shared)},
    {"local", static_cast<uint8_t>(Space::Local)},
    {"param", static_cast<uint8_t>(Space::Parameter)},
}};

void note_space(Parts parts, Instruction& instruction) {
    instruction.space = static_cast<Space>(mode_of(parts, kSpaces));
}

// A vector is one access, as wide as all its elements: they must be aligned together (§6.4.2).
struct Load {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        const uint8_t* bytes = thread.block->load_from(thread, i, address_of(thread, i), i.count * sizeof(T));
        for (size_t k = 0; k < i.count; k++) {
            T value;
            std::memcpy(&value, bytes + k * sizeof(T), sizeof(T));
            // A narrow integer fills the register that it goes to.
            if constexpr (std::is_integral_v<T>) {
                thread.registers[i.out[k]] = static_cast<uint64_t>(static_cast<int64_t>(value));
            } else {
                set<T>(thread, i.out[k], value);
            }
        }
    }
};

struct Store {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        constexpr size_t kMost = std::tuple_size_v<decltype(i.in)>;
        std::array<uint8_t, kMost * sizeof(T)> bytes{};
        for (size_t k = 0; k < std::min<size_t>(i.count, kMost); k++) {
            std::memcpy(bytes.data() + k * sizeof(T), &thread.registers[i.in[k]], sizeof(T));
        }
        thread.block->store_to(thread, i, address_of(thread, i), bytes.data(), i.count * sizeof(T));
    }
};

enum Update : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompareAndSwap, kNoUpdate };

constexpr std::array<Mode, 8> kUpdates = {{
    {"add", kAdd},
    {"min", kMin},
    {"max", kMax},
    {"and", kAnd},
    {"or", kOr},
    {"xor", kXor},
    {"exch", kExchange},
    {"cas", kCompareAndSwap},
}};

template <typename T>
T updated(uint8_t mode, T old, T value, T swapped) {
    switch (mode) {
        case kAdd:
            return static_cast<T>(old + value);
        case kMin:
            return value < old ? value : old;
        case kMax:
            return value > old ? value : old;
        case kExchange:
            return value;
        case kCompareAndSwap:
            return old == value ? swapped : old;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(mode == kAnd ? old & value : mode == kOr ? old | value : old ^ value);
    }
    return old;
}

// One thread after the other runs, so none comes between.
struct Atomic {
    template <typename T>
    static void run(Thread& thread, const Instruction& i) {
        uint8_t* bytes = thread.block->update_at(thread, i, address_of(thread, i), sizeof(T));
        T old;
        std::memcpy(&old, bytes, sizeof(T));
        const T swapped = i.in[1] == kNone ? T(0) : get<T>(thread, i.in[1]);
        const T value = updated(i.mode, old, get<T>(thread, i.in[0]), swapped);
        std::memcpy(bytes, &value, sizeof(T));
        if (i.out[0] != kNone) {
            set<T>(thread, i.out[0], old);
        }
    }
};

template <typename Op>
Execute decode_access(Parts parts, Type type, Instruction& instruction) {
    note_space(parts, instruction);
    const int count = has_part(parts, "v4") ? 4 : has_part(parts, "v2") ? 2 : 1;
    return instruction.count == count ? of_number<Op>(type) : nullptr;
}

Execute decode_atomic(Parts parts, Type type, Instruction& instruction) {
    note_space(parts, instruction);
    instruction.mode = mode_of(parts, kUpdates, kNoUpdate);
    const bool is_swap = instruction.mode == kCompareAndSwap;
    const bool is_whole = instruction.mode != kNoUpdate && is_swap == (instruction.in[1] != kNone);
    return is_whole ? of_number<Atomic>(type) : nullptr;
}

constexpr std::string_view kLoadModifiers =
    "global shared local const param nc volatile weak relaxed sys gpu cta v2 v4";
constexpr std::string_view kStoreModifiers = "global shared local volatile weak relaxed sys gpu cta v2 v4";
constexpr std::string_view kAtomicModifiers =
    "global shared relaxed acquire release acq_rel sys gpu cta noftz add min max and or xor exch cas";

}  // namespace

void add_memory_accesses(OperationTable& table) {
    const Operation load = {.decode = decode_access<Load>, .modifiers = kLoadModifiers, .has_address = true};
    table["ld"] = load;
    table["ldu"] = load;
    table["st"] = {.decode = decode_access<Store>,
                   .least_inputs = 1,
                   .most_inputs = 4,
                   .modifiers = kStoreModifiers,
                   .has_result = false,
                   .has_address = true};
    Operation atomic = {.decode = decode_atomic,
                        .least_inputs = 1,
                        .most_inputs = 2,
                        .modifiers = kAtomicModifiers,
                        .has_address = true};
    table["atom"] = atomic;
    atomic.has_result = false;
    table["red"] = atomic;
}

}  // namespace metol::emulated
