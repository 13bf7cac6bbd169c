// Windows that slide: what of a Func is computed in one turn of a loop stays for the next (Adams et al. 2019, §3.1).
#pragma once

#include "schedule/decision.hpp"
#include "schedule/regions.hpp"

namespace metol::cpu {

// Finds the dimension along which the region moves from one iteration of the compute site to the next; sets where the
// Func is stored, along which dimension it slides, and by how much.
Pruned find_slide(const PipelineIndex& index, const LoopNest& nest, FuncSchedule& schedule);

// Does filling any window for the first time read an input beyond what is needed of it?
//
// Halide fills a window by turns of the loop before its first, which bring whole steps. It guards what is too much of
// that where one window slides over a loop, or each is filled from the next, but not what it computes before the
// window in each turn, which others read, too; where two are read by the same, it computes all of it, and of what is
// computed along with it.
bool warms_up_outside_inputs(const PipelineIndex& index, const LoopNest& nest, Regions& regions);

// Does Halide 21 keep a window that slides in the rows that are alive, and not in all that the loop fills?
//
// It does where it proves that the first row in use never moves back. Measured (tests/targets/test_cpu_folding.py): it
// does for windows that are filled row for row with the loop, each from the next, if no turn of it is cut short (as
// lowering has it for tiles of sums, where it can; others count as if it were so); not where one window over a loop is
// read by another and by something else, too, and not where one is filled faster or slower than the loop turns. Windows
// of Funcs with updates it folds in some loop nests and in others not: here they count as whole.
bool is_folded(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

}  // namespace metol::cpu
