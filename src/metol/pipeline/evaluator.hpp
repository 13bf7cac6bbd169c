// The numbers in lowered code, with sizes of its buffers and values of its parameters.
//
// Enters: expressions of lowered code, and the loops and lets around them as they are gone through. Leaves: the value
// of an integer or a truth value, or nothing where only a run can tell.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "halide_reader.hpp"
#include "lowered.hpp"

namespace metol {

using Number = std::optional<int64_t>;

class Evaluator {
  public:
    // `strides`: of buffers that need not be dense.
    Evaluator(const BufferRegions& regions, const std::map<std::string, double>& scalars, BufferStrides strides = {});

    // The value of one lane of an integer or a truth value.
    Number value(const Halide::Expr& expr, int lane = 0);

    // Gives a variable a value while `inside` is gone through.
    void bind(const std::string& name, const Number& number, const std::function<void()>& inside);
    template <typename Op>
    void let(const Op* op, const std::function<void()>& inside) {
        if (op->value.type().is_scalar()) {
            bind(op->name, value(op->value), inside);
        } else {
            // A vector is kept as it is written, for it has a value in each lane.
            vectors_[op->name] = op->value;
            inside();
            vectors_.erase(op->name);
        }
    }

    // An allocation of one element, in which code reckons something out before it needs it.
    void add_cell(const std::string& name) { cells_[name] = std::nullopt; }
    bool is_cell(const std::string& name) const { return cells_.count(name) > 0; }
    void store(const std::string& name, const Number& number) { cells_[name] = number; }

  private:
    Number value_of_call(const hi::Call* call, int lane);
    Number dimension(const hi::Call* call);
    template <typename Op, typename Compute>
    Number both(const Op* op, int lane, Compute compute) {
        const Number a = value(op->a, lane);
        const Number b = a ? value(op->b, lane) : std::nullopt;
        return b ? Number(compute(*a, *b)) : std::nullopt;
    }
    void set(const std::string& name, const Number& number);

    // Of a truth value and another: `decisive` where either is, whatever the other.
    template <typename Op>
    Number either(const Op* op, int lane, bool decisive) {
        const Number a = value(op->a, lane);
        if (a && (*a != 0) == decisive) {
            return decisive;
        }
        const Number b = value(op->b, lane);
        if (b && (*b != 0) == decisive) {
            return decisive;
        }
        return a && b ? Number(!decisive) : std::nullopt;
    }
    const BufferRegions& regions_;
    BufferStrides strides_;
    std::unordered_map<std::string, int64_t> known_;
    std::unordered_map<std::string, Halide::Expr> vectors_;
    std::unordered_map<std::string, Number> cells_;
};

}  // namespace metol
