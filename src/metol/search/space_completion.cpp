// The quickest way from a loop nest to a complete one: each decision that is left is made as is cheapest now.
#include <limits>

#include "search/space_shared.hpp"

namespace metol {

std::optional<Decision> Space::take_cheapest(LoopNest& nest, const Costing& costing, int64_t& candidates) {
    // Seen by nobody but this loop, so that no state is allocated.
    thread_local LoopNest child;
    thread_local LoopNest cheapest;
    std::optional<Decision> taken;
    double least = std::numeric_limits<double>::infinity();
    const auto look_at = [&](const LoopNest& candidate) {
        candidates++;
        return cost_of(candidate, costing, least);
    };
    if (options_.sample_depth >= 0) {
        // Which are looked at depends on all of them.
        for (const State& state : children(std::make_shared<const LoopNest>(nest))) {
            if (const double seconds = look_at(*state); !taken || seconds < least) {
                least = seconds;
                taken = state->last;
                cheapest = *state;
            }
        }
    } else {
        for (const Decision& decision : decisions_of(nest)) {
            if (decide(nest, decision, child) != Pruned::None) {
                continue;
            }
            if (const double seconds = look_at(child); !taken || seconds < least) {
                least = seconds;
                taken = decision;
                std::swap(cheapest, child);
            }
        }
    }
    if (taken) {
        std::swap(nest, cheapest);
    }
    return taken;
}

State Space::cheapest_child(const State& state, const CostModelWeights& model, int64_t& candidates) {
    LoopNest nest = *state;
    const std::optional<Decision> taken = take_cheapest(nest, costing(model), candidates);
    return taken ? with_path(nest, path_through(*state), {*taken}) : nullptr;
}

Completed Space::complete_greedily(std::span<const State> states, const CostModelWeights& model) {
    struct End {
        State state;  // null where there is none
        double seconds = 0;
        int64_t candidates = 0;
    };
    std::vector<End> ends(states.size());
    const Costing how = costing(model);
    shared_->workers.run(states.size(), [&](size_t i) {
        End& end = ends[i];
        LoopNest nest = *states[i];
        std::vector<Decision> decisions;
        while (!is_complete(nest)) {
            const std::optional<Decision> taken = take_cheapest(nest, how, end.candidates);
            if (!taken) {
                return;
            }
            decisions.push_back(*taken);
        }
        end.state = decisions.empty() ? states[i] : with_path(nest, path_through(*states[i]), decisions);
        end.seconds = cost_of(nest, how, std::numeric_limits<double>::infinity());
    });
    Completed completed;
    for (End& end : ends) {
        completed.candidates += end.candidates;
        if (end.state) {
            completed.states.push_back(std::move(end.state));
            completed.costs.push_back(end.seconds);
        }
    }
    return completed;
}

}  // namespace metol
