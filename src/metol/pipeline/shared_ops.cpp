#include "shared_ops.hpp"

#include <algorithm>
#include <numeric>

namespace metol {

OpSharing::OpSharing(const ExprGraph& graph, const Stage& stage)
    : graph_(graph),
      loop_count_(stage.loops.size()),
      loops_(static_cast<size_t>(graph.size())),
      is_of_place_(static_cast<size_t>(graph.size())) {
    const uint32_t all_loops = (uint32_t{1} << loop_count_) - 1;
    for (size_t i = 0; i < loop_count_; i++) {
        pure_loops_ |= stage.loops[i].is_reduction ? 0 : uint32_t{1} << i;
    }
    for (int32_t id = 0; id < graph.size(); id++) {
        const ExprNode& node = graph.node(id);
        const auto i = static_cast<size_t>(id);
        // Of what an update has stored, the next may differ anywhere.
        loops_[i] = node.kind == ExprKind::Load && node.producer == stage.func ? all_loops : 0;
        if (node.kind == ExprKind::LoopVariable) {
            loops_[i] = uint32_t{1} << node.loop;
        }
        is_of_place_[i] = node.kind != ExprKind::Load && node.kind != ExprKind::Parameter &&
                          node.kind != ExprKind::Undef && node.kind != ExprKind::Extern;
        for (int32_t arg : node.args) {
            loops_[i] |= loops_[static_cast<size_t>(arg)];
            is_of_place_[i] = is_of_place_[i] && is_of_place_[static_cast<size_t>(arg)];
        }
    }
}

// Of a loop, or one and a number: the loop.
uint32_t OpSharing::loops_of_index(int32_t id) const {
    const LinearForm& form = graph_.linear(id);
    uint32_t loops = 0;
    for (size_t i = 0; i < loop_count_; i++) {
        if (!form.is_known[i] || form.has_phase[i]) {
            return 0;
        }
        loops |= form.coefficients[i].is_zero() ? 0 : uint32_t{1} << i;
    }
    const bool is_one = loops != 0 && (loops & (loops - 1)) == 0;
    return is_one && is_of_place_[static_cast<size_t>(id)] ? loops : 0;
}

uint32_t OpSharing::loops_of_condition(int32_t id) const {
    const ExprNode& node = graph_.node(graph_.untagged(id));
    if (node.kind == ExprKind::Compare && (node.name == "==" || node.name == "!=")) {
        const uint32_t first = loops_of_index(node.args[0]);
        const uint32_t second = loops_of_index(node.args[1]);
        const bool is_with_number = graph_.linear(node.args[first ? 1 : 0]).is_constant();
        return is_with_number ? first | second : 0;
    }
    uint32_t loops = 0;
    for (int32_t arg : node.args) {
        const uint32_t of_arg = node.kind == ExprKind::Logic ? loops_of_condition(arg) : 0;
        if (of_arg == 0) {
            return 0;
        }
        loops |= of_arg;
    }
    return loops;
}

uint32_t OpSharing::loops_picking(int32_t id) const {
    const ExprNode& node = graph_.node(id);
    if (node.kind == ExprKind::Select) {
        return loops_of_condition(node.args[0]);
    }
    return node.kind == ExprKind::Intrinsic && node.name == "mux" ? loops_of_index(node.args[0]) : 0;
}

void OpSharing::add(int32_t id, OpClass op, float n) {
    const auto i = static_cast<size_t>(id);
    const uint32_t by = op == OpClass::Address ? 0 : loops_picking(id);
    picking_ |= by;
    const uint32_t picked_by = by == 0 && is_of_place_[i] ? loops_[i] : by;
    auto found = std::ranges::find_if(
        counted_, [&](const SharedOps& other) { return other.loops == loops_[i] && other.picked_by == picked_by; });
    if (found == counted_.end()) {
        found = counted_.insert(found, {loops_[i], picked_by, std::vector<float>(kOpClassCount, 0.0F)});
    }
    found->ops[static_cast<size_t>(op)] += n;
}

bool OpSharing::is_most_picked_among(uint32_t loop) const {
    float same = 0;
    float moving = 0;
    for (const SharedOps& part : counted_) {
        // What moves with no loop is computed once, however the loops nest.
        const bool is_counted = part.loops != 0 && part.picked_by == 0;
        const float operations = is_counted ? std::accumulate(part.ops.begin(), part.ops.end(), 0.0F) : 0;
        (part.loops & loop ? moving : same) += operations;
    }
    return same > 0 && same >= moving;
}

std::vector<uint8_t> OpSharing::picking_loops() const {
    std::vector<uint8_t> loops(loop_count_);
    for (size_t i = 0; i < loop_count_; i++) {
        const uint32_t bit = uint32_t{1} << i;
        loops[i] = (picking_ & bit) && is_most_picked_among(bit);
    }
    return loops;
}

}  // namespace metol
