#include "walk.hpp"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "evaluator.hpp"

namespace metol {

namespace {

using Halide::Expr;

class Walk : public hi::IRVisitor {
  public:
    Walk(const BufferRegions& regions, const BufferStrides& strides, const std::map<std::string, double>& scalars)
        : values_(regions, scalars, strides) {
        for (const auto& [name, sides] : regions) {
            sizes_[name] = span_of(sides, strides.at(name));
        }
    }
    std::string found;

  private:
    using hi::IRVisitor::visit;

    // Statements and accesses that are looked at, at most: enough for the longest code of the applications.
    static constexpr int64_t kMostSteps = 2'000'000;

    bool is_over() { return !found.empty() || ++steps_ > kMostSteps; }

    // What memory holds: elements, or bytes, as which several Funcs of a kernel share it.
    struct Size {
        int64_t count = 0;
        int64_t element_bytes = 0;  // 0 where all that comes to it has the same type
        int64_t first = 0;          // below 0 where a stride is
    };

    static Size span_of(const std::vector<Interval>& sides, const std::vector<int64_t>& strides) {
        Size size{1, 0, 0};
        for (size_t d = 0; d < sides.size(); d++) {
            if (sides[d].extent() <= 0) {
                return {};
            }
            const int64_t length = (sides[d].extent() - 1) * strides[d];
            size.count += std::abs(length);
            size.first += std::min<int64_t>(0, length);
        }
        return size;
    }

    void check(const std::string& name, const Halide::Type& type, const Expr& index, const Expr& predicate) {
        const auto size = sizes_.find(name);
        if (size == sizes_.end() || is_over()) {
            return;
        }
        const int64_t all = size->second.element_bytes == 0
                                ? size->second.count
                                : size->second.count * size->second.element_bytes / type.bytes();
        const int64_t first = size->second.first;
        const int lanes = index.type().lanes();
        for (int lane : {0, lanes / 2, lanes - 1}) {
            const Number place = values_.value(index, lane);
            const Number is_done = values_.value(predicate, lane);
            if (place && is_done && *is_done != 0 && (*place < first || *place >= first + all)) {
                found = "element " + std::to_string(*place) + " of `" + name + "`, which has " + std::to_string(all);
                return;
            }
        }
    }

    void visit(const hi::Load* op) override {
        check(op->name, op->type, op->index, op->predicate);
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::Store* op) override {
        check(op->name, op->value.type(), op->index, op->predicate);
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::LetStmt* op) override {
        if (!is_over()) {
            op->value.accept(this);
            values_.let(op, [&] { op->body.accept(this); });
        }
    }
    void visit(const hi::Let* op) override {
        op->value.accept(this);
        values_.let(op, [&] { op->body.accept(this); });
    }
    void visit(const hi::For* op) override {
        const Number first = values_.value(op->min);
        const Number count = values_.value(op->extent);
        if (!first || !count || is_over()) {
            return;
        }
        if (*count > 0) {
            values_.bind(op->name, *first, [&] { op->body.accept(this); });
        }
        if (*count > 1) {
            values_.bind(op->name, *first + *count - 1, [&] { op->body.accept(this); });
        }
    }
    void visit(const hi::IfThenElse* op) override {
        // All of it is reckoned out, whatever its first part tells.
        op->condition.accept(this);
        const Number is_true = values_.value(op->condition);
        if (!is_true || is_over()) {
            return;
        }
        const hi::Stmt& taken = *is_true != 0 ? op->then_case : op->else_case;
        if (taken.defined()) {
            taken.accept(this);
        }
    }
    void visit(const hi::Allocate* op) override {
        Number size = 1;
        for (const Expr& extent : op->extents) {
            const Number length = values_.value(extent);
            size = size && length ? Number(*size * *length) : std::nullopt;
        }
        const auto old = sizes_.find(op->name);
        const std::optional<Size> before = old == sizes_.end() ? std::nullopt : std::optional(old->second);
        if (size && !op->new_expr.defined()) {
            sizes_[op->name] = {*size + op->padding, op->type.bytes()};
        } else {
            sizes_.erase(op->name);
        }
        op->body.accept(this);
        sizes_.erase(op->name);
        if (before) {
            sizes_[op->name] = *before;
        }
    }
    // What is not computed is not read.
    void visit(const hi::Call* op) override {
        if (op->is_intrinsic(hi::Call::if_then_else)) {
            Number is_true = values_.value(op->args[0]);
            op->args[0].accept(this);
            for (int lane = 1; lane < op->args[0].type().lanes() && is_true; lane++) {
                const Number other = values_.value(op->args[0], lane);
                is_true = other && (*other != 0) == (*is_true != 0) ? is_true : std::nullopt;  // lanes that differ
            }
            if (is_true && (*is_true != 0 || op->args.size() > 2)) {
                op->args[*is_true != 0 ? 1 : 2].accept(this);
            }
            return;
        }
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::AssertStmt*) override {}

    Evaluator values_;
    std::unordered_map<std::string, Size> sizes_;
    int64_t steps_ = 0;
};

}  // namespace

std::string access_beyond(const hi::Stmt& code, const BufferRegions& regions, const BufferStrides& strides,
                          const std::map<std::string, double>& scalars) {
    Walk walk(regions, strides, scalars);
    code.accept(&walk);
    return walk.found;
}

}  // namespace metol
