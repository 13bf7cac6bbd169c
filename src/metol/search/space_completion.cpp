// The quickest way from a loop nest to a complete one: each decision that is left is made as is cheapest now.
#include <limits>
#include <numeric>

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
        return cost_of(candidate, costing);
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
        for (const DecisionFamily& family : families(nest)) {
            for (int64_t number = 0; number < family.count(); number++) {
                const Decision decision = family.decode(number);
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
    }
    if (taken) {
        std::swap(nest, cheapest);
    }
    return taken;
}

Completed Space::complete_greedily(std::span<const State> states, const CostModelWeights& model) {
    Completed completed;
    completed.states.resize(states.size());
    completed.costs.resize(states.size());
    std::vector<int64_t> candidates(states.size(), 0);
    const Costing how = costing(model);
    shared_->workers.run(states.size(), [&](size_t i) {
        LoopNest nest = *states[i];
        std::vector<Decision> decisions;
        while (!is_complete(nest)) {
            const std::optional<Decision> taken = take_cheapest(nest, how, candidates[i]);
            if (!taken) {
                return;
            }
            decisions.push_back(*taken);
        }
        completed.states[i] = decisions.empty() ? states[i] : with_path(nest, path_through(*states[i]), decisions);
        completed.costs[i] = cost_of(nest, how);
    });
    completed.candidates = std::accumulate(candidates.begin(), candidates.end(), int64_t{0});
    for (size_t i = states.size(); i > 0; i--) {
        if (completed.states[i - 1] == nullptr) {
            completed.states.erase(completed.states.begin() + static_cast<std::ptrdiff_t>(i - 1));
            completed.costs.erase(completed.costs.begin() + static_cast<std::ptrdiff_t>(i - 1));
        }
    }
    return completed;
}

}  // namespace metol
