// One step of the search, as plain integers: what records, other machines and replay carry.
//
// The decisions of a Func come in a fixed order: its location, then for each of its Stages an inner tile, the places of
// its reduction loops if it has any, and a parallel tile (Adams et al. 2019, §3.1, whose second choice is these
// together). A Func that is inlined, or computed below root, has nothing left to choose in some of them: those have one
// child, `Keep`. Then comes its storage, and whether its rows are padded. After all Funcs, Stages may share the outer
// loops of others, and ask ahead for what they read.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace metol {

// Loops of a Stage and dimensions of a Func that the core can hold. Extraction refuses more.
inline constexpr int kMaxLoops = 12;

// The version of the decision encoding below; a path of another version is refused by replay.
inline constexpr int kDecisionVersion = 2;

enum class DecisionKind : uint8_t {
    Keep,       // nothing to choose
    Inline,     // compute the Func at each use
    Root,       // compute and store it before everything else
    At,         // compute it inside a loop of a consumer
    Inner,      // the innermost tile of a Stage: vector loop, width, unrolling
    Parallel,   // the parallel tile of a Stage at root
    Reduction,  // the reduction loops of an update: unrolled, inside the serial loops, outside them, or in blocks
    Storage,    // where the storage of a Func computed inside another lies
    Fuse,       // run a Stage in the outer loops of another: `level` of Stage trips[0]
    Align,      // whether the rows of a Func are padded to whole vectors
    Prefetch,   // ask for what the next iteration of loop trips[1] of `level` reads of Func trips[0]
};

struct Decision {
    DecisionKind kind = DecisionKind::Keep;
    int16_t func = -1;
    int16_t stage = -1;  // Stage id for Inner and Parallel; the host Stage for At
    int8_t level = -1;   // At: compute in the body of this level of the host (after `split`, if any)
    // At: the host's level is first split so that its inner part has `trips` iterations; 1 = yes. On a GPU a reduction
    // loop of it (targets/gpu/copies.hpp).
    int8_t is_split = 0;
    int8_t is_sliding = 0;  // At: store in the body just outside, so that a window slides
    int8_t vector_loop = -1;
    int16_t vector_width = 1;
    // Reduction: how many reduction loops, from the outermost, run outside all serial pure loops. Inner, on a GPU: 1
    // where the reduction loops are spread over threads, too, which update atomically.
    int8_t outside = 0;
    int32_t block = 0;  // Reduction: tiles of the next reduction loop that run inside; 0 for all
    // At: inner trips; Inner: the tile in points; Parallel: tasks a loop; Reduction: points unrolled a reduction loop;
    // Storage: trips[0] is a Storage; Align: rows are padded to a multiple of trips[0] elements
    std::array<int32_t, kMaxLoops> trips{};
    bool operator==(const Decision&) const = default;
};

// Where the storage of a Func computed inside another lies.
enum class Storage : int8_t {
    Plain,    // where Halide puts it, allocated once a realization
    Stack,    // on the stack
    Hoisted,  // allocated once a task
};

// Why a candidate is not a state. Counted by Space::pruned_counts.
enum class Pruned : uint8_t {
    None,
    NotInlinable,            // has updates, is an output, is extern
    RecomputesTooMuch,       // a value computed more than ten times (Adams et al. 2019, §3.2)
    ExpressionTooLong,       // with all that is inlined written out, past what Halide lowers in seconds
    NothingToSlide,          // no overlap between iterations, or more than one dimension moves
    SlidesOverManyLoops,     // the loops between storage and computation are not single-dimensional (§3.2)
    StackOverflows,          // a window on the stack would no longer be folded, and be too large for it
    WarmsUpOutside,          // a window's first filling would read an input beyond what is needed of it
    AsksForMore,             // inside outputs of other sizes, an input would be read beyond what is needed of it
    SplitsSlidingLoop,       // a window already slides over the loop to be split
    StorageOutsideParallel,  // a parallel loop between storage and computation is a race
    DegenerateSplit,         // leaves an outer or inner loop of one iteration: another candidate is the same
    TooFewTasks,             // fewer parallel tasks than cores (§3.2), or blocks than multiprocessors
    TooManyTasks,            // more than 16 tasks a core (§3.2)
    CannotShareLoops,        // a Stage and its leader differ in place or loops, or one waits for the other
    NestTooDeep,             // hosts within hosts, or Funcs in one sub-nest, past what Halide compiles in seconds
    TileTooLarge,            // more than 16 vectors unrolled (§3.3), or points of one thread
    TooManyThreads,          // a block holds more threads than the GPU has for one (Anderson et al. 2021, §4.6)
    TooMuchSharedMemory,     // a block stores more than its multiprocessor has for it (the same)
    TooManyRegisters,        // a thread keeps more than it has registers for (the same)
    IdleLanes,               // less than half of the threads of its warps work (the same)
    NothingShared,           // a copy of values that are hardly loaded more often than the copy loads them
    Restricted,              // switched off by Space::restrict
    InvalidDecision,         // replayed on a pipeline that it does not fit
    Count,
};

const char* pruned_name(Pruned reason);

}  // namespace metol
