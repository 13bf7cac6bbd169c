#include "search/trajectory.hpp"

#include <algorithm>

namespace metol {

namespace {

// The Func at root in whose loops a Func is computed; itself where it is at root.
int root_of(const PipelineIndex& index, const std::vector<const FuncSchedule*>& funcs, int func) {
    while (funcs[static_cast<size_t>(func)]->placement == Placement::At) {
        func = index.stage(funcs[static_cast<size_t>(func)]->compute.stage).func;
    }
    return func;
}

}  // namespace

void Trajectory::add(const Decision& decision, const LoopNest& nest) {
    std::vector<int32_t> different;
    for (size_t func = 0; func < nest.funcs.size(); func++) {
        if (nest.funcs[func] != funcs.back()[func]) {
            different.push_back(static_cast<int32_t>(func));
        }
    }
    decisions.push_back(decision);
    funcs.push_back(nest.funcs);
    changed.push_back(std::move(different));
}

void Trajectory::advance(LoopNest& nest) const {
    const auto step = static_cast<size_t>(nest.decisions_made);
    for (const int32_t func : changed[step]) {
        nest.funcs[static_cast<size_t>(func)] = funcs[step + 1][static_cast<size_t>(func)];
    }
    nest.decisions_made++;
}

void Beside::compare(const PipelineIndex& index, const Trajectory& trajectory, const LoopNest& nest) {
    const Funcs& others = trajectory.funcs[static_cast<size_t>(nest.decisions_made)];
    const size_t count = others.size();
    differs_.assign(count, 0);
    contains_.assign(count, 0);
    reads_.assign(count, 0);
    is_same_ = true;
    for (size_t i = 0; i < count; i++) {
        if (nest.funcs[i] == others[i]) {
            continue;
        }
        const int func = static_cast<int>(i);
        differs_[i] = 1;
        is_same_ = false;
        mark(index, nest.funcs, func, contains_);
        mark(index, others, func, contains_);
        if (nest.funcs[i]->innermost_dim != others[i]->innermost_dim) {
            mark_readers(index, nest.funcs, func, reads_);
            mark_readers(index, others, func, reads_);
        }
    }
}

void Beside::mark(const PipelineIndex& index, const Funcs& funcs, int func, std::vector<uint8_t>& roots) {
    const Placement placement = funcs[static_cast<size_t>(func)]->placement;
    if (placement == Placement::Inline) {
        mark_readers(index, funcs, func, roots);  // it is part of every loop nest that it is inlined into
    } else if (placement != Placement::Unscheduled) {
        roots[static_cast<size_t>(root_of(index, funcs, func))] = 1;
    }
}

void Beside::mark_readers(const PipelineIndex& index, const Funcs& funcs, int func, std::vector<uint8_t>& roots) {
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        if (const int reader = index.stage(consumer.stage).func; reader != func) {
            mark(index, funcs, reader, roots);
        }
    }
}

bool Beside::are_readers_alike(const PipelineIndex& index, const Funcs& funcs, int func, bool with_layouts) const {
    return std::ranges::all_of(index.consumers[static_cast<size_t>(func)], [&](const Consumer& consumer) {
        const int reader = index.stage(consumer.stage).func;
        if (reader == func) {
            return true;
        }
        if (differs_[static_cast<size_t>(reader)] != 0) {
            return false;
        }
        if (funcs[static_cast<size_t>(reader)]->placement == Placement::Inline) {
            return are_readers_alike(index, funcs, reader, with_layouts);
        }
        const auto root = static_cast<size_t>(root_of(index, funcs, reader));
        return contains_[root] == 0 && (!with_layouts || reads_[root] == 0);
    });
}

bool Beside::is_next_alike(const PipelineIndex& index, const Trajectory& trajectory, size_t step) const {
    const Decision& decision = trajectory.decisions[step];
    if (is_same_ || decision.kind == DecisionKind::Keep) {
        return true;
    }
    const auto func = static_cast<size_t>(decision.func);
    if (differs_[func] != 0) {
        return false;
    }
    const Funcs& funcs = trajectory.funcs[step];
    switch (decision.kind) {
        case DecisionKind::Inline:  // the tile of a reader is rolled up where it holds too much, gathers included
            return are_readers_alike(index, funcs, decision.func, true);
        case DecisionKind::Root:
        case DecisionKind::At:
            return are_readers_alike(index, funcs, decision.func, false);
        case DecisionKind::Inner:
        case DecisionKind::Reduction:
        case DecisionKind::Parallel:
        case DecisionKind::Storage:
            return contains_[static_cast<size_t>(root_of(index, funcs, decision.func))] == 0 &&
                   (funcs[func]->placement == Placement::Root || are_readers_alike(index, funcs, decision.func, false));
        default:
            return false;  // about several sub-nests
    }
}

}  // namespace metol
