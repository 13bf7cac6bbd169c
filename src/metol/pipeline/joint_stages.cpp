#include "joint_stages.hpp"

#include <algorithm>

namespace metol {
namespace {

// The loads of one producer by all parts, with the bounds that those of the whole have.
void take_loads(std::span<const Stage> parts, Edge& edge) {
    const std::vector<Access> all = std::move(edge.accesses);
    edge.accesses.clear();
    float loads = 0;
    float added = 0;
    for (size_t p = 0; p < parts.size(); p++) {
        const auto part = std::ranges::find(parts[p].edges, edge.producer, &Edge::producer);
        if (part == parts[p].edges.end()) {
            continue;
        }
        for (Access access : part->accesses) {
            const auto same = std::ranges::find(all, access.jacobian, &Access::jacobian);
            access.bounds = same == all.end() ? access.bounds : same->bounds;
            access.part = static_cast<int32_t>(p);
            loads += static_cast<float>(access.count);
            added += static_cast<float>(access.count) * part->added_share;
            edge.accesses.push_back(std::move(access));
        }
    }
    edge.added_share = added / std::max(1.0F, loads);
}

}  // namespace

void add_up(std::span<const Stage> parts, Stage& whole) {
    whole.op_histogram.assign(whole.op_histogram.size(), 0);
    whole.unchanged_ops = whole.op_histogram;
    whole.shared_ops.clear();
    whole.stepped_addresses = 0;
    whole.expr_branching = 1;
    for (const Stage& part : parts) {
        for (size_t op = 0; op < whole.op_histogram.size(); op++) {
            whole.op_histogram[op] += part.op_histogram[op];
        }
        whole.stepped_addresses += part.stepped_addresses;
        whole.expr_branching = std::max(whole.expr_branching, part.expr_branching);
    }
    for (Edge& edge : whole.edges) {
        take_loads(parts, edge);
    }
}

}  // namespace metol
