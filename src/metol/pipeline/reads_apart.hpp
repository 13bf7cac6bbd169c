// What a Stage needs of a Func that it reads in several ways, as f(x, y) + f(y, x): each way by itself.
#pragma once

#include <vector>

#include "halide_reader.hpp"

namespace metol {

// All that has read the expressions of one Stage.
struct StageReaders {
    const ExprGraph& graph;
    ExprReader& exprs;
    RegionReader& regions;
};

// Fills Access::bounds where the Accesses of an Edge move with the loops in different ways, all of them known. `exprs`
// are what the Stage evaluates; `stage` has its Accesses, and the Edges the bounds of all of them.
void tell_reads_apart(const std::vector<Halide::Expr>& exprs, const std::vector<Func>& funcs,
                      const StageReaders& readers, Stage& stage);

}  // namespace metol
