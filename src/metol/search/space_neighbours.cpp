// The loop nests around one: what differs from it in one decision, and what it becomes where some are made anew.
#include <algorithm>
#include <atomic>
#include <limits>

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

State Space::with_path(const LoopNest& nest, const std::shared_ptr<const PathNode>& before,
                       std::vector<Decision> decisions) {
    auto made = std::make_shared<LoopNest>(nest);
    made->last = decisions.back();
    decisions.pop_back();
    made->path = decisions.empty() ? before : std::make_shared<const PathNode>(before, std::move(decisions));
    return made;
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

Crossroads Space::crossroads_at(const State& state, size_t position) {
    Crossroads here;
    here.way = trajectory_of(state);
    if (!here.way) {
        return here;
    }
    here.before.funcs = here.way->funcs[position];
    here.before.decisions_made = static_cast<int32_t>(position);
    here.alternatives = decisions_of(here.before);
    std::erase(here.alternatives, here.way->decisions[position]);
    return here;
}

bool Space::turn_off(const Crossroads& here, size_t alternative, Walk& walk) {
    if (decide(here.before, here.alternatives[alternative], walk.scratch) != Pruned::None) {
        return false;
    }
    begin(walk, walk.scratch, here.way.get());
    const auto position = static_cast<size_t>(here.before.decisions_made);
    return std::ranges::all_of(std::span(here.way->decisions).subspan(position + 1),
                               [&](const Decision& wanted) { return follow_next(wanted, walk); });
}

State Space::made_by_turning_off(const Crossroads& here, size_t alternative) {
    thread_local Walk walk;
    if (!turn_off(here, alternative, walk)) {
        return nullptr;
    }
    const auto first = here.way->decisions.begin();
    std::vector<Decision> decisions(first, first + here.before.decisions_made);
    decisions.push_back(here.alternatives[alternative]);
    decisions.insert(decisions.end(), walk.made.begin(), walk.made.end());
    return with_path(walk.nest, nullptr, std::move(decisions));
}

std::vector<State> Space::neighbours(const State& state, size_t position) {
    const Crossroads here = crossroads_at(state, position);
    std::vector<State> made(here.alternatives.size());
    shared_->workers.run(made.size(), [&](size_t i) { made[i] = made_by_turning_off(here, i); });
    std::erase(made, nullptr);
    return made;
}

Surroundings Space::look_around(const State& state, size_t position, const CostModelWeights& model, double rival,
                                double margin) {
    Surroundings found{crossroads_at(state, position), {}, {}};
    std::vector<std::optional<double>> costs(found.here.alternatives.size());  // none where there is no such loop nest
    const Costing how = costing(model);
    std::atomic<double> least = rival;
    const auto limit = [&] { return how.only_adds ? least * margin : std::numeric_limits<double>::infinity(); };
    shared_->workers.run(costs.size(), [&](size_t i) {
        thread_local Walk walk;
        if (turn_off(found.here, i, walk)) {
            costs[i] = cost_of(walk.nest, how, limit());
            double before = least;
            while (*costs[i] < before && !least.compare_exchange_weak(before, *costs[i])) {
            }
        }
    });
    for (size_t i = 0; i < costs.size(); i++) {
        if (costs[i]) {
            found.which.push_back(i);
            // Which were left off early depends on the order.
            found.costs.push_back(*costs[i] > limit() ? std::numeric_limits<double>::infinity() : *costs[i]);
        }
    }
    return found;
}

State Space::take(const Surroundings& around, size_t number) {
    return made_by_turning_off(around.here, around.which[number]);
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
