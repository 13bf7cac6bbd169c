// In vectors along which loops a `where` of a Stage would no longer keep what is read inside.
#pragma once

#include "halide_reader.hpp"

namespace metol {

// Fills Edge::held_dims, and adds to what Stage::ends_by_point tells, of a Stage whose conditions are `predicate`, and
// which evaluates `exprs` where they hold. `reader` is of this Stage, and for nothing else: it finds reads without
// bounds that there are none of.
void find_held_reads(const std::vector<Halide::Expr>& exprs, const Halide::Expr& predicate, RegionReader& reader,
                     Stage& stage);

// Fills Stage::bare_loops, once it is known what may be inlined.
void find_bare_lanes(PipelineDag& dag);

}  // namespace metol
