// Jumps, ends, barriers, and what the lanes of a warp tell each other (PTX ISA, §9.7.12, §9.7.13 and §9.7.9.6).
#include "emulated_cuda/operations.hpp"

namespace metol::emulated {

namespace {

void jump(Thread& thread, const Instruction& i) {
    thread.next = i.target;
}

void end(Thread& thread, const Instruction&) {
    thread.wait = Wait::End;
}

void wait_for_block(Thread& thread, const Instruction&) {
    thread.wait = Wait::Barrier;
}

void wait_for_warp(Thread& thread, const Instruction&) {
    thread.wait = Wait::Shuffle;
}

// Threads run one after the other, and see what was written before.
void do_nothing(Thread&, const Instruction&) {}

void trap(Thread& thread, const Instruction& i) {
    throw thread.block->fault(Fault::LaunchFailed, thread, i, "the kernel gives up");
}

constexpr std::array<Mode, 4> kShuffles = {{
    {"up", static_cast<uint8_t>(Shuffle::Up)},
    {"down", static_cast<uint8_t>(Shuffle::Down)},
    {"bfly", static_cast<uint8_t>(Shuffle::Butterfly)},
    {"idx", static_cast<uint8_t>(Shuffle::Index)},
}};

// Without `sync` lanes are taken to run together, which those of a Volta and after do not.
Execute decode_shuffle(Parts parts, Type, Instruction& instruction) {
    instruction.mode = mode_of(parts, kShuffles);
    return has_part(parts, "sync") ? &wait_for_warp : nullptr;
}

Execute decode_barrier(Parts parts, Type, Instruction& instruction) {
    if (has_part(parts, "warp")) {
        instruction.mode = static_cast<uint8_t>(Shuffle::Barrier);
        return &wait_for_warp;
    }
    return has_part(parts, "sync") ? &wait_for_block : nullptr;
}

template <Execute kRun>
Execute decode_as(Parts, Type, Instruction&) {
    return kRun;
}

}  // namespace

void add_control(OperationTable& table) {
    table["bra"] = {decode_as<jump>, false};
    table["ret"] = {decode_as<end>, false};
    table["exit"] = {decode_as<end>, false};
    table["trap"] = {decode_as<trap>, false};
    table["membar"] = {decode_as<do_nothing>, false};
    table["fence"] = {decode_as<do_nothing>, false};
    table["bar"] = {decode_barrier, false};
    table["barrier"] = {decode_barrier, false};
    table["shfl"] = {decode_shuffle};
}

}  // namespace metol::emulated
