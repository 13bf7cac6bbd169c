// Reads the schedule-invariant features of a Stage off its expression graph.
//
// Enters: the graph and its roots. Leaves: op histogram, Accesses, widths and flags of the Stage. No Halide here.
// Source: Adams et al. 2019, §4.1 (histogram of classes, Jacobians, classes of memory access).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "op_classes.hpp"

namespace metol {

// What `describe_stage` cannot read off the graph.
struct StageRoots {
    std::vector<int32_t> values;       // one node a tuple element
    std::vector<int32_t> coordinates;  // left-hand side, one node a dimension
    std::vector<int32_t> conditions;   // predicates of the RDom
    std::vector<int32_t> promised;     // what is promised to lie between two bounds
};

// Fills op_histogram, accesses of `edges` (created here, without bounds), self_accesses, stores, widths and the flags
// that follow from the expressions. `stage.loops` must be complete.
void describe_stage(const ExprGraph& graph, const StageRoots& roots, Stage& stage);

// Which of these Accesses loads at such coordinates, one node a dimension; -1 for none.
int32_t find_access(const ExprGraph& graph, std::span<const Access> accesses, std::span<const int32_t> coordinates);

// Whether every value clamps or selects around the same single load, as BoundaryConditions do.
bool is_boundary_condition(const ExprGraph& graph, std::span<const int32_t> values);

}  // namespace metol
