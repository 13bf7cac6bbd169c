// What a Stage reads once everything inlined into it is looked through: boxes of bytes and kinds of load.
#pragma once

#include <vector>

#include "schedule/regions.hpp"

namespace metol::cpu {

// A load of a Func that is in memory: Jacobian over the loops of the reading Stage, inlined Funcs multiplied in.
struct EffectiveAccess {
    int producer = -1;
    double count = 1;                                     // distinct loads a point
    std::vector<std::array<double, kMaxLoops>> jacobian;  // [dimensions of the producer]; NaN where unknown
    std::vector<double> distinct;                         // [dimensions] different offsets
    bool is_clamped = false;                              // through an inlined boundary condition
};

// One inlined Func and how often a point of the reading Stage evaluates it.
struct InlinedUse {
    int func;
    double calls_per_point;
};

struct StageReads {
    std::vector<EffectiveAccess> accesses;
    std::vector<InlinedUse> inlined;
};

StageReads effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage);

struct ReadBox {
    int producer;
    Box box;
};

// Makes the box of `producer` in `boxes` hold this one, too.
void include(std::vector<ReadBox>& boxes, int producer, const Box& box);

// Puts the region of every producer in memory that `stage` reads while its loops cover `loops` into `found`.
void read_boxes(const PipelineIndex& index, const LoopNest& nest, int stage, const Box& loops,
                std::vector<ReadBox>& found);

// Loads of one tile of the Stage, by kind; shared across the tile where a value is loaded by several of its points.
struct TileLoads {
    double dense = 0;   // native vector registers
    double scalar = 0;  // broadcasts and gathered elements
};

struct TileShape {
    int vector_loop;
    int vector_width;
    int vector_bytes;
    Trips points;
    // Share of the loads through an inlined boundary condition that still clamp each lane, and so gather.
    double clamped_share;
};

TileLoads loads_of_tile(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const TileShape& tile);

}  // namespace metol::cpu
