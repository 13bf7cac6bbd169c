#include "branching.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace metol {

int32_t strahler_number(const ExprGraph& graph, std::span<const int32_t> nodes) {
    // Arguments come before what they are arguments of.
    std::vector<int32_t> numbers(static_cast<size_t>(graph.size()), 1);
    std::vector<int32_t> of_args;
    for (int32_t id = 0; id < graph.size(); id++) {
        const ExprNode& node = graph.node(id);
        if (node.kind == ExprKind::Load) {
            continue;
        }
        of_args.clear();
        for (int32_t arg : node.args) {
            of_args.push_back(numbers[static_cast<size_t>(arg)]);
        }
        std::ranges::sort(of_args, std::greater<>());
        for (size_t waiting = 0; waiting < of_args.size(); waiting++) {
            int32_t& own = numbers[static_cast<size_t>(id)];
            own = std::max(own, of_args[waiting] + static_cast<int32_t>(waiting));
        }
    }
    int32_t most = 1;
    for (int32_t id : nodes) {
        most = std::max(most, numbers[static_cast<size_t>(id)]);
    }
    return most;
}

}  // namespace metol
