// What deciding asks of a loop nest: which levels enclose a Stage, who reads a Func, which places enclose every use.
#pragma once

#include "schedule/nest_queries.hpp"

namespace metol::cpu {

// The bodies of the levels that enclose `stage`, its own included, outermost first.
std::vector<Site> bodies(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// The dimension along which the rows of a Func lie: of an input those of its buffer.
int innermost_dim(const PipelineIndex& index, const LoopNest& nest, int func);

// May the lanes of a vector run a Stage along this loop?
bool may_vectorize(const PipelineIndex& index, int stage_id, size_t loop);

bool is_parallel_level(const PipelineIndex& index, const LoopNest& nest, const Site& site);

// Is a Func computed in the body of its host's innermost tile, which is short and unrolled?
bool is_in_tile(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule);

// The innermost parallel level around a Func computed inside another; the root where there is none.
Site parallel_body_around(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule);

// May the Stages of a Func be parallel: at root, or inside another where nothing around them is (ProTuner, §7)?
bool can_be_parallel(const PipelineIndex& index, const LoopNest& nest, const FuncSchedule& schedule);

// The bodies of levels that enclose every use of `func`, outermost first; the root is not among them.
std::vector<Site> common_sites(const PipelineIndex& index, const LoopNest& nest, int func);

}  // namespace metol::cpu
