// Whether a Stage asks, one iteration ahead, for what it reads of a Func at root (Halide's `prefetch`): offered after
// all Funcs where SpaceOptions asks for it, at the loops that go from row to row, which the hardware does not follow.
//
// By trial, Halide 21 fetches one line after the other by steps of 64 elements, not bytes: what is offered is right all
// the same, rows of single bytes and rows within one line. Of an input it fetches nothing, because a pipeline names the
// wrapper of its ImageParam, which is always inlined. A prefetch that goes too far is a hint that never faults, and one
// that begins outside of what is stored is left out (PrefetchBoundStrategy::GuardWithIf).
#pragma once

#include "schedule/regions.hpp"
#include "targets/base.hpp"
#include "targets/cpu/cpu_parameters.hpp"

namespace metol::cpu {

// The body of the loop that a Stage looks ahead in. Asks for one that does.
Site prefetch_site(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// Share of the jumps to other rows that a Stage asks for in time: all but those of the first iteration of its loop.
double prefetched_share(const StageNest& nest);

std::vector<DecisionFamily> prefetch_families(const CpuParameters& machine, const PipelineIndex& index,
                                              const LoopNest& nest, const DecisionStep& step);

Pruned apply_prefetch(const CpuParameters& machine, const PipelineIndex& index, Pool& pool, const Decision& decision,
                      LoopNest& child);

}  // namespace metol::cpu
