#include "seams.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

namespace metol {
namespace {

// offset + sign * loop, whole numbers.
struct Step {
    size_t loop = 0;
    int64_t sign = 1;
    int64_t offset = 0;
};

std::optional<Step> as_step(const LinearForm& form) {
    std::optional<Step> step;
    if (!form.has_offset || form.offset.denominator != 1 || form.steps != 0) {
        return std::nullopt;
    }
    for (size_t loop = 0; loop < form.coefficients.size(); loop++) {
        const Rational& r = form.coefficients[loop];
        if (!form.is_known[loop] || form.has_phase[loop] || form.has_float[loop] || r.denominator != 1) {
            return std::nullopt;
        }
        if (r.is_zero()) {
            continue;
        }
        if (step || std::abs(r.numerator) != 1) {
            return std::nullopt;
        }
        step = Step{loop, r.numerator, form.offset.numerator};
    }
    return step;
}

std::optional<int64_t> as_number(const LinearForm& form) {
    if (!form.is_constant() || form.offset.denominator != 1) {
        return std::nullopt;
    }
    return form.offset.numerator;
}

// Does a comparison have the same result where both sides are equal as where the moving one is less?
bool belongs_below(const ExprNode& node, bool is_swapped) {
    const bool is_less = node.name == "<" || node.name == "<=";
    const bool holds_equal = node.name == "<=" || node.name == ">=";
    return (is_less != is_swapped) == holds_equal;
}

bool can_turn(const ExprNode& node) {
    return node.kind == ExprKind::Min || node.kind == ExprKind::Max ||
           (node.kind == ExprKind::Compare && node.name != "==" && node.name != "!=");
}

}  // namespace

std::vector<std::vector<int64_t>> find_seams(const ExprGraph& graph, size_t loops) {
    std::vector<std::set<int64_t>> found(loops);
    for (int32_t id = 0; id < graph.size(); id++) {
        const ExprNode& node = graph.node(id);
        if (!can_turn(node)) {
            continue;
        }
        for (size_t side = 0; side < 2; side++) {
            // Of a parameter, or the size of an input, an estimate is all that is known.
            if (graph.has_parameter(node.args[side]) || graph.has_parameter(node.args[1 - side])) {
                continue;
            }
            const std::optional<Step> moving = as_step(graph.linear(node.args[side]));
            const std::optional<int64_t> still = as_number(graph.linear(node.args[1 - side]));
            if (!moving || !still) {
                continue;
            }
            const int64_t equal = (*still - moving->offset) * moving->sign;
            // Of min(x, 4) both sides are right at 4; that of 5 is the first that is another.
            const bool is_below =
                node.kind == ExprKind::Compare ? belongs_below(node, side == 1) : node.kind == ExprKind::Min;
            const bool is_after = moving->sign > 0 ? is_below : !is_below;
            found[moving->loop].insert(equal + (is_after ? 1 : 0));
        }
    }
    std::vector<std::vector<int64_t>> seams(loops);
    for (size_t loop = 0; loop < loops; loop++) {
        seams[loop].assign(found[loop].begin(), found[loop].end());
    }
    return seams;
}

}  // namespace metol
