// Where lowering guards the loops of a Func (lower/tails.py), and what that leaves unknown when Halide compiles.
//
// A Func whose loops go a little too far costs nothing, unless it would read beyond an input: those loops are cut short
// by a guard, and nothing that is computed inside them and grows with them has a constant extent.
#pragma once

#include "schedule/growth.hpp"
#include "schedule/regions.hpp"

namespace metol::cpu {

// Does a Stage, or what is inlined into it, use a loaded value as a coordinate?
bool indexes_by_value(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// Does a Func's loop along a dimension end with a guard, in the version for large outputs?
bool is_guarded(const PipelineIndex& index, const LoopNest& nest, int func, int dim);

// Does a Stage of a Func with updates compute whole tiles along a loop, without a guard, if no value that it loads is a
// coordinate, and those are vectors or a window slides over them?
bool rounds_tiles_up(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop);

// The same of the loop that runs in vectors.
bool rounds_vectors_up(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// Has the version of an output for large sizes one within for the estimated extent of a side, as it does of those that
// are whole where another Func is computed?
bool has_exact_side(const PipelineIndex& index, const LoopNest& nest, int output, int dim);

// Does Halide know how far apart the first and the last point of a computed Func are that are stored at once?
bool has_constant_extent(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func, int dim);

// Do vectors of an update store to places that Halide writes in another way than those they load from? The compiler
// then takes them for different, and each step of a reduction goes through memory. So Halide 21 does with Tuples at
// root whose beginning it does not know, where loops on two levels turn around a vector.
bool hides_places(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// The dimensions along which Halide does not know how far apart in memory neighbours are.
DimSet unknown_strides(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

}  // namespace metol::cpu
