#include "walk.hpp"

#include <algorithm>
#include <unordered_map>

namespace metol {

namespace {

using Halide::Expr;
using Number = std::optional<int64_t>;

// Statements and accesses that are looked at, at most: enough for the longest code of the applications.
constexpr int64_t kMostSteps = 2'000'000;

Number floor_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : hi::div_imp(a, b);
}

class Walk : public hi::IRVisitor {
  public:
    Walk(const Regions& regions, const std::map<std::string, double>& scalars) : regions_(regions) {
        for (const auto& [name, value] : scalars) {
            if (value == static_cast<double>(static_cast<int64_t>(value))) {
                known_[name] = static_cast<int64_t>(value);
            }
        }
        for (const auto& [name, sides] : regions) {
            int64_t size = 1;
            for (const Interval& side : sides) {
                size *= std::max<int64_t>(0, side.extent());
            }
            sizes_[name] = size;
        }
    }
    std::string found;

  private:
    using hi::IRVisitor::visit;

    // The value of one lane of an integer or a truth value; nothing where only a run can tell.
    Number value(const Expr& expr, int lane = 0);
    Number value_of_call(const hi::Call* call, int lane);
    Number dimension(const hi::Call* call);
    template <typename Op, typename Compute>
    Number both(const Op* op, int lane, Compute compute) {
        const Number a = value(op->a, lane);
        const Number b = a ? value(op->b, lane) : std::nullopt;
        return b ? Number(compute(*a, *b)) : std::nullopt;
    }

    void bind(const std::string& name, const Number& number, const std::function<void()>& inside) {
        const auto before = known_.find(name);
        const Number old = before == known_.end() ? std::nullopt : Number(before->second);
        set(name, number);
        inside();
        set(name, old);
    }
    void set(const std::string& name, const Number& number) {
        if (number) {
            known_[name] = *number;
        } else {
            known_.erase(name);
        }
    }
    bool is_over() { return !found.empty() || ++steps_ > kMostSteps; }

    void check(const std::string& name, const Expr& index, const Expr& predicate) {
        const auto size = sizes_.find(name);
        if (size == sizes_.end() || is_over()) {
            return;
        }
        const int lanes = index.type().lanes();
        for (int lane : {0, lanes / 2, lanes - 1}) {
            const Number place = value(index, lane);
            const Number is_done = value(predicate, lane);
            if (place && is_done && *is_done != 0 && (*place < 0 || *place >= size->second)) {
                found = name + "[" + std::to_string(*place) + "] of " + std::to_string(size->second);
                return;
            }
        }
    }

    void visit(const hi::Load* op) override {
        check(op->name, op->index, op->predicate);
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::Store* op) override {
        check(op->name, op->index, op->predicate);
        hi::IRVisitor::visit(op);
    }
    // A vector is kept as it is written, for it has a value in each lane.
    template <typename Op>
    void let(const Op* op, const std::function<void()>& inside) {
        if (op->value.type().is_scalar()) {
            bind(op->name, value(op->value), inside);
        } else {
            vectors_[op->name] = op->value;
            inside();
            vectors_.erase(op->name);
        }
    }
    void visit(const hi::LetStmt* op) override {
        if (!is_over()) {
            op->value.accept(this);
            let(op, [&] { op->body.accept(this); });
        }
    }
    void visit(const hi::Let* op) override {
        op->value.accept(this);
        let(op, [&] { op->body.accept(this); });
    }
    void visit(const hi::For* op) override {
        const Number first = value(op->min);
        const Number count = value(op->extent);
        if (!first || !count || is_over()) {
            return;
        }
        if (*count > 0) {
            bind(op->name, *first, [&] { op->body.accept(this); });
        }
        if (*count > 1) {
            bind(op->name, *first + *count - 1, [&] { op->body.accept(this); });
        }
    }
    void visit(const hi::IfThenElse* op) override {
        const Number is_true = value(op->condition);
        if (!is_true || is_over()) {
            return;
        }
        op->condition.accept(this);
        const hi::Stmt& taken = *is_true != 0 ? op->then_case : op->else_case;
        if (taken.defined()) {
            taken.accept(this);
        }
    }
    void visit(const hi::Allocate* op) override {
        Number size = 1;
        for (const Expr& extent : op->extents) {
            const Number length = value(extent);
            size = size && length ? Number(*size * *length) : std::nullopt;
        }
        const auto old = sizes_.find(op->name);
        const Number before = old == sizes_.end() ? std::nullopt : Number(old->second);
        if (size && !op->new_expr.defined()) {
            sizes_[op->name] = *size + op->padding;
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
            const Number is_true = value(op->args[0]);
            op->args[0].accept(this);
            if (is_true && (*is_true != 0 || op->args.size() > 2)) {
                op->args[*is_true != 0 ? 1 : 2].accept(this);
            }
            return;
        }
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::AssertStmt*) override {}

    const Regions& regions_;
    std::unordered_map<std::string, int64_t> known_;
    std::unordered_map<std::string, Expr> vectors_;
    std::unordered_map<std::string, int64_t> sizes_;  // elements
    int64_t steps_ = 0;
};

Number Walk::dimension(const hi::Call* call) {
    const auto* variable = call->args.empty() ? nullptr : call->args[0].as<hi::Variable>();
    const auto place = call->args.size() > 1 ? hi::as_const_int(call->args[1]) : std::nullopt;
    if (!variable || !place) {
        return std::nullopt;
    }
    const std::string name = variable->name.substr(0, variable->name.rfind(".buffer"));
    const auto region = regions_.find(name);
    if (region == regions_.end() || *place >= static_cast<int64_t>(region->second.size())) {
        return std::nullopt;
    }
    const Interval& side = region->second[static_cast<size_t>(*place)];
    if (call->name == hi::Call::buffer_get_min) {
        return side.min;
    }
    if (call->name == hi::Call::buffer_get_max) {
        return side.max;
    }
    if (call->name == hi::Call::buffer_get_extent) {
        return side.extent();
    }
    if (call->name == hi::Call::buffer_get_stride) {
        int64_t stride = 1;
        for (int64_t inner = 0; inner < *place; inner++) {
            stride *= region->second[static_cast<size_t>(inner)].extent();
        }
        return stride;
    }
    return std::nullopt;
}

Number Walk::value_of_call(const hi::Call* call, int lane) {
    if (hi::Call::as_tag(call) || call->is_intrinsic(hi::Call::promise_clamped) ||
        call->is_intrinsic(hi::Call::unsafe_promise_clamped)) {
        return value(call->args[0], lane);
    }
    if (call->name == hi::Call::buffer_is_bounds_query) {
        return 0;
    }
    if (call->is_intrinsic(hi::Call::if_then_else)) {
        const Number is_true = value(call->args[0], lane);
        if (!is_true || (*is_true == 0 && call->args.size() < 3)) {
            return std::nullopt;
        }
        return value(call->args[*is_true != 0 ? 1 : 2], lane);
    }
    if (call->is_intrinsic(hi::Call::shift_left) || call->is_intrinsic(hi::Call::shift_right)) {
        const Number a = value(call->args[0], lane);
        const Number b = value(call->args[1], lane);
        if (!a || !b || *b < 0 || *b > 31) {
            return std::nullopt;
        }
        return call->is_intrinsic(hi::Call::shift_left) ? *a << *b : *a >> *b;
    }
    return dimension(call);
}

Number Walk::value(const Expr& expr, int lane) {
    if (expr.type().is_float()) {
        return std::nullopt;
    }
    if (const auto number = hi::as_const_int(expr)) {
        return *number;
    }
    if (const auto number = hi::as_const_uint(expr)) {
        return static_cast<int64_t>(*number);
    }
    const auto truth = [](bool is_true) { return static_cast<int64_t>(is_true); };
    switch (expr->node_type) {
        case hi::IRNodeType::Variable: {
            const std::string& name = expr.as<hi::Variable>()->name;
            if (const auto vector = vectors_.find(name); vector != vectors_.end()) {
                return value(Expr(vector->second), lane);
            }
            const auto it = known_.find(name);
            return it == known_.end() ? std::nullopt : Number(it->second);
        }
        case hi::IRNodeType::Cast: {
            const auto* cast = expr.as<hi::Cast>();
            const bool is_wide = cast->type.is_int() && cast->type.bits() >= 32 && !cast->value.type().is_float();
            return is_wide || cast->type.is_bool() ? value(cast->value, lane) : std::nullopt;
        }
        case hi::IRNodeType::Add:
            return both(expr.as<hi::Add>(), lane, [](int64_t a, int64_t b) { return a + b; });
        case hi::IRNodeType::Sub:
            return both(expr.as<hi::Sub>(), lane, [](int64_t a, int64_t b) { return a - b; });
        case hi::IRNodeType::Mul:
            return both(expr.as<hi::Mul>(), lane, [](int64_t a, int64_t b) { return a * b; });
        case hi::IRNodeType::Div:
            return both(expr.as<hi::Div>(), lane, [](int64_t a, int64_t b) { return *floor_div(a, b); });
        case hi::IRNodeType::Mod:
            return both(expr.as<hi::Mod>(), lane, [](int64_t a, int64_t b) { return b == 0 ? 0 : hi::mod_imp(a, b); });
        case hi::IRNodeType::Min:
            return both(expr.as<hi::Min>(), lane, [](int64_t a, int64_t b) { return std::min(a, b); });
        case hi::IRNodeType::Max:
            return both(expr.as<hi::Max>(), lane, [](int64_t a, int64_t b) { return std::max(a, b); });
        case hi::IRNodeType::EQ:
            return both(expr.as<hi::EQ>(), lane, [&](int64_t a, int64_t b) { return truth(a == b); });
        case hi::IRNodeType::NE:
            return both(expr.as<hi::NE>(), lane, [&](int64_t a, int64_t b) { return truth(a != b); });
        case hi::IRNodeType::LT:
            return both(expr.as<hi::LT>(), lane, [&](int64_t a, int64_t b) { return truth(a < b); });
        case hi::IRNodeType::LE:
            return both(expr.as<hi::LE>(), lane, [&](int64_t a, int64_t b) { return truth(a <= b); });
        case hi::IRNodeType::GT:
            return both(expr.as<hi::GT>(), lane, [&](int64_t a, int64_t b) { return truth(a > b); });
        case hi::IRNodeType::GE:
            return both(expr.as<hi::GE>(), lane, [&](int64_t a, int64_t b) { return truth(a >= b); });
        case hi::IRNodeType::And:
            return both(expr.as<hi::And>(), lane, [&](int64_t a, int64_t b) { return truth(a != 0 && b != 0); });
        case hi::IRNodeType::Or:
            return both(expr.as<hi::Or>(), lane, [&](int64_t a, int64_t b) { return truth(a != 0 || b != 0); });
        case hi::IRNodeType::Not: {
            const Number a = value(expr.as<hi::Not>()->a, lane);
            return a ? Number(truth(*a == 0)) : std::nullopt;
        }
        case hi::IRNodeType::Select: {
            const auto* select = expr.as<hi::Select>();
            const int own = select->condition.type().is_scalar() ? 0 : lane;
            const Number is_true = value(select->condition, own);
            return is_true ? value(*is_true != 0 ? select->true_value : select->false_value, lane) : std::nullopt;
        }
        case hi::IRNodeType::Ramp: {
            const auto* ramp = expr.as<hi::Ramp>();
            const int inner = ramp->base.type().lanes();
            const Number base = value(ramp->base, lane % inner);
            const Number stride = base ? value(ramp->stride, lane % inner) : std::nullopt;
            return stride ? Number(*base + *stride * (lane / inner)) : std::nullopt;
        }
        case hi::IRNodeType::Broadcast: {
            const auto* broadcast = expr.as<hi::Broadcast>();
            return value(broadcast->value, lane % broadcast->value.type().lanes());
        }
        case hi::IRNodeType::Let: {
            const auto* let = expr.as<hi::Let>();
            Number result;
            this->let(let, [&] { result = value(let->body, lane); });
            return result;
        }
        case hi::IRNodeType::Call:
            return value_of_call(expr.as<hi::Call>(), lane);
        default:
            return std::nullopt;
    }
}

}  // namespace

std::string access_beyond(const hi::Stmt& code, const Regions& regions, const std::map<std::string, double>& scalars) {
    Walk walk(regions, scalars);
    code.accept(&walk);
    return walk.found;
}

}  // namespace metol
