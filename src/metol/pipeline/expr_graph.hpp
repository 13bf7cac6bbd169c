// The expressions of one Stage as a graph in which equal expressions are one node, and their derivatives.
//
// Enters: nodes, children first. Leaves: the graph, a name-free signature of it for hashing, and for each node its
// linear form over the loops of the Stage. No Halide here. Source: Adams et al. 2019, §4.1 (Jacobians).
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dag.hpp"

namespace metol {

enum class ExprKind : uint8_t {
    Literal,
    LoopVariable,
    Parameter,
    Cast,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Min,
    Max,
    Compare,
    Logic,
    Select,
    Load,
    Intrinsic,
    Extern,
    Undef,
    Likely  // Halide's tag on the branch that a steady state takes; no operation
};

struct ExprNode {
    ExprKind kind = ExprKind::Literal;
    bool is_float = false;
    bool is_unsigned = false;
    int32_t bits = 32;          // 1 for truth values
    std::vector<int32_t> args;  // node ids
    double value = 0;           // of a Literal, or the estimate of a Parameter
    bool has_value = false;
    int32_t loop = -1;        // of a LoopVariable
    int32_t producer = -1;    // of a Load: Func id
    int32_t value_index = 0;  // of a Load: which element of a tuple
    std::string name;  // of a Parameter (normalised), Intrinsic or Extern call; the operator of Compare and Logic
};

// An exact rational, denominator at least 1.
struct Rational {
    int64_t numerator = 0;
    int64_t denominator = 1;
    bool operator==(const Rational&) const = default;
    bool operator<(const Rational& o) const { return numerator * o.denominator < o.numerator * denominator; }
    bool is_zero() const { return numerator == 0; }
};

// A number for one step after others.
inline uint64_t after_steps(uint64_t steps, uint64_t next) {
    return (steps ^ (next + 1)) * 0x9E3779B97F4A7C15ULL;
}

// offset + sum of coefficient[i] * loop i, as far as it is known.
struct LinearForm {
    std::vector<Rational> coefficients;  // [loops]
    std::vector<uint8_t> is_known;       // [loops]
    std::vector<uint8_t> has_phase;      // [loops] something small that comes back in turn is added: x % 4
    std::vector<uint8_t> has_float;      // [loops] on the way from it, something is a float, and rounded after
    Rational offset;
    bool has_offset = true;  // false where something loop-invariant but unknown is added
    // Of what stays for several turns of a loop on the way, as x / 2 and x / 4 * 2 do: equal for the same steps, 0 for
    // none.
    uint64_t steps = 0;
    bool is_likely = false;   // it was tagged as the likely branch of a select
    bool is_clamped = false;  // it moves, but between bounds, as the coordinates of a boundary condition do

    bool is_constant() const;   // a known number
    bool is_invariant() const;  // known not to move with any loop
};

class ExprGraph {
  public:
    explicit ExprGraph(int32_t loop_count) : loop_count_(loop_count) {}

    int32_t intern(ExprNode node);
    const ExprNode& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
    int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
    int32_t loop_count() const { return loop_count_; }

    // Every node in order, names normalised: equal for the same algorithm in any process.
    const std::string& signature() const { return signature_; }

    const LinearForm& linear(int32_t id) const;

    // The node behind tags.
    int32_t untagged(int32_t id) const {
        while (node(id).kind == ExprKind::Likely) {
            id = node(id).args[0];
        }
        return id;
    }

    // Does a value depend on a scalar parameter?
    bool has_parameter(int32_t id) const;

  private:
    LinearForm derive(const ExprNode& node) const;
    std::optional<Rational> shift_factor(const ExprNode& node) const;

    int32_t loop_count_;
    std::vector<ExprNode> nodes_;
    std::unordered_map<std::string, int32_t> ids_;
    std::string signature_;
    mutable std::unordered_map<int32_t, LinearForm> forms_;
};

}  // namespace metol
