#include "evaluator.hpp"

#include <algorithm>
#include <utility>

namespace metol {

namespace {

using Halide::Expr;

Number floor_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : hi::div_imp(a, b);
}

}  // namespace

Evaluator::Evaluator(const BufferRegions& regions, const std::map<std::string, double>& scalars, BufferStrides strides)
    : regions_(regions), strides_(std::move(strides)) {
    for (const auto& [name, value] : scalars) {
        if (value == static_cast<double>(static_cast<int64_t>(value))) {
            known_[name] = static_cast<int64_t>(value);
        }
    }
}

void Evaluator::bind(const std::string& name, const Number& number, const std::function<void()>& inside) {
    const auto before = known_.find(name);
    const Number old = before == known_.end() ? std::nullopt : Number(before->second);
    set(name, number);
    inside();
    set(name, old);
}

void Evaluator::set(const std::string& name, const Number& number) {
    if (number) {
        known_[name] = *number;
    } else {
        known_.erase(name);
    }
}

Number Evaluator::dimension(const hi::Call* call) {
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
        if (const auto strides = strides_.find(name); strides != strides_.end()) {
            return strides->second.at(static_cast<size_t>(*place));
        }
        int64_t stride = 1;
        for (int64_t inner = 0; inner < *place; inner++) {
            stride *= region->second[static_cast<size_t>(inner)].extent();
        }
        return stride;
    }
    return std::nullopt;
}

Number Evaluator::value_of_call(const hi::Call* call, int lane) {
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

Number Evaluator::value(const Expr& expr, int lane) {
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
            return either(expr.as<hi::And>(), lane, false);
        case hi::IRNodeType::Or:
            return either(expr.as<hi::Or>(), lane, true);
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
        case hi::IRNodeType::Load: {
            const auto cell = cells_.find(expr.as<hi::Load>()->name);
            return cell == cells_.end() ? std::nullopt : cell->second;
        }
        case hi::IRNodeType::Call:
            return value_of_call(expr.as<hi::Call>(), lane);
        default:
            return std::nullopt;
    }
}

}  // namespace metol
