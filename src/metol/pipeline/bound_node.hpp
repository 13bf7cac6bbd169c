// Builds BoundExprs: a small algebra of symbolic bounds that keeps affine bounds affine and programs short.
//
// Enters: constants, loop minima and maxima, and operations on them. Leaves: BoundExprs. Knows of each loop that its
// minimum is not above its maximum, which is what removes most `min` and `max` of unions. No Halide here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dag.hpp"

namespace metol {

struct BoundNode;
using BoundRef = std::shared_ptr<const BoundNode>;

// An immutable symbolic bound: affine over loop ends, a floating-point number, or an operation on other bounds.
struct BoundNode {
    enum class Kind : uint8_t { Affine, Number, Operation };
    using LoopEnd = std::pair<int32_t, bool>;  // loop, is_max

    Kind kind = Kind::Affine;
    int64_t constant = 0;              // Affine
    std::map<LoopEnd, int64_t> terms;  // Affine; no zero coefficients
    double number = 0;                 // Number
    BoundOp op = BoundOp::Add;         // Operation
    std::vector<BoundRef> args;        // Operation; Min and Max take two or more

    bool is_constant() const { return kind == Kind::Affine && terms.empty(); }
};

struct BoundRefPair {
    BoundRef min;
    BoundRef max;
};

BoundRef bound_constant(int64_t value);
BoundRef bound_number(double value);
BoundRef bound_loop(int32_t loop, bool is_max);

// Applies `op`, folding what can be folded.
BoundRef bound_apply(BoundOp op, std::vector<BoundRef> args);

// Replaces loop i's ends by `loops[i]`.
BoundRef bound_substitute(const BoundRef& bound, std::span<const BoundRefPair> loops);

// The finished expression, or nothing if its program would be too long or too deep to evaluate.
std::optional<BoundExpr> finish_bound(const BoundRef& bound);

}  // namespace metol
