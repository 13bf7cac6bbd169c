// What a Stage reads once everything inlined into it is looked through: Jacobians, and boxes of coordinates.
#pragma once

#include <bitset>
#include <memory>
#include <vector>

#include "schedule/growth.hpp"
#include "schedule/regions.hpp"

namespace metol {

// A load of a Func that is in memory: Jacobian over the loops of the reading Stage, inlined Funcs multiplied in.
struct EffectiveAccess {
    int producer = -1;
    double count = 1;                                     // distinct loads a point
    std::vector<std::array<double, kMaxLoops>> jacobian;  // [dimensions of the producer]; NaN where unknown
    std::vector<std::bitset<kMaxLoops>> phases;           // [dimensions of the producer] loops with a phase (x % 4)
    std::vector<std::bitset<kMaxLoops>> floats;           // [dimensions of the producer] loops of which it is rounded
    std::vector<double> distinct;                         // [dimensions] different offsets
    std::vector<Offset> offsets;                          // [count] in order; empty where they are not known
    bool is_clamped = false;                              // through an inlined boundary condition
    DimSet clamped;           // dimensions of the producer whose coordinate moves between bounds
    int step_ways = 0;        // on which a coordinate stays for several turns of a loop, as x / 2 does
    bool has_floats = false;  // on the way, a coordinate is a float
    int32_t part = 0;         // as `Access::part`
    double added_share = 0;   // of the loads, as `Edge::added_share`
};

// How a coordinate moves with a loop; NaN where that is not constant.
double slope_of(const JacobianRow& row, size_t loop);

// Does a coordinate move with a loop, or might it?
bool moves_with(const JacobianRow& row, size_t loop);

// Does it, as far as is known?
bool surely_moves_with(const JacobianRow& row, size_t loop);

// Does any coordinate of an access move with a loop, or might it?
bool moves_with(const Access& access, size_t loop);

// The same of an access of a Stage and its reduction loops.
bool moves_while_reducing(const Stage& stage, const Access& access);

// What an Access says by itself, where nothing is inlined.
EffectiveAccess direct_access(const Access& access, int producer);

// Does any of its coordinates move with a loop, or might it?
bool moves_with(const EffectiveAccess& access, size_t loop);

// How many places of a coordinate become of so many while a loop turns that moves it by a constant.
double places_after(double places, double slope, double turns);

// Loads of different places that `steps` of the loops of a Stage make together. Those of `apart`, and of loops that
// move a coordinate nobody knows how, are all different; -1 for none apart. So are those of loops that move a
// coordinate whose stride in memory is `unknown` to the compiler, which cannot tell (y + 1) + 1 from y + 2.
double distinct_loads(const EffectiveAccess& access, size_t loops, const Trips& steps, int apart, DimSet unknown = {});

// One inlined Func and how often a point of the reading Stage evaluates it: once at each position, however many
// expressions ask for it there, for compilers share what is equal.
struct InlinedUse {
    int func;
    double calls_per_point;
    double added_per_point;               // of the calls, those whose product is part of an addition of what reads them
    std::vector<EffectiveAccess> places;  // where the reading Stage evaluates it; how many offsets, but not which
};

struct StageReads {
    std::vector<EffectiveAccess> accesses;
    std::vector<InlinedUse> inlined;
};

// Each thread keeps what it has worked out, for loop nests that are looked at one after the other differ in little.
// `inlined` is of this loop nest.
std::shared_ptr<const StageReads> effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage,
                                                  FuncTable& inlined);
std::shared_ptr<const StageReads> effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage);

// The Stages that read `func`, looking through what is inlined.
std::vector<int> readers_of(const PipelineIndex& index, const LoopNest& nest, int func);

// Hashes which Funcs are inlined into `func`: all of the loop nest that `effective_reads` of its Stages depend on.
uint64_t inlined_hash(const PipelineIndex& index, const LoopNest& nest, int func, FuncTable& known);

struct ReadBox {
    int producer;
    Box box;
};

// Boxes that the points of one Func are in at most, where they lie apart.
inline constexpr int kBoxesApart = 4;

// Makes a box hold another one, too, and returns true; unless they may lie apart, and a box around both would be larger
// than the two.
bool include(Box& existing, const Box& box, bool may_be_apart);

// Makes the boxes of `producer` hold this one, too: its only one, or one of several that lie apart.
void include(const PipelineIndex& index, std::vector<ReadBox>& boxes, int producer, const Box& box);

// Puts the region of every producer in memory that `stage` reads while its loops cover `loops` into `found`: one box
// each, or several, one after the other, of what is read crosswise.
void read_boxes(const PipelineIndex& index, const LoopNest& nest, int stage, const Box& loops,
                std::vector<ReadBox>& found);

}  // namespace metol
