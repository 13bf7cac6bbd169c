#include "op_classes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace metol {
namespace {

constexpr std::array<OpClassInfo, kOpClassCount> kOpClasses = {{
#define METOL_OP_CLASS(name, meaning) {#name, meaning},
#include "op_classes.def"
#undef METOL_OP_CLASS
}};

bool is_power_of_two(double value) {
    return value >= 1 && value < 9e15 && std::trunc(value) == value &&
           (static_cast<int64_t>(value) & (static_cast<int64_t>(value) - 1)) == 0;
}

std::string_view without_type_suffix(std::string_view name) {
    for (std::string_view suffix : {"_f16", "_f32", "_f64"}) {
        if (name.ends_with(suffix)) {
            return name.substr(0, name.size() - suffix.size());
        }
    }
    return name;
}

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

OpClass classify_call(const ExprNode& node) {
    using namespace std::string_view_literals;
    const std::string_view name = without_type_suffix(node.name);
    if (is_one_of(name, std::array{"sqrt"sv, "fast_inverse"sv, "fast_inverse_sqrt"sv})) {
        return OpClass::Sqrt;
    }
    if (is_one_of(name, std::array{"abs"sv, "floor"sv, "ceil"sv, "round"sv, "trunc"sv, "nearbyint"sv})) {
        return OpClass::Round;
    }
    if (is_one_of(name, std::array{"is_nan"sv, "is_inf"sv, "is_finite"sv})) {
        return OpClass::CompareFloat;
    }
    if (is_one_of(name, std::array{"exp"sv, "log"sv, "pow"sv})) {
        return OpClass::Transcendental;
    }
    if (is_one_of(name, std::array{"sin"sv, "cos"sv, "tan"sv, "asin"sv, "acos"sv, "atan"sv, "atan2"sv, "sinh"sv,
                                   "cosh"sv, "tanh"sv, "asinh"sv, "acosh"sv, "atanh"sv, "erf"sv, "random"sv}) ||
        node.kind == ExprKind::Extern) {
        return OpClass::ExternCall;
    }
    if (name == "mux") {
        return node.is_float ? OpClass::SelectFloat : OpClass::SelectInt;
    }
    if (name.starts_with("bitwise_")) {
        return OpClass::Bitwise;
    }
    if (name == "shift_left" || name == "shift_right") {
        return OpClass::Shift;
    }
    if (name == "div_round_to_zero") {
        return OpClass::DivInt;
    }
    return name == "mod_round_to_zero" ? OpClass::Mod : OpClass::FixedPoint;
}

OpClass classify_cast(const ExprNode& node, const ExprNode& from) {
    if (node.is_float != from.is_float) {
        return OpClass::CastIntFloat;
    }
    if (node.is_float) {
        return OpClass::CastFloat;
    }
    return node.bits > from.bits ? OpClass::CastWiden : OpClass::CastNarrow;
}

OpClass classify_division(const ExprNode& node, const ExprNode& divisor) {
    const bool is_division = node.kind == ExprKind::Div;
    if (node.is_float) {
        // Halide multiplies by the inverse of a literal.
        const bool is_product = is_division && divisor.kind == ExprKind::Literal;
        return is_product ? OpClass::MulFloat : is_division ? OpClass::DivFloat : OpClass::Mod;
    }
    if (divisor.kind != ExprKind::Literal) {
        return is_division ? OpClass::DivInt : OpClass::Mod;
    }
    if (is_power_of_two(divisor.value)) {
        return is_division ? OpClass::Shift : OpClass::Bitwise;
    }
    // The upper half of a product, shifted: 16 bits and less have instructions for that.
    return node.bits <= 16 ? OpClass::FixedPoint : OpClass::DivConst;
}

bool is_float_addition(const ExprNode& node) {
    return node.is_float && (node.kind == ExprKind::Add || node.kind == ExprKind::Sub);
}

// How many values use each node; nodes that only make up addresses count as well.
std::vector<int32_t> count_uses(const ExprGraph& graph) {
    std::vector<int32_t> uses(static_cast<size_t>(graph.size()));
    for (int32_t id = 0; id < graph.size(); id++) {
        if (graph.node(id).kind != ExprKind::Likely) {
            for (int32_t arg : graph.node(id).args) {
                uses[static_cast<size_t>(graph.untagged(arg))]++;
            }
        }
    }
    return uses;
}

}  // namespace

std::span<const OpClassInfo> op_classes() {
    return kOpClasses;
}

bool is_unfit_for_opencl(const ExprNode& node) {
    using namespace std::string_view_literals;
    const bool is_of_floats = node.kind == ExprKind::Mod && node.is_float;
    const bool is_not = node.bits == 1 && node.name == "bitwise_not";
    return is_of_floats || is_not ||
           is_one_of(without_type_suffix(node.name),
                     std::array{"count_leading_zeros"sv, "count_trailing_zeros"sv, "popcount"sv});
}

OpClass classify(const ExprGraph& graph, const ExprNode& node) {
    const auto arg = [&](size_t i) -> const ExprNode& { return graph.node(graph.untagged(node.args[i])); };
    const auto by_type = [&](const ExprNode& n, OpClass if_int, OpClass if_float) {
        return n.is_float ? if_float : if_int;
    };
    switch (node.kind) {
        case ExprKind::Literal:
        case ExprKind::Undef:
            return OpClass::Constant;
        case ExprKind::LoopVariable:
            return OpClass::LoopVariable;
        case ExprKind::Parameter:
            return OpClass::Parameter;
        case ExprKind::Cast:
            return classify_cast(node, arg(0));
        case ExprKind::Add:
        case ExprKind::Sub:
            return by_type(node, OpClass::AddInt, OpClass::AddFloat);
        case ExprKind::Mul:
            if (!node.is_float && node.bits <= 16) {
                return OpClass::MulNarrow;
            }
            return by_type(node, OpClass::MulInt, OpClass::MulFloat);
        case ExprKind::Div:
        case ExprKind::Mod:
            return classify_division(node, arg(1));
        case ExprKind::Min:
        case ExprKind::Max:
            return by_type(node, OpClass::MinMaxInt, OpClass::MinMaxFloat);
        case ExprKind::Compare:
            return by_type(arg(0), OpClass::CompareInt, OpClass::CompareFloat);
        case ExprKind::Logic:
            return OpClass::Logic;
        case ExprKind::Select:
            return by_type(node, OpClass::SelectInt, OpClass::SelectFloat);
        default:
            return classify_call(node);
    }
}

bool is_float_product(const ExprGraph& graph, int32_t id) {
    const ExprNode& node = graph.node(graph.untagged(id));
    return (node.kind == ExprKind::Mul || node.kind == ExprKind::Div) && classify(graph, node) == OpClass::MulFloat;
}

bool is_float_quotient(const ExprGraph& graph, int32_t id) {
    const ExprNode& node = graph.node(graph.untagged(id));
    return node.kind == ExprKind::Div && classify(graph, node) == OpClass::DivFloat;
}

FusedAdditions::FusedAdditions(const ExprGraph& graph) : graph_(graph), uses_(count_uses(graph)) {}

bool FusedAdditions::takes_product(const ExprNode& node) const {
    return is_float_addition(node) && std::ranges::any_of(node.args, [&](int32_t arg) {
               return is_float_product(graph_, arg) && is_used_once(arg);
           });
}

std::vector<int32_t> FusedAdditions::loads_taken(const ExprNode& node) const {
    std::vector<int32_t> producers;
    if (!is_float_addition(node) || takes_product(node)) {
        return producers;
    }
    for (int32_t arg : node.args) {
        const ExprNode& value = graph_.node(graph_.untagged(arg));
        if (value.kind == ExprKind::Load && is_used_once(arg) &&
            std::ranges::find(producers, value.producer) == producers.end()) {
            producers.push_back(value.producer);
        }
    }
    return producers;
}

bool FusedAdditions::is_used_once(int32_t id) const {
    return uses_[static_cast<size_t>(graph_.untagged(id))] == 1;
}

}  // namespace metol
