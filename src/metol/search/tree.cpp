#include "search/tree.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_set>

#include "schedule/hashing.hpp"
#include "schedule/structural_hash.hpp"

namespace metol {

Tree::Tree(std::shared_ptr<Space> space, CostModelWeights model, const TreeOptions& options, uint64_t seed)
    : space_(std::move(space)), model_(std::move(model)), options_(options), seed_(mix(seed)) {
    add(space_->root());
}

uint64_t Tree::random() {
    seed_ = mix(seed_);
    return seed_;
}

double Tree::draw() {
    return static_cast<double>(random() >> 11) * 0x1p-53;
}

uint32_t Tree::add(State state) {
    const auto number = static_cast<uint32_t>(nodes_.size());
    if (options_.shares_equal) {
        by_hash_.emplace(identity_hash(*state), number);
    }
    Node node;
    node.state = std::move(state);
    nodes_.push_back(std::move(node));
    return number;
}

void Tree::iterate(int64_t count) {
    for (int64_t i = 0; i < count && !is_exhausted(); i++) {
        iterate_once();
    }
}

void Tree::iterate_once() {
    path_.assign(1, 0);
    while (!descend()) {
        close_path();
        if (is_exhausted()) {
            return;
        }
        path_.assign(1, 0);
    }
    const State leaf = simulate(nodes_[path_.back()].state);
    if (!leaf) {
        // No decision is legal here: what has nothing below it is never chosen again.
        nodes_[path_.back()].is_closed = true;
    } else {
        costed_++;
        back_up(leaf, space_->cost_of(leaf, model_));
    }
    iterations_++;
    close_path();
}

bool Tree::descend() {
    while (true) {
        const uint32_t node = path_.back();
        if (space_->is_complete(*nodes_[node].state)) {
            return nodes_[node].visits == 0;
        }
        int64_t next = -1;
        bool is_new = false;
        if (may_widen(nodes_[node])) {
            next = expand(node);
            is_new = next >= 0 && nodes_[static_cast<size_t>(next)].visits == 0;
        }
        if (next < 0) {
            next = select(node);
        }
        if (next < 0 && (next = expand(node)) >= 0) {
            is_new = nodes_[static_cast<size_t>(next)].visits == 0;
        }
        if (next < 0) {
            return false;
        }
        path_.push_back(static_cast<uint32_t>(next));
        if (is_new) {
            return true;
        }
    }
}

bool Tree::may_widen(const Node& node) const {
    if (node.walk.is_over()) {
        return false;
    }
    const auto visits = static_cast<double>(node.visits + 1);
    return static_cast<double>(node.children.size()) < options_.widening * std::pow(visits, options_.widening_power);
}

int64_t Tree::expand(uint32_t node) {
    while (State child = space_->next_child(nodes_[node].state, nodes_[node].walk, seed_)) {
        uint32_t number = 0;
        const auto known = options_.shares_equal ? by_hash_.find(identity_hash(*child)) : by_hash_.end();
        if (known == by_hash_.end()) {
            number = add(std::move(child));
        } else {
            number = known->second;
            const auto& children = nodes_[node].children;
            if (std::ranges::find(children, number) != children.end()) {
                continue;  // two candidates make the same loop nest
            }
        }
        nodes_[node].children.push_back(number);
        return number;
    }
    return -1;
}

double Tree::value_of(const Node& node) const {
    const auto visits = static_cast<double>(node.visits);
    // Multiples of the best speed, so that one constant fits quick programs and slow ones.
    switch (options_.value) {
        case TreeOptions::Value::MeanTime:
            return best_seconds_ * visits / node.seconds;
        case TreeOptions::Value::MeanSpeed:
            return best_seconds_ * node.speed / visits;
        case TreeOptions::Value::Best:
            return best_seconds_ / node.best_seconds;
        case TreeOptions::Value::Wins:
            return static_cast<double>(node.wins) / visits;
    }
    return 0;
}

int64_t Tree::select(uint32_t node) const {
    int64_t best = -1;
    double highest = -1;
    const double log_visits = std::log(static_cast<double>(std::max<int64_t>(1, nodes_[node].visits)));
    for (uint32_t number : nodes_[node].children) {
        const Node& child = nodes_[number];
        if (child.is_closed) {
            continue;
        }
        if (child.visits == 0) {
            return number;
        }
        const double share = log_visits / static_cast<double>(child.visits);
        const double value = value_of(child);
        const double bound = options_.formula == TreeOptions::Formula::Product
                                 ? value * (1 + options_.exploration * std::sqrt(share))
                                 : value + options_.exploration * std::sqrt(2 * share);
        if (bound > highest) {
            highest = bound;
            best = number;
        }
    }
    return best;
}

State Tree::simulate(const State& start) {
    // No step but the last is costed where all are random.
    State state = start;
    const auto left = static_cast<double>(space_->steps().size()) - state->decisions_made;
    const double own_share = repeated_.empty() ? 1 : options_.own_steps / std::max(1.0, left);
    while (state && !space_->is_complete(*state)) {
        State same;
        if (own_share < 1 && draw() >= own_share) {
            same = space_->child_by(state, repeated_[static_cast<size_t>(state->decisions_made)]);
        }
        if (!same) {
            same = draw() < options_.greedy_share ? space_->cheapest_child(state, model_, costed_)
                                                  : space_->random_child(state, seed_);
        }
        state = std::move(same);
    }
    return state;
}

void Tree::back_up(const State& leaf, double seconds) {
    for (uint32_t number : path_) {
        Node& node = nodes_[number];
        node.visits++;
        node.seconds += seconds;
        node.speed += 1 / seconds;
        node.wins += seconds < root_seconds_ ? 1 : 0;
        if (seconds < node.best_seconds) {
            node.best_seconds = seconds;
            node.best_state = leaf;
        }
    }
    if (seconds < best_seconds_) {
        best_seconds_ = seconds;
        best_state_ = leaf;
        if (options_.own_steps >= 0 && repeats_best_) {
            repeated_ = space_->path(*leaf);
        }
    }
}

uint32_t Tree::child_at(uint32_t node, State child) {
    const uint64_t wanted = identity_hash(*child);
    for (uint32_t number : nodes_[node].children) {
        if (identity_hash(*nodes_[number].state) == wanted) {
            return number;
        }
    }
    const auto known = options_.shares_equal ? by_hash_.find(wanted) : by_hash_.end();
    const uint32_t number = known == by_hash_.end() ? add(std::move(child)) : known->second;
    nodes_[node].children.push_back(number);
    return number;
}

void Tree::learn(const State& leaf, bool repeats) {
    const std::vector<Decision> decisions = space_->path(*leaf);
    path_.assign(1, 0);
    for (auto i = static_cast<size_t>(root()->decisions_made); i < decisions.size(); i++) {
        State child = space_->child_by(nodes_[path_.back()].state, decisions[i]);
        if (!child) {
            return;
        }
        path_.push_back(child_at(path_.back(), std::move(child)));
    }
    const State& known = nodes_[path_.back()].state;
    if (identity_hash(*known) != identity_hash(*leaf)) {
        return;  // it is not below the root
    }
    costed_++;
    back_up(known, space_->cost_of(known, model_));
    if (repeats && options_.own_steps >= 0) {
        repeated_ = decisions;
        repeats_best_ = false;
    }
    close_path();
}

void Tree::close_path() {
    for (auto number = path_.rbegin(); number != path_.rend(); ++number) {
        Node& node = nodes_[*number];
        const bool has_seen_all = space_->is_complete(*node.state)
                                      ? node.visits > 0
                                      : node.walk.is_over() && std::ranges::all_of(node.children, [&](uint32_t child) {
                                            return nodes_[child].is_closed;
                                        });
        if (!has_seen_all && !node.is_closed) {
            return;
        }
        node.is_closed = true;
    }
}

std::vector<Tree::Child> Tree::children() const {
    std::vector<Child> all;
    for (uint32_t number : nodes_.front().children) {
        const Node& node = nodes_[number];
        if (node.visits > 0) {
            all.push_back({node.state, node.best_state, node.best_seconds,
                           node.seconds / static_cast<double>(node.visits), node.visits});
        }
    }
    return all;
}

std::vector<Tree::Leaf> Tree::best_leaves(double limit_seconds) const {
    std::vector<Leaf> all;
    std::unordered_set<uint64_t> seen;
    for (const Node& node : nodes_) {
        if (node.best_state && node.best_seconds <= limit_seconds &&
            seen.insert(identity_hash(*node.best_state)).second) {
            all.push_back({node.best_state, node.best_seconds});
        }
    }
    return all;
}

void Tree::advance(const State& child) {
    const uint64_t wanted = identity_hash(*child);
    const auto& children = nodes_.front().children;
    const auto found =
        std::ranges::find_if(children, [&](uint32_t number) { return identity_hash(*nodes_[number].state) == wanted; });
    const bool is_known = found != children.end();
    const uint32_t first = is_known ? *found : 0;
    std::vector<Node> old = std::move(nodes_);
    nodes_.clear();
    by_hash_.clear();
    root_seconds_ = best_seconds_;
    if (!is_known) {
        add(child);
        return;
    }
    // Breadth first, so that the new root is the first again.
    std::unordered_map<uint32_t, uint32_t> moved;
    std::deque<uint32_t> waiting{first};
    moved.emplace(first, 0);
    while (!waiting.empty()) {
        const uint32_t number = waiting.front();
        waiting.pop_front();
        for (uint32_t& below : old[number].children) {
            const auto [place, is_new] = moved.emplace(below, static_cast<uint32_t>(moved.size()));
            if (is_new) {
                waiting.push_back(below);
            }
            below = place->second;
        }
        if (options_.shares_equal) {
            by_hash_.emplace(identity_hash(*old[number].state), moved.at(number));
        }
        nodes_.push_back(std::move(old[number]));
    }
}

void iterate(Space& space, std::span<Tree* const> trees, std::span<const int64_t> counts) {
    space.parallel(trees.size(), [&](size_t i) { trees[i]->iterate(counts[i]); });
}

}  // namespace metol
