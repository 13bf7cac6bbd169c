#include "expr_graph.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace metol {
namespace {

// Larger numbers are no derivative that a schedule could exploit; they are treated as unknown.
constexpr int64_t kMaxRational = int64_t{1} << 30;
constexpr int64_t kMaxDenominator = 4096;
// x % 2 selects a phase: unrolled by so few, it is a constant, so that `x/2 + x%2` moves like x/2.
constexpr int64_t kMaxPhases = 8;

bool normalise(Rational& r) {
    const int64_t divisor = std::gcd(r.numerator, r.denominator);
    if (divisor > 1) {
        r.numerator /= divisor;
        r.denominator /= divisor;
    }
    return std::abs(r.numerator) < kMaxRational && r.denominator < kMaxRational;
}

// Nearest rational by continued fractions.
Rational to_rational(double value) {
    const double sign = value < 0 ? -1 : 1;
    double rest = std::abs(value);
    int64_t h0 = 0, h1 = 1, k0 = 1, k1 = 0;
    for (int i = 0; i < 24; i++) {
        const double whole = std::floor(rest);
        if (whole >= static_cast<double>(kMaxRational)) {
            break;
        }
        const int64_t a = static_cast<int64_t>(whole);
        const int64_t h2 = a * h1 + h0, k2 = a * k1 + k0;
        if (k2 > kMaxDenominator || h2 >= kMaxRational) {
            break;
        }
        h0 = h1, h1 = h2, k0 = k1, k1 = k2;
        if (rest - whole < 1e-9 ||
            std::abs(static_cast<double>(h1) / static_cast<double>(k1) - std::abs(value)) < 1e-9) {
            break;
        }
        rest = 1 / (rest - whole);
    }
    return k1 == 0 ? Rational{} : Rational{static_cast<int64_t>(sign) * h1, k1};
}

LinearForm zero_form(int32_t loops) {
    LinearForm form;
    form.coefficients.resize(static_cast<size_t>(loops));
    form.is_known.assign(static_cast<size_t>(loops), 1);
    form.has_phase.assign(static_cast<size_t>(loops), 0);
    form.has_float.assign(static_cast<size_t>(loops), 0);
    return form;
}

void lose_offset(LinearForm& form) {
    form.offset = {};
    form.has_offset = false;
}

void lose_loop(LinearForm& form, size_t loop) {
    form.coefficients[loop] = {};
    form.is_known[loop] = 0;
}

bool moves_with(const LinearForm& form, size_t loop) {
    return !form.is_known[loop] || !form.coefficients[loop].is_zero();
}

// `a` has its own phases and those of `b`, and has come the ways of both.
void add_phases(LinearForm& a, const LinearForm& b) {
    a.steps = a.steps == b.steps || b.steps == 0 ? a.steps : a.steps == 0 ? b.steps : after_steps(a.steps, b.steps);
    a.is_clamped = a.is_clamped || b.is_clamped;
    for (size_t i = 0; i < a.has_phase.size(); i++) {
        a.has_phase[i] |= b.has_phase[i];
        a.has_float[i] |= b.has_float[i];
    }
}

LinearForm scale(LinearForm form, Rational by) {
    const auto multiply = [&](Rational& r) {
        r.numerator *= by.numerator;
        r.denominator *= by.denominator;
        return normalise(r);
    };
    for (size_t i = 0; i < form.coefficients.size(); i++) {
        if (form.is_known[i] && !multiply(form.coefficients[i])) {
            lose_loop(form, i);
        }
    }
    if (form.has_offset && !multiply(form.offset)) {
        lose_offset(form);
    }
    if ((by.denominator > 1 || form.steps != 0) && !form.is_invariant()) {
        form.steps = after_steps(after_steps(form.steps, static_cast<uint64_t>(by.numerator)),
                                 static_cast<uint64_t>(by.denominator));
    }
    return form;
}

LinearForm add(LinearForm a, const LinearForm& b, int64_t sign) {
    const auto sum = [&](Rational& x, const Rational& y) {
        x.numerator = x.numerator * y.denominator + sign * y.numerator * x.denominator;
        x.denominator *= y.denominator;
        return normalise(x);
    };
    for (size_t i = 0; i < a.coefficients.size(); i++) {
        if (!a.is_known[i] || !b.is_known[i] || !sum(a.coefficients[i], b.coefficients[i])) {
            lose_loop(a, i);
        }
    }
    if (!a.has_offset || !b.has_offset || !sum(a.offset, b.offset)) {
        lose_offset(a);
    }
    add_phases(a, b);
    return a;
}

// Nothing is known of loops that either moves with.
LinearForm lose_dependence(LinearForm a, const LinearForm& b) {
    for (size_t i = 0; i < a.coefficients.size(); i++) {
        if (moves_with(a, i) || moves_with(b, i)) {
            lose_loop(a, i);
        }
    }
    lose_offset(a);
    add_phases(a, b);
    return a;
}

bool has_whole_coefficients(const LinearForm& form) {
    for (size_t i = 0; i < form.coefficients.size(); i++) {
        if (!form.is_known[i] || form.coefficients[i].denominator != 1) {
            return false;
        }
    }
    return true;
}

// min(a, b), max(a, b): a bound that does not move with a loop is looked through, as in a clamp.
LinearForm look_through_extremum(LinearForm a, const LinearForm& b) {
    if (a.is_invariant() && !b.is_invariant()) {
        return look_through_extremum(b, a);
    }
    for (size_t i = 0; i < a.coefficients.size(); i++) {
        const bool is_equal = a.is_known[i] && b.is_known[i] && a.coefficients[i] == b.coefficients[i];
        if (is_equal || !moves_with(b, i)) {
            continue;
        }
        if (moves_with(a, i)) {
            lose_loop(a, i);
        } else {
            a.coefficients[i] = b.coefficients[i];
            a.is_known[i] = b.is_known[i];
        }
    }
    if (a.is_invariant() && !(a.has_offset && b.has_offset)) {
        lose_offset(a);
    }
    add_phases(a, b);
    return a;
}

// A boundary condition tags the branch of its steady state; without a tag, only what both branches agree on is known.
LinearForm look_through_select(LinearForm a, const LinearForm& b) {
    if (a.is_likely != b.is_likely) {
        return a.is_likely ? a : b;
    }
    for (size_t i = 0; i < a.coefficients.size(); i++) {
        if (!(a.is_known[i] && b.is_known[i] && a.coefficients[i] == b.coefficients[i])) {
            lose_loop(a, i);
        }
    }
    if (!(a.has_offset && b.has_offset && a.offset == b.offset)) {
        lose_offset(a);
    }
    add_phases(a, b);
    return a;
}

bool is_transparent(const std::string& name) {
    static constexpr const char* names[] = {"floor_f32", "floor_f64", "floor_f16", "ceil_f32",       "ceil_f64",
                                            "ceil_f16",  "trunc_f32", "trunc_f64", "trunc_f16",      "round",
                                            "round_f32", "round_f64", "round_f16", "saturating_cast"};
    for (const char* other : names) {
        if (name == other) {
            return true;
        }
    }
    return false;
}

template <typename T>
void append_bytes(std::string& text, const T& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string key_of(const ExprNode& node) {
    std::string key;
    append_bytes(key, node.kind);
    append_bytes(key, node.is_float);
    append_bytes(key, node.is_unsigned);
    append_bytes(key, node.bits);
    append_bytes(key, node.loop);
    append_bytes(key, node.producer);
    append_bytes(key, node.value_index);
    if (node.kind == ExprKind::Literal) {
        append_bytes(key, node.value);  // the estimate of a Parameter is no part of the algorithm
    }
    append_bytes(key, static_cast<int32_t>(node.args.size()));
    for (int32_t arg : node.args) {
        append_bytes(key, arg);
    }
    return key + node.name;
}

}  // namespace

bool LinearForm::is_constant() const {
    return has_offset && is_invariant();
}

bool LinearForm::is_invariant() const {
    for (size_t i = 0; i < coefficients.size(); i++) {
        if (moves_with(*this, i)) {
            return false;
        }
    }
    return true;
}

int32_t ExprGraph::intern(ExprNode node) {
    const std::string key = key_of(node);
    const auto [it, is_new] = ids_.emplace(key, size());
    if (is_new) {
        signature_ += key;
        signature_ += '\n';
        nodes_.push_back(std::move(node));
    }
    return it->second;
}

const LinearForm& ExprGraph::linear(int32_t id) const {
    if (const auto it = forms_.find(id); it != forms_.end()) {
        return it->second;
    }
    LinearForm form = derive(node(id));
    return forms_.emplace(id, std::move(form)).first->second;
}

// A shift by a literal multiplies by this.
std::optional<Rational> ExprGraph::shift_factor(const ExprNode& node) const {
    const bool is_left = node.name == "shift_left";
    if (!is_left && node.name != "shift_right") {
        return std::nullopt;
    }
    const Rational amount = linear(node.args[1]).offset;
    if (!linear(node.args[1]).is_constant() || amount.denominator != 1 || std::abs(amount.numerator) > 16) {
        return std::nullopt;
    }
    const int64_t power = int64_t{1} << std::abs(amount.numerator);
    return is_left == (amount.numerator >= 0) ? Rational{power, 1} : Rational{1, power};
}

LinearForm ExprGraph::derive(const ExprNode& node) const {
    LinearForm form = zero_form(loop_count_);
    const auto arg = [&](size_t i) -> const LinearForm& { return linear(node.args[i]); };
    switch (node.kind) {
        case ExprKind::Literal:
        case ExprKind::Parameter:
            form.has_offset = node.has_value;
            form.offset = node.has_value ? to_rational(node.value) : Rational{};
            return form;
        case ExprKind::LoopVariable:
            form.coefficients[static_cast<size_t>(node.loop)] = {1, 1};
            return form;
        case ExprKind::Cast:
            form = arg(0);
            for (size_t i = 0; i < form.has_float.size(); i++) {
                form.has_float[i] |= node.is_float && moves_with(form, i);
            }
            return form;
        case ExprKind::Add:
            return add(arg(0), arg(1), 1);
        case ExprKind::Sub:
            return add(arg(0), arg(1), -1);
        case ExprKind::Mul:
            if (arg(1).is_constant()) {
                return scale(arg(0), arg(1).offset);
            }
            return arg(0).is_constant() ? scale(arg(1), arg(0).offset) : lose_dependence(arg(0), arg(1));
        case ExprKind::Div:
            if (arg(1).is_constant() && !arg(1).offset.is_zero()) {
                Rational inverse{arg(1).offset.denominator, arg(1).offset.numerator};
                if (inverse.denominator < 0) {
                    inverse = {-inverse.numerator, -inverse.denominator};
                }
                return scale(arg(0), inverse);
            }
            return lose_dependence(arg(0), arg(1));
        case ExprKind::Min:
        case ExprKind::Max:
            form = look_through_extremum(arg(0), arg(1));
            form.is_clamped = form.is_clamped || !form.is_invariant();
            return form;
        case ExprKind::Likely:
            form = arg(0);
            form.is_likely = true;
            return form;
        case ExprKind::Mod:
            form = lose_dependence(arg(0), arg(1));
            if (arg(1).is_constant() && arg(1).offset.denominator == 1 &&
                std::abs(arg(1).offset.numerator) <= kMaxPhases && has_whole_coefficients(arg(0))) {
                form = zero_form(loop_count_);
                form.has_offset = false;
                form.steps = arg(0).steps;
                form.has_float = arg(0).has_float;
                form.is_clamped = arg(0).is_clamped;
                for (size_t i = 0; i < form.has_phase.size(); i++) {
                    form.has_phase[i] = moves_with(arg(0), i) || arg(0).has_phase[i];
                }
            }
            return form;
        case ExprKind::Select:
            form = look_through_select(arg(1), arg(2));
            add_phases(form, arg(0));
            form.is_clamped = form.is_clamped || !form.is_invariant();
            return form;
        case ExprKind::Extern:
        case ExprKind::Intrinsic:
            if (is_transparent(node.name)) {
                return arg(0);
            }
            if (const auto factor = shift_factor(node)) {
                return scale(arg(0), *factor);
            }
            break;
        default:
            break;
    }
    for (size_t i = 0; i < node.args.size(); i++) {
        form = lose_dependence(form, arg(i));
    }
    lose_offset(form);
    return form;
}

bool ExprGraph::has_parameter(int32_t id) const {
    std::vector<int32_t> open = {id};
    std::set<int32_t> seen = {id};  // expressions share parts: as a tree one may be beyond all bounds
    while (!open.empty()) {
        const ExprNode& next = node(open.back());
        open.pop_back();
        if (next.kind == ExprKind::Parameter) {
            return true;
        }
        for (int32_t arg : next.args) {
            if (seen.insert(arg).second) {
                open.push_back(arg);
            }
        }
    }
    return false;
}

}  // namespace metol
