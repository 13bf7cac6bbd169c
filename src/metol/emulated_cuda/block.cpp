#include "emulated_cuda/block.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

namespace metol::emulated {

namespace {

constexpr uint64_t kUnspecified = 0xffffffff;

size_t product(const Extents& extents) {
    return static_cast<size_t>(extents[0]) * static_cast<size_t>(extents[1]) * static_cast<size_t>(extents[2]);
}

std::string text_of(const Extents& extents) {
    return std::to_string(extents[0]) + "," + std::to_string(extents[1]) + "," + std::to_string(extents[2]);
}

Extents place_of(int32_t number, const Extents& extents) {
    return {number % extents[0], number / extents[0] % extents[1], number / extents[0] / extents[1]};
}

// The lane that a lane takes its value from; nothing where that is outside of its segment (§9.7.9.6).
std::optional<int32_t> source_lane(Shuffle kind, int32_t lane, uint32_t argument, uint32_t clamp) {
    const auto own = static_cast<uint32_t>(lane);
    const uint32_t by = argument & 31U;
    const uint32_t segment = clamp >> 8U & 31U;
    const uint32_t least = own & segment;
    const uint32_t most = least | (clamp & 31U & ~segment);
    int32_t from = lane;
    bool is_inside = true;
    switch (kind) {
        case Shuffle::Up:
            from = lane - static_cast<int32_t>(by);
            is_inside = from >= static_cast<int32_t>(most);
            break;
        case Shuffle::Down:
            from = lane + static_cast<int32_t>(by);
            is_inside = from <= static_cast<int32_t>(most);
            break;
        case Shuffle::Butterfly:
            from = static_cast<int32_t>(own ^ by);
            is_inside = from <= static_cast<int32_t>(most);
            break;
        case Shuffle::Index:
            from = static_cast<int32_t>(least | (by & ~segment));
            is_inside = from <= static_cast<int32_t>(most);
            break;
    }
    return is_inside ? std::optional(from) : std::nullopt;
}

}  // namespace

Block::Block(const Launch& launch, GlobalMemory& global)
    : launch_(launch),
      kernel_(*launch.kernel),
      global_(global),
      shared_(static_cast<size_t>(kernel_.static_shared_bytes + launch.shared_bytes)),
      registers_(product(launch.threads) * kernel_.registers.size()),
      local_(product(launch.threads) * static_cast<size_t>(kernel_.local_bytes)),
      threads_(product(launch.threads)) {}

void Block::start(const Extents& index) {
    index_ = index;
    shared_.clear();
    std::ranges::fill(local_, kUnwritten);
    for (size_t i = 0; i < threads_.size(); i++) {
        Thread& thread = threads_[i];
        uint64_t* registers = registers_.data() + i * kernel_.registers.size();
        std::ranges::copy(kernel_.registers, registers);
        const auto number = static_cast<int32_t>(i);
        const Extents place = place_of(number, launch_.threads);
        for (size_t d = 0; d < place.size(); d++) {
            registers[kTid + d] = static_cast<uint64_t>(place[d]);
            registers[kNtid + d] = static_cast<uint64_t>(launch_.threads[d]);
            registers[kCtaid + d] = static_cast<uint64_t>(index[d]);
            registers[kNctaid + d] = static_cast<uint64_t>(launch_.blocks[d]);
        }
        registers[kLane] = static_cast<uint64_t>(number % kWarpThreads);
        registers[kWarp] = static_cast<uint64_t>(number / kWarpThreads);
        thread = {this,   registers, local_.data() + i * static_cast<size_t>(kernel_.local_bytes),
                  number, 0,         Wait::Nothing};
    }
}

void Block::run(const Extents& index) {
    start(index);
    while (true) {
        for (Thread& thread : threads_) {
            run_until_wait(thread);
        }
        const auto waits_for = [](Wait wait) { return [wait](const Thread& thread) { return thread.wait == wait; }; };
        if (std::ranges::any_of(threads_, waits_for(Wait::Shuffle))) {
            pass_shuffles();
            continue;
        }
        if (std::ranges::none_of(threads_, waits_for(Wait::Barrier))) {
            return;
        }
        // All that have not ended wait for the barrier.
        shared_.pass_barrier();
        for (Thread& thread : threads_) {
            thread.wait = thread.wait == Wait::Barrier ? Wait::Nothing : thread.wait;
        }
    }
}

void Block::run_until_wait(Thread& thread) {
    const Instruction* code = kernel_.code.data();
    while (thread.wait == Wait::Nothing) {
        const Instruction& instruction = code[thread.next++];
        if (instruction.guard != kNone && (thread.registers[instruction.guard] != 0) == instruction.is_guard_negated) {
            continue;
        }
        instruction.execute(thread, instruction);
    }
}

void Block::pass_shuffles() {
    for (size_t first = 0; first < threads_.size(); first += kWarpThreads) {
        const std::span<Thread> warp(threads_.data() + first, std::min<size_t>(kWarpThreads, threads_.size() - first));
        const auto waiting =
            std::ranges::find_if(warp, [](const Thread& thread) { return thread.wait == Wait::Shuffle; });
        if (waiting != warp.end()) {
            shuffle(warp, kernel_.code[static_cast<size_t>(waiting->next) - 1]);
        }
    }
}

bool Block::waits_at(const Thread& thread, const Instruction& instruction) const {
    return thread.wait == Wait::Shuffle && &kernel_.code[static_cast<size_t>(thread.next) - 1] == &instruction;
}

// All lanes of the mask that have not ended take part, and no others (§9.7.9.6).
void Block::check_shuffle(std::span<const Thread> warp, const Instruction& instruction, uint32_t mask) const {
    for (const Thread& thread : warp) {
        const bool is_named = (mask >> (thread.number % kWarpThreads) & 1U) != 0;
        const bool is_here = waits_at(thread, instruction);
        if (is_named != is_here && thread.wait != Wait::End) {
            throw fault(Fault::IllegalInstruction, thread, instruction,
                        is_named ? "lanes exchange values with one that is elsewhere" : "a lane is not in its mask");
        }
    }
}

void Block::shuffle(std::span<Thread> warp, const Instruction& instruction) {
    const auto first = std::ranges::find_if(warp, [&](const Thread& one) { return waits_at(one, instruction); });
    check_shuffle(warp, instruction, static_cast<uint32_t>(first->registers[instruction.in[3]]));
    // What comes of a lane that takes no part is not specified.
    std::array<uint64_t, kWarpThreads> values{};
    values.fill(kUnspecified);
    std::array<bool, kWarpThreads> takes_part{};
    for (size_t i = 0; i < warp.size(); i++) {
        takes_part[i] = waits_at(warp[i], instruction);
        values[i] = takes_part[i] ? warp[i].registers[instruction.in[0]] & kUnspecified : kUnspecified;
    }
    for (size_t i = 0; i < warp.size(); i++) {
        if (!takes_part[i]) {
            continue;
        }
        Thread& thread = warp[i];
        const auto argument = static_cast<uint32_t>(thread.registers[instruction.in[1]]);
        const auto clamp = static_cast<uint32_t>(thread.registers[instruction.in[2]]);
        const auto kind = static_cast<Shuffle>(instruction.mode);
        const auto source = source_lane(kind, static_cast<int32_t>(i), argument, clamp);
        thread.wait = Wait::Nothing;
        thread.registers[instruction.out[0]] = values[static_cast<size_t>(source.value_or(static_cast<int32_t>(i)))];
        if (instruction.out[1] != kNone) {
            thread.registers[instruction.out[1]] = source ? 1 : 0;
        }
    }
}

Block::Place Block::place(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes) const {
    if (address % bytes != 0) {
        throw fault(Fault::MisalignedAddress, thread, instruction,
                    "address " + std::to_string(address) + " is no multiple of " + std::to_string(bytes));
    }
    Space space = instruction.space;
    uint64_t offset = address;
    if (space == Space::Generic) {
        const uint64_t window = address & ~(kWindowBytes - 1);
        space = window == kSharedWindow ? Space::Shared : window == kLocalWindow ? Space::Local : Space::Global;
        offset = space == Space::Global ? address : address - window;
    }
    const auto inside = [&](size_t size) { return offset <= size && bytes <= size - offset; };
    switch (space) {
        case Space::Shared:
            if (inside(shared_.size())) {
                return {space, offset, nullptr};
            }
            break;
        case Space::Local:
            if (inside(static_cast<size_t>(kernel_.local_bytes))) {
                return {space, offset, thread.local + offset};
            }
            break;
        case Space::Parameter:
            if (inside(launch_.parameters.size())) {
                return {space, offset, const_cast<uint8_t*>(launch_.parameters.data()) + offset};
            }
            break;
        default:
            if (global_.holds(address, bytes)) {
                return {space, address, reinterpret_cast<uint8_t*>(address)};
            }
    }
    static constexpr std::array<const char*, 5> kNames = {"global", "global", "shared", "local", "parameter"};
    throw fault(Fault::IllegalAddress, thread, instruction,
                std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of " +
                    kNames[static_cast<size_t>(space)] + " memory, which is not there");
}

uint8_t* Block::load_from(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes) {
    const Place found = place(thread, instruction, address, bytes);
    if (found.space != Space::Shared) {
        return found.bytes;
    }
    if (!shared_.note_load(found.offset, bytes, thread.number)) {
        throw race(thread, instruction, found.offset);
    }
    return shared_.at(found.offset);
}

void Block::store_to(const Thread& thread, const Instruction& instruction, uint64_t address, const uint8_t* value,
                     size_t bytes) {
    const Place found = place(thread, instruction, address, bytes);
    if (found.space != Space::Shared) {
        std::memcpy(found.bytes, value, bytes);
        return;
    }
    if (!shared_.note_store(found.offset, value, bytes, thread.number)) {
        throw race(thread, instruction, found.offset);
    }
    std::memcpy(shared_.at(found.offset), value, bytes);
}

uint8_t* Block::update_at(const Thread& thread, const Instruction& instruction, uint64_t address, size_t bytes) {
    const Place found = place(thread, instruction, address, bytes);
    if (found.space != Space::Shared) {
        return found.bytes;
    }
    if (!shared_.note_update(found.offset, bytes, thread.number)) {
        throw race(thread, instruction, found.offset);
    }
    return shared_.at(found.offset);
}

FaultError Block::race(const Thread& thread, const Instruction& instruction, uint64_t offset) const {
    return fault(Fault::LaunchFailed, thread, instruction,
                 "two threads go to byte " + std::to_string(offset) +
                     " of shared memory without a barrier between them, and one of them changes it");
}

FaultError Block::fault(Fault code, const Thread& thread, const Instruction& instruction,
                        const std::string& what) const {
    std::ostringstream text;
    text << "kernel " << kernel_.name << ", line " << instruction.line << " of its PTX, block " << text_of(index_)
         << ", thread " << text_of(place_of(thread.number, launch_.threads)) << ": " << what;
    return {code, text.str()};
}

void run_launch(const Launch& launch, GlobalMemory& global) {
    Block block(launch, global);
    for (int32_t z = 0; z < launch.blocks[2]; z++) {
        for (int32_t y = 0; y < launch.blocks[1]; y++) {
            for (int32_t x = 0; x < launch.blocks[0]; x++) {
                block.run({x, y, z});
            }
        }
    }
}

}  // namespace metol::emulated
