// One block of a launch: its threads run one after the other, each up to the next barrier or shuffle.
#pragma once

#include <array>
#include <span>

#include "emulated_cuda/code.hpp"
#include "emulated_cuda/memory.hpp"

namespace metol::emulated {

using Extents = std::array<int32_t, 3>;

struct Launch {
    const Kernel* kernel = nullptr;
    Extents blocks{};
    Extents threads{};
    int64_t shared_bytes = 0;  // beside those that the kernel names
    std::vector<uint8_t> parameters;
};

// What a thread waits for.
enum class Wait : uint8_t { Nothing, Barrier, Shuffle, End };

class Block;

struct Thread {
    Block* block = nullptr;
    uint64_t* registers = nullptr;
    uint8_t* local = nullptr;
    int32_t number = 0;  // in its block
    int32_t next = 0;    // instruction
    Wait wait = Wait::Nothing;
    uint8_t carry = 0;  // of the instruction before, for integers longer than a register
};

class Block {
  public:
    Block(const Launch& launch, GlobalMemory& global);

    // Runs all threads of one block to their ends.
    void run(const Extents& index);

    // Where an instruction finds `bytes` at an address, after all checks.
    uint8_t* load_from(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes);
    void store_to(const Thread& thread, const Instruction& instruction, uint64_t address, const uint8_t* value,
                  size_t bytes);
    // The same for one that does both at once.
    uint8_t* update_at(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes);

    // A fault of an instruction, with the place where it happened.
    FaultError fault(Fault code, const Thread& thread, const Instruction& instruction, const std::string& what) const;

  private:
    struct Place {
        Space space = Space::Global;
        uint64_t offset = 0;  // an address of global memory
        uint8_t* bytes = nullptr;
    };

    void start(const Extents& index);
    void run_until_wait(Thread& thread);
    void pass_shuffles();
    bool waits_at(const Thread& thread, const Instruction& instruction) const;
    void shuffle(std::span<Thread> warp, const Instruction& instruction);
    void check_shuffle(std::span<const Thread> warp, const Instruction& instruction, uint32_t mask) const;
    Place place(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes) const;
    FaultError race(const Thread& thread, const Instruction& instruction, uint64_t offset) const;

    const Launch& launch_;
    const Kernel& kernel_;
    GlobalMemory& global_;
    SharedMemory shared_;
    std::vector<uint64_t> registers_;  // [threads][registers]
    std::vector<uint8_t> local_;       // [threads][bytes]
    std::vector<Thread> threads_;
    Extents index_{};
};

// How a shuffle chooses the lane to take a value from (§9.7.9.6).
enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

// Runs all blocks of a launch.
void run_launch(const Launch& launch, GlobalMemory& global);

}  // namespace metol::emulated
