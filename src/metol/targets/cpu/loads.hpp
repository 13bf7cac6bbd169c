// How many loads of which kind a tile of a Stage makes.
#pragma once

#include "schedule/reads.hpp"

namespace metol::cpu {

// Adams et al. 2019, appendix A: strides below five are loaded as that many dense vectors.
inline constexpr double kMaxDenseStride = 4;

// Loads of one tile of the Stage, by kind; shared across the tile where a value is loaded by several of its points.
struct TileLoads {
    double dense = 0;   // native vector registers
    double scalar = 0;  // broadcasts and gathered elements
    double apart = 0;   // elements of those dense registers that take every second, third or fourth place
};

struct TileShape {
    int vector_loop;
    int vector_width;
    int vector_bytes;
    size_t loops;  // of the Stage
    Trips points;
    bool is_lane_by_lane;  // a condition of each lane says whether it is loaded
    // Share of the loads whose lanes move between bounds that still clamp each lane, and so gather.
    double clamped_share;
    // Steps of a reduction that are lanes, too, next to each other: of them `points` has one.
    int32_t lane_steps = 1;
};

// What a tile asks to know of the storage of what it loads from.
struct Layout {
    double row_period;       // how many rows after one that starts on a native vector the next does
    DimSet unknown_strides;  // dimensions whose strides are not known when Halide compiles
};

// Different places that a tile asks an access for; the lanes of a vector count as one. Along dimensions that are
// `untold` the compiler takes none for another.
double places_in_tile(const EffectiveAccess& access, const TileShape& tile, DimSet untold);

// The same of places that differ along some dimensions.
double places_along(const EffectiveAccess& access, const TileShape& tile, DimSet untold, DimSet dims);

TileLoads loads_of_tile(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access,
                        const TileShape& tile, const Layout& layout);

// Do the lanes of a vector along this loop load neighbours, or few apart?
bool is_dense(const EffectiveAccess& access, int vector_loop, int innermost_dim);

// Is every lane of a vector along this loop loaded by itself?
bool is_gathered(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop);

// What one load of a point brings in at most: the points of a run along the vector loop share it.
struct RunShare {
    double runs = 1;   // places in memory that do not follow the one before
    double lines = 1;  // expected, at any alignment
};

// `run` points of a tile follow each other along `vector_loop`; -1 where the Stage has no vectors.
RunShare run_share(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, int vector_loop,
                   int run);

// Share of vectors that cross from one cache line into the next, of those at `taps` places along rows.
double straddling_share(double taps, double row_period, int vector_bytes);

}  // namespace metol::cpu
