#include "bound_node.hpp"

#include <bit>
#include <cmath>
#include <unordered_map>

#include "bounds.hpp"

namespace metol {
namespace {

using Kind = BoundNode::Kind;

// Longer programs would dominate the search's time; pipelines in the wild need a few dozen instructions at most.
constexpr size_t kMaxProgramLength = 512;

BoundRef make_affine(int64_t constant, std::map<BoundNode::LoopEnd, int64_t> terms) {
    std::erase_if(terms, [](const auto& term) { return term.second == 0; });
    BoundNode node;
    node.constant = constant;
    node.terms = std::move(terms);
    return std::make_shared<const BoundNode>(std::move(node));
}

BoundRef make_operation(BoundOp op, std::vector<BoundRef> args) {
    BoundNode node;
    node.kind = Kind::Operation;
    node.op = op;
    node.args = std::move(args);
    return std::make_shared<const BoundNode>(std::move(node));
}

// a + scale * b
BoundRef add_affine(const BoundNode& a, const BoundNode& b, int64_t scale) {
    auto terms = a.terms;
    for (const auto& [end, coefficient] : b.terms) {
        terms[end] += scale * coefficient;
    }
    return make_affine(a.constant + scale * b.constant, std::move(terms));
}

bool same(const BoundRef& a, const BoundRef& b) {
    if (a == b) {
        return true;
    }
    if (a->kind != b->kind || a->args.size() != b->args.size()) {
        return false;
    }
    switch (a->kind) {
        case Kind::Affine:
            return a->constant == b->constant && a->terms == b->terms;
        case Kind::Number:
            return a->number == b->number;
        case Kind::Operation:
            break;
    }
    if (a->op != b->op) {
        return false;
    }
    for (size_t i = 0; i < a->args.size(); i++) {
        if (!same(a->args[i], b->args[i])) {
            return false;
        }
    }
    return true;
}

// Whether a <= b for all loops with min <= max; false if not known.
bool is_never_above(const BoundRef& a, const BoundRef& b) {
    if (same(a, b)) {
        return true;
    }
    if (b->kind == Kind::Operation && b->op == BoundOp::Max) {
        for (const BoundRef& arg : b->args) {
            if (is_never_above(a, arg)) {
                return true;
            }
        }
    }
    if (a->kind == Kind::Operation && a->op == BoundOp::Min) {
        for (const BoundRef& arg : a->args) {
            if (is_never_above(arg, b)) {
                return true;
            }
        }
    }
    const auto all_below = [&](const BoundRef& x, const BoundRef& y, BoundOp op, const std::vector<BoundRef>& args) {
        for (const BoundRef& arg : args) {
            if (!(op == BoundOp::Max ? is_never_above(arg, y) : is_never_above(x, arg))) {
                return false;
            }
        }
        return true;
    };
    if (a->kind == Kind::Operation && a->op == BoundOp::Max) {
        return all_below(a, b, BoundOp::Max, a->args);
    }
    if (b->kind == Kind::Operation && b->op == BoundOp::Min) {
        return all_below(a, b, BoundOp::Min, b->args);
    }
    if (a->kind == Kind::Operation && b->kind == Kind::Operation && a->op == b->op &&
        (a->op == BoundOp::Div || a->op == BoundOp::Floor || a->op == BoundOp::Ceil || a->op == BoundOp::Trunc)) {
        const bool is_same_divisor =
            a->op != BoundOp::Div ||
            (a->args[1]->is_constant() && same(a->args[1], b->args[1]) && a->args[1]->constant > 0);
        return is_same_divisor && is_never_above(a->args[0], b->args[0]);
    }
    if (a->kind != Kind::Affine || b->kind != Kind::Affine) {
        return false;
    }
    // b - a = constant + sum of coefficient * (max - min) with every coefficient >= 0.
    const BoundRef difference = add_affine(*b, *a, -1);
    std::map<int32_t, std::pair<int64_t, int64_t>> by_loop;
    for (const auto& [end, coefficient] : difference->terms) {
        (end.second ? by_loop[end.first].second : by_loop[end.first].first) = coefficient;
    }
    for (const auto& [loop, coefficients] : by_loop) {
        if (coefficients.first != -coefficients.second || coefficients.second < 0) {
            return false;
        }
    }
    return difference->constant >= 0;
}

BoundRef fold_extremum(BoundOp op, const std::vector<BoundRef>& args) {
    std::vector<BoundRef> flat;
    for (const BoundRef& arg : args) {
        if (arg->kind == Kind::Operation && arg->op == op) {
            flat.insert(flat.end(), arg->args.begin(), arg->args.end());
        } else {
            flat.push_back(arg);
        }
    }
    std::vector<BoundRef> kept;
    const auto wins = [op](const BoundRef& a, const BoundRef& b) {
        return op == BoundOp::Min ? is_never_above(a, b) : is_never_above(b, a);
    };
    for (const BoundRef& candidate : flat) {
        bool is_beaten = false;
        for (const BoundRef& other : kept) {
            is_beaten = is_beaten || wins(other, candidate);
        }
        if (!is_beaten) {
            std::erase_if(kept, [&](const BoundRef& other) { return wins(candidate, other); });
            kept.push_back(candidate);
        }
    }
    return kept.size() == 1 ? kept[0] : make_operation(op, std::move(kept));
}

int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) {
        return 0;
    }
    const int64_t quotient = a / b;
    return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

// A Number that is an integer becomes Affine, so that it can be added to others.
BoundRef make_number(double value) {
    if (std::trunc(value) == value && std::abs(value) < 1e15) {
        return bound_constant(static_cast<int64_t>(value));
    }
    BoundNode node;
    node.kind = Kind::Number;
    node.number = value;
    return std::make_shared<const BoundNode>(std::move(node));
}

bool is_literal(const BoundRef& bound) {
    return bound->is_constant() || bound->kind == Kind::Number;
}

void append_program(const BoundRef& bound, std::vector<BoundInstruction>& program) {
    if (program.size() > kMaxProgramLength) {
        return;
    }
    if (bound->kind == Kind::Number) {
        program.push_back({BoundOp::PushFloat, std::bit_cast<int64_t>(bound->number)});
        return;
    }
    if (bound->kind == Kind::Affine) {
        bool is_first = true;
        for (const auto& [end, coefficient] : bound->terms) {
            program.push_back({end.second ? BoundOp::PushMax : BoundOp::PushMin, end.first});
            if (coefficient != 1 && (is_first || coefficient != -1)) {
                program.push_back({BoundOp::PushConst, coefficient});
                program.push_back({BoundOp::Mul});
            }
            if (!is_first) {
                program.push_back({coefficient == -1 ? BoundOp::Sub : BoundOp::Add});
            }
            is_first = false;
        }
        if (is_first || bound->constant != 0) {
            program.push_back({BoundOp::PushConst, bound->constant});
            if (!is_first) {
                program.push_back({BoundOp::Add});
            }
        }
        return;
    }
    const bool is_extremum = bound->op == BoundOp::Min || bound->op == BoundOp::Max;
    for (size_t i = 0; i < bound->args.size(); i++) {
        append_program(bound->args[i], program);
        if (is_extremum && i > 0) {
            program.push_back({bound->op});
        }
    }
    if (!is_extremum) {
        program.push_back({bound->op});
    }
}

int stack_effect(BoundOp op) {
    switch (op) {
        case BoundOp::PushConst:
        case BoundOp::PushMin:
        case BoundOp::PushMax:
        case BoundOp::PushFloat:
            return 1;
        case BoundOp::Not:
        case BoundOp::Floor:
        case BoundOp::Ceil:
        case BoundOp::Round:
        case BoundOp::Trunc:
        case BoundOp::Sqrt:
        case BoundOp::Exp:
        case BoundOp::Log:
            return 0;
        case BoundOp::Select:
            return -2;
        default:
            return -1;
    }
}

// A literal operation is worth what the evaluator says, fraction included, so only those that yield integers are folded
// by it.
BoundRef fold_literals(BoundOp op, const std::vector<BoundRef>& args) {
    const auto value = [&](size_t i) {
        return args[i]->kind == Kind::Number ? args[i]->number : static_cast<double>(args[i]->constant);
    };
    switch (op) {
        case BoundOp::Add:
            return make_number(value(0) + value(1));
        case BoundOp::Sub:
            return make_number(value(0) - value(1));
        case BoundOp::Mul:
            return make_number(value(0) * value(1));
        case BoundOp::FloatDiv:
            return make_number(value(0) / value(1));
        case BoundOp::Min:
            return make_number(std::fmin(value(0), value(1)));
        case BoundOp::Max:
            return make_number(std::fmax(value(0), value(1)));
        case BoundOp::Sqrt:
            return make_number(std::sqrt(value(0)));
        case BoundOp::Exp:
            return make_number(std::exp(value(0)));
        case BoundOp::Log:
            return make_number(std::log(value(0)));
        case BoundOp::Select:
            return value(0) != 0 ? args[1] : args[2];
        default:
            break;
    }
    std::vector<BoundInstruction> program;
    append_program(make_operation(op, args), program);
    return bound_constant(run_bound_program(program, {}));
}

// (x + 1) + 2 -> x + 3, and x - 1 -> x + -1, so that constants meet.
BoundRef add_constant_last(BoundOp op, std::vector<BoundRef> args) {
    if (op == BoundOp::Sub && args[1]->is_constant()) {
        op = BoundOp::Add;
        args[1] = bound_constant(-args[1]->constant);
    }
    if (op == BoundOp::Add && args[0]->is_constant()) {
        std::swap(args[0], args[1]);
    }
    if (op != BoundOp::Add || !args[1]->is_constant()) {
        return make_operation(op, std::move(args));
    }
    const BoundNode& first = *args[0];
    if (first.kind == Kind::Operation && first.op == BoundOp::Add && first.args[1]->is_constant()) {
        const int64_t sum = first.args[1]->constant + args[1]->constant;
        args = {first.args[0], bound_constant(sum)};
    }
    return args[1]->constant == 0 ? args[0] : make_operation(op, std::move(args));
}

}  // namespace

BoundRef bound_constant(int64_t value) {
    return make_affine(value, {});
}

BoundRef bound_number(double value) {
    return make_number(value);
}

BoundRef bound_loop(int32_t loop, bool is_max) {
    return make_affine(0, {{{loop, is_max}, 1}});
}

BoundRef bound_apply(BoundOp op, std::vector<BoundRef> args) {
    bool is_all_literal = args.size() <= 3;
    for (const BoundRef& arg : args) {
        is_all_literal = is_all_literal && is_literal(arg);
    }
    if (is_all_literal && !(args.size() > 2 && op != BoundOp::Select)) {
        return fold_literals(op, args);
    }
    const auto is_affine = [&](size_t i) { return args[i]->kind == Kind::Affine; };
    switch (op) {
        case BoundOp::Add:
        case BoundOp::Sub:
            if (is_affine(0) && is_affine(1)) {
                return add_affine(*args[0], *args[1], op == BoundOp::Add ? 1 : -1);
            }
            if (op == BoundOp::Sub && same(args[0], args[1])) {
                return bound_constant(0);
            }
            return add_constant_last(op, std::move(args));
        case BoundOp::Mul:
            if (args[0]->is_constant()) {
                std::swap(args[0], args[1]);
            }
            if (args[1]->is_constant() && is_affine(0)) {
                return add_affine(*bound_constant(0), *args[0], args[1]->constant);
            }
            if (args[1]->is_constant() && args[1]->constant == 1) {
                return args[0];
            }
            break;
        case BoundOp::Div:
            if (args[1]->is_constant() && is_affine(0) && args[1]->constant != 0) {
                const int64_t divisor = args[1]->constant;
                std::map<BoundNode::LoopEnd, int64_t> terms = args[0]->terms;
                bool is_exact = true;
                for (auto& [end, coefficient] : terms) {
                    is_exact = is_exact && coefficient % divisor == 0;
                    coefficient /= divisor;
                }
                if (is_exact) {
                    return make_affine(floor_divide(args[0]->constant, divisor), std::move(terms));
                }
            }
            break;
        case BoundOp::Min:
        case BoundOp::Max:
            return fold_extremum(op, args);
        case BoundOp::Floor:
        case BoundOp::Ceil:
        case BoundOp::Round:
        case BoundOp::Trunc:
            if (is_affine(0) || (args[0]->kind == Kind::Operation &&
                                 (args[0]->op == BoundOp::Floor || args[0]->op == BoundOp::Ceil ||
                                  args[0]->op == BoundOp::Round || args[0]->op == BoundOp::Trunc))) {
                return args[0];
            }
            break;
        case BoundOp::Select:
            if (is_literal(args[0])) {
                return args[0]->kind == Kind::Number || args[0]->constant != 0 ? args[1] : args[2];
            }
            if (same(args[1], args[2])) {
                return args[1];
            }
            break;
        default:
            break;
    }
    return make_operation(op, std::move(args));
}

BoundRef bound_substitute(const BoundRef& bound, std::span<const BoundRefPair> loops) {
    std::unordered_map<const BoundNode*, BoundRef> done;
    const auto visit = [&](const auto& self, const BoundRef& node) -> BoundRef {
        if (node->kind == Kind::Number || node->is_constant()) {
            return node;
        }
        if (const auto it = done.find(node.get()); it != done.end()) {
            return it->second;
        }
        BoundRef result;
        if (node->kind == Kind::Affine) {
            result = bound_constant(node->constant);
            for (const auto& [end, coefficient] : node->terms) {
                const BoundRefPair& loop = loops[static_cast<size_t>(end.first)];
                const BoundRef term =
                    bound_apply(BoundOp::Mul, {end.second ? loop.max : loop.min, bound_constant(coefficient)});
                result = bound_apply(BoundOp::Add, {term, result});
            }
        } else {
            std::vector<BoundRef> args;
            for (const BoundRef& arg : node->args) {
                args.push_back(self(self, arg));
            }
            result = bound_apply(node->op, std::move(args));
        }
        done.emplace(node.get(), result);
        return result;
    };
    return visit(visit, bound);
}

std::optional<BoundExpr> finish_bound(const BoundRef& bound) {
    BoundExpr expr;
    if (bound->kind == Kind::Affine) {
        expr.constant = bound->constant;
        for (const auto& [end, coefficient] : bound->terms) {
            expr.terms.push_back({end.first, end.second, coefficient});
        }
        return expr;
    }
    append_program(bound, expr.program);
    int depth = 0;
    for (const BoundInstruction& instruction : expr.program) {
        depth += stack_effect(instruction.op);
        if (depth > kBoundStackDepth) {
            return std::nullopt;
        }
    }
    if (expr.program.size() > kMaxProgramLength) {
        return std::nullopt;
    }
    return expr;
}

}  // namespace metol
