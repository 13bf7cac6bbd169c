#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

namespace metol {

// Operands are doubles: integers of up to 53 bits are exact, and bounds computed in floating point need no second
// stack.
int64_t run_bound_program(std::span<const BoundInstruction> program, std::span<const Interval> loops) {
    std::array<double, kBoundStackDepth> stack;
    double* top = stack.data() - 1;
    const auto loop = [&](const BoundInstruction& i) -> const Interval& { return loops[static_cast<size_t>(i.value)]; };
    const auto floor_divide = [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); };
    for (const BoundInstruction& i : program) {
        switch (i.op) {
            case BoundOp::PushConst:
                *++top = static_cast<double>(i.value);
                break;
            case BoundOp::PushMin:
                *++top = static_cast<double>(loop(i).min);
                break;
            case BoundOp::PushMax:
                *++top = static_cast<double>(loop(i).max);
                break;
            case BoundOp::PushFloat:
                *++top = std::bit_cast<double>(i.value);
                break;
            case BoundOp::Add:
                top--, *top = top[0] + top[1];
                break;
            case BoundOp::Sub:
                top--, *top = top[0] - top[1];
                break;
            case BoundOp::Mul:
                top--, *top = top[0] * top[1];
                break;
            case BoundOp::Div:
                top--, *top = floor_divide(top[0], top[1]);
                break;
            case BoundOp::Mod:
                top--, *top = top[1] == 0 ? 0 : top[0] - top[1] * floor_divide(top[0], top[1]);
                break;
            case BoundOp::Min:
                top--, *top = std::min(top[0], top[1]);
                break;
            case BoundOp::Max:
                top--, *top = std::max(top[0], top[1]);
                break;
            case BoundOp::Lt:
                top--, *top = top[0] < top[1];
                break;
            case BoundOp::Le:
                top--, *top = top[0] <= top[1];
                break;
            case BoundOp::Eq:
                top--, *top = top[0] == top[1];
                break;
            case BoundOp::Ne:
                top--, *top = top[0] != top[1];
                break;
            case BoundOp::And:
                top--, *top = top[0] != 0 && top[1] != 0;
                break;
            case BoundOp::Or:
                top--, *top = top[0] != 0 || top[1] != 0;
                break;
            case BoundOp::Not:
                *top = *top == 0;
                break;
            case BoundOp::Select:
                top -= 2, *top = top[0] != 0 ? top[1] : top[2];
                break;
            case BoundOp::FloatDiv:
                top--, *top = top[0] / top[1];
                break;
            case BoundOp::Floor:
                *top = std::floor(*top);
                break;
            case BoundOp::Ceil:
                *top = std::ceil(*top);
                break;
            case BoundOp::Round:
                *top = std::nearbyint(*top);
                break;
            case BoundOp::Trunc:
                *top = std::trunc(*top);
                break;
            case BoundOp::Sqrt:
                *top = std::sqrt(*top);
                break;
            case BoundOp::Exp:
                *top = std::exp(*top);
                break;
            case BoundOp::Log:
                *top = std::log(*top);
                break;
        }
    }
    // A float bound may leave the integers (log of 0): stay inside what an int32 coordinate can be.
    constexpr double limit = 2147483647.0;
    return std::isnan(*top) ? 0 : static_cast<int64_t>(std::clamp(*top, -limit, limit));
}

std::vector<Interval> loop_intervals(const Stage& stage, std::span<const Interval> required) {
    std::vector<Interval> loops;
    loops.reserve(stage.loops.size());
    for (const LoopDim& loop : stage.loops) {
        loops.push_back(evaluate(loop.bounds, required));
    }
    return loops;
}

void grow(std::vector<Interval>& whole, std::span<const Interval> region) {
    if (whole.empty()) {
        whole.assign(region.begin(), region.end());
        return;
    }
    for (size_t d = 0; d < whole.size(); d++) {
        include(whole[d], region[d]);
    }
}

bool is_within(std::span<const Interval> part, std::span<const Interval> whole) {
    for (size_t d = 0; d < part.size(); d++) {
        if (part[d].min < whole[d].min || part[d].max > whole[d].max) {
            return false;
        }
    }
    return true;
}

void grow_by_reads(const PipelineDag& dag, const Func& func, std::span<const Interval> computed,
                   std::vector<std::vector<Interval>>& required) {
    std::vector<Interval> region;
    for (int32_t s : func.stages) {
        const Stage& stage = dag.stages[static_cast<size_t>(s)];
        const std::vector<Interval> loops = loop_intervals(stage, computed);
        for (const Edge& edge : stage.edges) {
            region.resize(edge.bounds.size());
            evaluate(edge.bounds, loops, region);
            grow(required[static_cast<size_t>(edge.producer)], region);
        }
    }
}

namespace {

// The region required of each Func for outputs of which `region_of` tells the region along a dimension.
std::vector<std::vector<Interval>> required_for(const PipelineDag& dag,
                                                const std::function<Interval(const Interval&)>& region_of) {
    std::vector<std::vector<Interval>> required(dag.funcs.size());
    for (int32_t output : dag.outputs) {
        std::vector<Interval> region = dag.funcs[static_cast<size_t>(output)].estimate;
        std::ranges::transform(region, region.begin(), region_of);
        grow(required[static_cast<size_t>(output)], region);
    }
    for (size_t f = dag.funcs.size(); f-- > 0;) {
        const std::vector<Interval> computed = required[f];
        grow_by_reads(dag, dag.funcs[f], computed, required);
    }
    return required;
}

}  // namespace

void propagate_root_regions(PipelineDag& dag) {
    const auto estimated = required_for(dag, [](const Interval& side) { return side; });
    const auto of_points = required_for(dag, [](const Interval& side) { return Interval{side.min, side.min}; });
    const auto of_all = required_for(dag, [](const Interval&) { return kAnywhere; });
    for (size_t f = 0; f < dag.funcs.size(); f++) {
        Func& func = dag.funcs[f];
        func.root_region = estimated[f];
        func.fixed_dims.assign(static_cast<size_t>(func.dimensions()), false);
        for (size_t d = 0; d < std::min(of_points[f].size(), func.fixed_dims.size()); d++) {
            func.fixed_dims[d] = of_points[f][d] == of_all[f][d];
        }
    }
}

}  // namespace metol
