// Where the storage of a Func computed inside another lies and how often it is allocated: the last decision on a Func.
//
// Halide 21 puts what has a small constant size on the stack, and calls malloc for the rest once a realization. Two
// directives change that: `store_in(Stack)`, a block of the stack or one kept from one realization to the next, and
// `hoist_storage`, one allocation a task. Not offered, as it changed no measured time: `store_in(Register)`, the same
// code as the stack where the size has a constant bound and an error where it has none. Folding is left to Halide,
// which does not fold every window that slides (sliding.hpp); a factor of ours that is too small fails at run time.
#pragma once

#include "schedule/regions.hpp"
#include "targets/base.hpp"

namespace metol::cpu {

// Does the Stage read an input itself? Its splits are then guarded, as far as it is not an output's.
bool reads_input(const PipelineIndex& index, const LoopNest& nest, int stage);

// What the storage of a computed Func holds at once; of a window that slides, what is alive.
const Box& stored_box(const LoopNest& nest, Regions& regions, int func);

// Bytes behind a computed Func, those included that pad its rows, and those of a window that is not folded.
double storage_bytes(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

// Elements from one row of so many to the next, those included that pad it.
int64_t padded_row(const FuncSchedule& schedule, int64_t elements);

// Elements between neighbours along a dimension of a computed Func.
int64_t stride_of(const LoopNest& nest, Regions& regions, int func, int dim);

// How often the storage of a computed Func is allocated afresh in the whole run.
double allocation_count(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

// Does each allocation call malloc?
bool is_on_heap(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

// The places that storage can be moved to, and leaving it; empty where none makes a difference.
std::vector<DecisionFamily> storage_families(const PipelineIndex& index, const LoopNest& nest, int func);

// Has a window that was put on the stack become too large for it, for another one over the same loop keeps it from
// being folded? Only those in the loops of the Stage `host` are looked at, or all where that is -1.
bool overflows_stack(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int host);

Pruned apply_storage(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child);

}  // namespace metol::cpu
