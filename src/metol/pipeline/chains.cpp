#include "chains.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "op_classes.hpp"

namespace metol {
namespace {

// No way from one to the other.
constexpr float kApart = -1;
// From the address of a load to its value, in the first cache.
constexpr float kLoadCycles = 5;

// Cycles until the result of an operation is there for the next, of vectors, about as on Zen 3 and Skylake.
float latency_cycles(OpClass op) {
    switch (op) {
        case OpClass::AddFloat:
        case OpClass::MulFloat:
        case OpClass::MulAddFloat:
        case OpClass::MulNarrow:
        case OpClass::MulInt:
        case OpClass::CastIntFloat:
        case OpClass::CastFloat:
            return 4;
        case OpClass::CompareFloat:
        case OpClass::SelectFloat:
        case OpClass::CastWiden:
        case OpClass::CastNarrow:
        case OpClass::Round:
            return 3;
        case OpClass::MinMaxFloat:
        case OpClass::FixedPoint:
            return 2;
        case OpClass::DivConst:
            return 8;
        case OpClass::DivFloat:
            return 11;
        case OpClass::Sqrt:
            return 15;
        case OpClass::DivInt:
        case OpClass::Mod:
            return 24;
        case OpClass::Transcendental:
            return 48;
        case OpClass::ExternCall:
            return 64;
        case OpClass::Constant:
        case OpClass::LoopVariable:
        case OpClass::Parameter:
            return 0;
        default:
            return 1;
    }
}

bool is_addition(const ExprNode& node) {
    return node.kind == ExprKind::Add || node.kind == ExprKind::Sub;
}

// What a node adds to a chain that comes from one of its arguments. Compilers order a sum so that what comes late is
// added last, and a product goes into an addition.
class Latencies {
  public:
    explicit Latencies(const ExprGraph& graph) : graph_(graph), additions_(graph) {}

    float cycles_after(int32_t arg, const ExprNode& node) const {
        if (node.kind == ExprKind::Likely) {
            return 0;
        }
        if (node.kind == ExprKind::Load) {
            return kLoadCycles;
        }
        const ExprNode& before = graph_.node(graph_.untagged(arg));
        const bool is_one_sum = is_addition(node) && is_addition(before) && node.is_float == before.is_float;
        const bool is_taken = additions_.takes_product(node) && is_float_product(graph_, arg);
        return (is_one_sum || is_taken) && additions_.is_used_once(arg) ? 0 : latency_cycles(classify(graph_, node));
    }

  private:
    const ExprGraph& graph_;
    FusedAdditions additions_;
};

// Cycles from what is loaded of one element of a Func to each node, by the longest way.
std::vector<float> cycles_from(const ExprGraph& graph, const Latencies& latencies, int32_t func, int32_t element) {
    std::vector<float> cycles(static_cast<size_t>(graph.size()), kApart);
    for (int32_t id = 0; id < graph.size(); id++) {  // arguments come before what they are arguments of
        const ExprNode& node = graph.node(id);
        float& own = cycles[static_cast<size_t>(id)];
        if (node.kind == ExprKind::Load && node.producer == func && node.value_index == element) {
            own = 0;
            continue;
        }
        for (int32_t arg : node.args) {
            const float before = cycles[static_cast<size_t>(arg)];
            own = before == kApart ? own : std::max(own, before + latencies.cycles_after(arg, node));
        }
    }
    return cycles;
}

// The largest mean of the steps from one element to the next and so on that come back to the first; of elements once
// each, for no longer way has a larger one. `step[i][j]` is from the load of i to the store of j.
float longest_mean(std::span<const std::vector<float>> step) {
    const size_t count = step.size();
    float longest = 0;
    for (size_t start = 0; start < count; start++) {
        std::vector<float> reached(count, kApart);
        reached[start] = 0;
        for (size_t steps = 1; steps <= count; steps++) {
            std::vector<float> next(count, kApart);
            for (size_t i = 0; i < count * count; i++) {
                const size_t from = i / count, to = i % count;
                if (reached[from] != kApart && step[from][to] != kApart) {
                    next[to] = std::max(next[to], reached[from] + step[from][to]);
                }
            }
            reached = std::move(next);
            longest = std::max(longest, reached[start] / static_cast<float>(steps));
        }
    }
    return longest;
}

}  // namespace

ChainOfSteps chain_of_steps(const ExprGraph& graph, std::span<const int32_t> values, int32_t func) {
    const Latencies latencies(graph);
    std::vector<std::vector<float>> step(values.size());
    std::vector<uint8_t> is_chained(static_cast<size_t>(graph.size()));
    for (size_t from = 0; from < values.size(); from++) {
        const std::vector<float> cycles = cycles_from(graph, latencies, func, static_cast<int32_t>(from));
        for (int32_t value : values) {
            step[from].push_back(cycles[static_cast<size_t>(value)]);
        }
        for (size_t id = 0; id < cycles.size(); id++) {
            is_chained[id] |= cycles[id] != kApart;
        }
    }
    ChainOfSteps chain{longest_mean(step), 0};
    for (int32_t id = 0; id < graph.size(); id++) {
        const ExprNode& node = graph.node(id);
        chain.operations += std::ranges::any_of(node.args, [&](int32_t arg) {
            return is_chained[static_cast<size_t>(arg)] && latencies.cycles_after(arg, node) > 0;
        });
    }
    return chain;
}

}  // namespace metol
