// Regions with symbolic bounds over the loops of a Stage, while a pipeline is read.
//
// Enters: bounds of each dimension. Leaves: unions, substitutions, and what the DAG keeps of them. No Halide here.
#pragma once

#include <string>
#include <vector>

#include "bound_node.hpp"

namespace metol {

using SymbolicRegion = std::vector<BoundRefPair>;

// All of a Func's own region: dimension d is loop d.
SymbolicRegion identity_region(int32_t dimensions);

SymbolicRegion unite(SymbolicRegion a, const SymbolicRegion& b);

// The region with `loops` in the place of the loops that its bounds are about.
SymbolicRegion substitute(const SymbolicRegion& region, const SymbolicRegion& loops);

// What the DAG keeps. Throws PipelineError where it is too complicated; `what` and `func_name` tell people of what.
BoundPair finish(const BoundRefPair& bounds, const std::string& what);
std::vector<BoundPair> finish(const SymbolicRegion& region, const std::string& func_name);

}  // namespace metol
