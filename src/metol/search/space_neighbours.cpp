// The loop nests around one: what differs from it in one decision, and what it becomes where some are made anew.
#include <algorithm>

#include "search/space_shared.hpp"
#include "search/trajectory.hpp"

namespace metol {

bool Space::advance(LoopNest& nest, const Decision& decision, LoopNest& scratch) {
    if (decide(nest, decision, scratch) != Pruned::None) {
        return false;
    }
    std::swap(nest, scratch);
    return true;
}

bool Space::follow_one(const Decision& wanted, LoopNest& nest, LoopNest& scratch, std::vector<Decision>& made) {
    const DecisionStep& step = steps_[static_cast<size_t>(nest.decisions_made)];
    const bool is_location = step.kind == DecisionStep::Kind::Location;
    Decision keep;
    keep.func = step.func;
    keep.stage = step.stage;
    Decision decision = wanted;
    bool is_made = target_->is_offered(*index_, nest, wanted) && advance(nest, decision, scratch);
    if (!is_made) {
        keep.kind = is_location ? DecisionKind::Root : DecisionKind::Keep;
        if (!target_->is_offered(*index_, nest, keep)) {  // a copy on a GPU
            keep.kind = DecisionKind::Inline;
        }
        decision = keep;
        is_made = advance(nest, decision, scratch);
    }
    if (is_made) {
        made.push_back(decision);
    }
    return is_made;
}

// A loop nest on its way to the end, perhaps beside another one that has been there.
struct Space::Walk {
    LoopNest nest;
    LoopNest scratch;  // the states on the way are seen by nobody: two of them in turn are enough
    const Trajectory* other = nullptr;
    Beside common;
    std::vector<Decision> made;
};

void Space::begin(Walk& walk, const LoopNest& nest, const Trajectory* other) const {
    walk.nest = nest;
    const bool is_complete = other != nullptr && other->decisions.size() == steps_.size();
    walk.other = is_complete && target_->decides_by_sub_nests() ? other : nullptr;
    walk.made.clear();
    if (walk.other != nullptr) {
        walk.common.compare(*index_, *walk.other, walk.nest);
    }
}

bool Space::follow_next(const Decision& wanted, Walk& walk) {
    const auto step = static_cast<size_t>(walk.nest.decisions_made);
    const Trajectory* other = walk.other;
    if (other != nullptr && wanted == other->decisions[step] && walk.common.is_next_alike(*index_, *other, step)) {
        other->advance(walk.nest);
        walk.made.push_back(wanted);
        return true;
    }
    if (!follow_one(wanted, walk.nest, walk.scratch, walk.made)) {
        return false;
    }
    if (other != nullptr) {
        walk.common.compare(*index_, *other, walk.nest);
    }
    return true;
}

State Space::follow(const State& state, std::span<const Decision> decisions, const Trajectory& other) {
    if (decisions.empty()) {
        return state;
    }
    thread_local Walk walk;
    begin(walk, *state, &other);
    for (const Decision& wanted : decisions) {
        if (!follow_next(wanted, walk)) {
            return nullptr;
        }
    }
    auto made = std::make_shared<LoopNest>(walk.nest);
    made->last = walk.made.back();
    walk.made.pop_back();
    made->path = std::make_shared<const PathNode>(path_through(*state), walk.made);
    return made;
}

std::shared_ptr<const Trajectory> Space::trajectory_of(const State& state) {
    std::shared_ptr<const Trajectory> last;
    {
        const std::lock_guard lock(trajectory_mutex_);
        if (trajectory_end_ == state) {
            return trajectory_;
        }
        last = trajectory_;
    }
    // What is asked about next is mostly a neighbour of the last.
    Walk walk;
    begin(walk, *root(), last.get());
    auto trajectory = std::make_shared<Trajectory>();
    trajectory->funcs.push_back(walk.nest.funcs);
    for (const Decision& decision : path(*state)) {
        if (!follow_next(decision, walk)) {
            return nullptr;
        }
        trajectory->add(walk.made.back(), walk.nest);
    }
    const std::lock_guard lock(trajectory_mutex_);
    trajectory_end_ = state;
    return trajectory_ = std::move(trajectory);
}

std::vector<State> Space::neighbours(const State& state, size_t position) {
    const std::shared_ptr<const Trajectory> trajectory = trajectory_of(state);
    if (!trajectory) {
        return {};
    }
    const std::span<const Decision> all(trajectory->decisions);
    LoopNest before;
    before.funcs = trajectory->funcs[position];
    before.decisions_made = static_cast<int32_t>(position);
    std::vector<Decision> alternatives;
    for (const DecisionFamily& family : families(before)) {
        for (int64_t number = 0; number < family.count(); number++) {
            if (const Decision other = family.decode(number); other != all[position]) {
                alternatives.push_back(other);
            }
        }
    }
    std::vector<State> made(alternatives.size());
    std::shared_ptr<const PathNode> path_before;
    if (position > 0) {
        path_before = std::make_shared<const PathNode>(nullptr, std::vector(all.begin(), all.begin() + position));
    }
    shared_->workers.run(alternatives.size(), [&](size_t i) {
        Pruned reason = Pruned::None;
        if (State changed = make_child(before, path_before, alternatives[i], reason)) {
            made[i] = follow(changed, all.subspan(position + 1), *trajectory);
        }
    });
    std::erase(made, nullptr);
    return made;
}

std::vector<State> Space::amended(const State& base, std::span<const std::vector<Decision>> variants) {
    std::vector<State> made(variants.size());
    shared_->workers.run(variants.size(), [&](size_t i) {
        LoopNest nest = *base;
        LoopNest scratch;
        for (const Decision& decision : variants[i]) {
            if (!target_->is_offered(*index_, nest, decision) || !advance(nest, decision, scratch)) {
                return;
            }
        }
        nest.path = nullptr;
        nest.decisions_made = static_cast<int32_t>(steps_.size());
        made[i] = std::make_shared<const LoopNest>(std::move(nest));
    });
    return made;
}

}  // namespace metol
