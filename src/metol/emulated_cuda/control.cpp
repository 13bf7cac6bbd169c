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

void wait_for_block(Thread& thread, const Instruction& i) {
    if (thread.registers[i.in[0]] != 0) {
        throw thread.block->fault(Fault::InvalidPtx, thread, i, "a barrier other than the first is not known");
    }
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

Execute decode_barrier(Parts parts, Type, Instruction&) {
    return has_part(parts, "sync") ? &wait_for_block : nullptr;
}

template <Execute kRun>
Execute decode_as(Parts, Type, Instruction&) {
    return kRun;
}

}  // namespace

void add_control(OperationTable& table) {
    const auto plain = [](Operation::Decode decode, std::string_view modifiers) {
        return Operation{.decode = decode, .modifiers = modifiers, .has_result = false, .has_type = false};
    };
    table["bra"] = plain(decode_as<jump>, "uni");
    table["ret"] = plain(decode_as<end>, "uni");
    table["exit"] = plain(decode_as<end>, "");
    table["trap"] = plain(decode_as<trap>, "");
    table["membar"] = plain(decode_as<do_nothing>, "cta gl sys");
    table["fence"] = plain(decode_as<do_nothing>, "sc acq_rel cta gpu sys");
    Operation barrier = plain(decode_barrier, "sync aligned cta");
    barrier.least_inputs = barrier.most_inputs = 1;
    table["bar"] = barrier;
    table["barrier"] = barrier;
    table["shfl"] = {decode_shuffle, 4, 4, "sync up down bfly idx"};
}

}  // namespace metol::emulated
