// One Monte Carlo search tree over the decisions of a Space: selection, expansion, simulation, backpropagation.
//
// Enters: a Space, a cost model, options, a seed. Leaves: the best complete loop nest found, and what is known of each
// child of the root. A tree belongs to one thread at a time; its course depends on its seed alone. Source: ProTuner
// 2020, §4 and Table 1; progressive widening: R. Coulom, "Computing Elo ratings of move patterns in the game of Go",
// 2007; shared statistics: B. E. Childs et al., "Transpositions and move groups in Monte Carlo tree search", 2008.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "search/space.hpp"

namespace metol {

struct TreeOptions {
    // How exploration joins the value of a child: value * (1 + c sqrt(ln n / n_j)), or value + c sqrt(2 ln n / n_j).
    enum class Formula : int8_t { Product, Sum };
    // The value: 1 / mean time, mean of 1 / time, 1 / best time, or the share of simulations that beat the root's best.
    enum class Value : int8_t { MeanTime, MeanSpeed, Best, Wins };
    Formula formula = Formula::Product;
    Value value = Value::MeanTime;
    double exploration = 1.0;
    // The chance that a step of a simulation takes the best child by the cost model, not a random one.
    double greedy_share = 0.0;
    // How many steps of a simulation are its own, in the mean; all others repeat a good loop nest. Below 0: all are.
    double own_steps = -1;
    // A node visited n times has widening * n^widening_power children at most.
    double widening = 1.0;
    double widening_power = 1.0;
    // Do equal loop nests that other decisions lead to share their statistics?
    bool shares_equal = true;
};

class Tree {
  public:
    Tree(std::shared_ptr<Space> space, CostModelWeights model, const TreeOptions& options, uint64_t seed);

    // So many complete iterations, fewer where nothing is left to be seen.
    void iterate(int64_t count);
    // Goes on from a child of the root, and forgets what is not below it.
    void advance(const State& child);
    // Takes a complete loop nest below the root, found elsewhere, for one of its own. `repeats`: it is what simulations
    // repeat from now on, in place of the best.
    void learn(const State& leaf, bool repeats);

    struct Child {
        State state;
        State best_state;
        double best_seconds;
        double mean_seconds;
        int64_t visits;
    };
    std::vector<Child> children() const;

    struct Leaf {
        State state;
        double seconds;
    };
    // What is best below each node, each complete loop nest once; none that takes longer than `limit_seconds`.
    std::vector<Leaf> best_leaves(double limit_seconds) const;
    const State& root() const { return nodes_.front().state; }
    // Of all iterations so far; no state and infinity before the first.
    const State& best_state() const { return best_state_; }
    double best_seconds() const { return best_seconds_; }
    // Has everything below the root been seen?
    bool is_exhausted() const { return nodes_.front().is_closed; }
    int64_t iterations() const { return iterations_; }
    // Loop nests that were costed, those that greedy steps chose from included.
    int64_t costed() const { return costed_; }
    size_t size() const { return nodes_.size(); }

  private:
    struct Node {
        State state;
        State best_state;
        double best_seconds = std::numeric_limits<double>::infinity();
        double seconds = 0;  // sum
        double speed = 0;    // sum of 1 / seconds
        int64_t wins = 0;
        int64_t visits = 0;
        std::vector<uint32_t> children;
        Space::ChildWalk walk;
        bool is_closed = false;  // everything below has been seen
    };

    void iterate_once();
    // Extends the path to the node that is simulated from; false where there is nothing new below its last node.
    bool descend();
    bool may_widen(const Node& node) const;
    // A child that `node` did not have before, or -1 where it has all.
    int64_t expand(uint32_t node);
    // The child to go on with, or -1 where all are closed.
    int64_t select(uint32_t node) const;
    double value_of(const Node& node) const;
    // A number in [0, 1).
    double draw();
    State simulate(const State& state);
    void back_up(const State& leaf, double seconds);
    void close_path();
    uint32_t add(State state);
    // The node of a child, which is made one of `node` if it is none.
    uint32_t child_at(uint32_t node, State child);
    uint64_t random();

    std::shared_ptr<Space> space_;
    CostModelWeights model_;
    TreeOptions options_;
    uint64_t seed_;
    std::vector<Node> nodes_;                         // the root first
    std::unordered_map<uint64_t, uint32_t> by_hash_;  // where equal loop nests share a node
    std::vector<uint32_t> path_;
    State best_state_;
    std::vector<Decision> repeated_;  // the decisions that simulations repeat; empty for none
    bool repeats_best_ = true;
    double best_seconds_ = std::numeric_limits<double>::infinity();
    double root_seconds_ = std::numeric_limits<double>::infinity();  // the best when this root was chosen
    int64_t iterations_ = 0;
    int64_t costed_ = 0;
};

// Every tree makes its count of iterations, on all threads of their Space; results do not depend on how many those are.
void iterate(Space& space, std::span<Tree* const> trees, std::span<const int64_t> counts);

}  // namespace metol
